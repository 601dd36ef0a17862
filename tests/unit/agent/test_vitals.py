import pytest
from shoal.agent.roster import node_vitals
from shoal.agent.vitals import SAMPLE_SECONDS, Sampler, pretended, row
from shoal.gossip import Vitals

FOUND = {
    "load1_centi": 150,
    "cpu_busy_permille": 420,
    "ram_available_mb": 9000,
    "gpu_vram_free_mb": 7000,
    "gpu_vram_free_total_mb": 15000,
    "psi_cpu_some_avg10_centi": 12,
    "psi_memory_some_avg10_centi": 501,
    "psi_memory_full_avg10_centi": 3,
    "thermal_max_celsius": 71,
    "battery_percent": 80,
    "power_source": "battery",
}


def test_every_vital_that_was_found_is_in_the_row():
    assert row(FOUND, reserved_mib=2048) == Vitals(
        load1_centi=150,
        cpu_busy_permille=420,
        available_mib=9000,
        reserved_mib=2048,
        gpu_best_free_mib=7000,
        gpu_total_free_mib=15000,
        psi_cpu_some_centi=12,
        psi_memory_some_centi=501,
        psi_memory_full_centi=3,
        thermal_celsius=71,
        battery_percent=80,
        pressure_level=2,
        power_source=1,
    )


def test_what_was_not_found_is_unknown():
    assert row({}, reserved_mib=0) == Vitals(reserved_mib=0)


@pytest.mark.parametrize("key", FOUND)
@pytest.mark.parametrize("junk", ["many", True, ""])
def test_a_value_of_another_kind_is_unknown(key, junk):
    without = {name: value for name, value in FOUND.items() if name != key}
    assert row({**FOUND, key: junk}, 0) == row(without, 0)


@pytest.mark.parametrize(
    ("some", "level"),
    [(0, "none"), (99, "none"), (100, "low"), (499, "low"), (500, "medium"), (1499, "medium"), (1500, "high")],
)
def test_memory_pressure_has_four_levels(some, level):
    assert node_vitals(row({"psi_memory_some_avg10_centi": some}, 0)).pressure == level


@pytest.mark.parametrize(("source", "word"), [("ac", "ac"), ("battery", "battery"), ("solar", None)])
def test_the_power_source_arrives_as_the_same_word(source, word):
    assert node_vitals(row({"power_source": source}, 0)).power_source == word


def test_what_a_node_samples_arrives_at_the_others():
    packed = row(FOUND, reserved_mib=1).pack()
    assert Vitals.unpack(packed) == row(FOUND, reserved_mib=1)


def test_amounts_past_the_fields_are_the_most_they_can_say():
    assert Vitals.unpack(row({"ram_available_mb": 2**40}, 0).pack()).available_mib == 2**24 - 2


def test_a_pretended_machine_is_idle_with_the_memory_that_it_claims():
    found = pretended({"ram_mb": 131072, "gpu_vram_mb": 24564, "region": "us-east"})
    vitals = row(found, 0)
    assert (vitals.available_mib, vitals.gpu_best_free_mib, vitals.load1_centi) == (131072, 24564, 0)
    assert row(pretended({"ram_mb": "plenty", "gpu_vram_mb": True}), 0).available_mib is None


def test_a_sample_is_handed_on_at_once():
    taken = []
    Sampler(lambda: Vitals(load1_centi=len(taken)), taken.append, lambda seconds: seconds).once()
    assert taken == [Vitals(load1_centi=0)]
    assert SAMPLE_SECONDS <= 1.0, "own vitals ride in a ping each second"

from __future__ import annotations

import attrs
import pytest
from shoal.gossip.errors import WireError
from shoal.gossip.vitals import PACKED_BYTES, Vitals, worth_telling

FULL = Vitals(
    counter=7,
    load1_centi=123,
    cpu_busy_permille=999,
    available_mib=123_456,
    reserved_mib=0,
    gpu_best_free_mib=24_000,
    gpu_total_free_mib=48_000,
    psi_cpu_some_centi=10_000,
    psi_memory_some_centi=1,
    psi_memory_full_centi=0,
    thermal_celsius=71,
    battery_percent=100,
    pressure_level=3,
    thermal_state=2,
    power_source=1,
)


def test_a_row_is_thirty_bytes_and_comes_back():
    assert len(FULL.pack()) == PACKED_BYTES == 30
    assert Vitals.unpack(FULL.pack()) == FULL


def test_all_ones_means_unknown():
    assert Vitals.unpack(b"\xff" * 30) == Vitals(counter=2**32 - 1)
    assert Vitals(counter=2**32 - 1).pack() == b"\xff" * 30


def test_zero_is_a_value():
    assert Vitals.unpack(bytes(30)).available_mib == 0


@pytest.mark.parametrize("field", [f.name for f in attrs.fields(Vitals) if f.name != "counter"])
def test_a_value_out_of_range_is_sent_as_the_nearest(field):
    assert getattr(Vitals.unpack(Vitals(**{field: 1 << 40}).pack()), field) > 0
    assert getattr(Vitals.unpack(Vitals(**{field: -5}).pack()), field) == 0


@pytest.mark.parametrize("size", [0, 29, 31])
def test_another_length_is_refused(size):
    with pytest.raises(WireError, match="30 bytes"):
        Vitals.unpack(bytes(size))


@pytest.mark.parametrize(
    ("change", "worth"),
    [
        ({}, False),
        ({"counter": 8}, False),
        ({"available_mib": 123_456 - 300}, False),
        ({"available_mib": 100_000}, True),
        ({"load1_centi": 140}, False),
        ({"load1_centi": 180}, True),
        ({"reserved_mib": 1}, True),
        ({"thermal_celsius": None}, True),
        ({"power_source": 0}, True),
    ],
)
def test_only_a_quantum_is_worth_a_new_row(change, worth):
    assert worth_telling(FULL, attrs.evolve(FULL, **change)) is worth

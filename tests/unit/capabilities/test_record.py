import attrs
import pytest
from shoal.capabilities.devices import MAX_GROUPS, DeviceGroup
from shoal.capabilities.errors import ValueRefused
from shoal.capabilities.record import NodeCapabilities
from shoal.capabilities.requirement import PlacementRequirement

T4 = DeviceGroup(kind="gpu", vendor="nvidia", model="t4", vram_mb=15360)


def test_labels_are_sorted_and_read_only():
    record = NodeCapabilities({"b": 1, "a": True, "C": "x"})
    assert list(record.labels) == ["C", "a", "b"]
    with pytest.raises(TypeError):
        record.labels["a"] = False
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        record.labels = {}


def test_the_given_mapping_is_copied():
    given = {"a": 1}
    record = NodeCapabilities(given)
    given["a"] = 2
    assert record.get("a") == 1


def test_get_and_set():
    record = NodeCapabilities({"a": 1})
    changed = record.set("b", "x")
    assert (record.get("b"), record.get("b", 7), changed.get("b")) == (None, 7, "x")
    assert changed.set("a", False).get("a") is False


def test_custom_labels():
    detected = NodeCapabilities({"arch": "amd64", "ram_mb": 4096}, [T4])
    merged = detected.with_labels({"region": "us-east", "ram_mb": 2048, "spot": True})
    assert dict(merged.labels) == {"arch": "amd64", "ram_mb": 2048, "region": "us-east", "spot": True}
    assert merged.devices == detected.devices
    assert detected.get("region") is None
    assert merged.satisfies(PlacementRequirement().equals("region", "us-east").max_int("ram_mb", 2048))


@pytest.mark.parametrize(
    "labels", [{"a": 1.5}, {"a": None}, {"1": 1}, {"a b": 1}, {"a": 2**63}, {"a": "x" * 257}, {5: 5}]
)
def test_illegal_labels_are_refused(labels):
    with pytest.raises(ValueRefused):
        NodeCapabilities(labels)


def test_equality_and_hash_look_at_types():
    one, true, text = (NodeCapabilities({"a": value}) for value in (1, True, "1"))
    assert one != true
    assert one != text
    assert one == NodeCapabilities({"a": 1})
    assert hash(one) == hash(NodeCapabilities({"a": 1}))
    assert one != {"a": 1}
    assert len({one, true, text, NodeCapabilities({"a": 1})}) == 3


def test_digest_is_of_the_content():
    record = NodeCapabilities({"b": 1, "a": "x"}, [T4])
    assert len(record.digest) == 8
    assert record.digest == NodeCapabilities({"a": "x", "b": 1}, [T4]).digest
    others = [record.set("a", "y"), record.set("b", True), record.set("c", 1), NodeCapabilities(record.labels)]
    assert len({record.digest, *(other.digest for other in others)}) == 5


def test_equal_devices_become_one_group():
    record = NodeCapabilities(devices=[T4] * 8)
    assert record.devices == (attrs.evolve(T4, count=8),)


def test_too_many_different_devices_are_refused():
    with pytest.raises(ValueRefused):
        NodeCapabilities(devices=[DeviceGroup(kind="gpu", vram_mb=size) for size in range(MAX_GROUPS + 1)])


def test_facts_of_a_newer_version_are_kept_apart():
    record = NodeCapabilities({"a": 1}, unlisted=[(60000, "x"), (50000, True)])
    assert record.unlisted == ((50000, True), (60000, "x"))
    assert record.set("a", 2).unlisted == record.unlisted
    assert record != NodeCapabilities({"a": 1}, unlisted=[(60000, "x"), (50000, 1)])
    for bad in [[(0, 1)], [(60000, 1), (60000, 2)], [(-1, 1)], [(70000, 1)], [(60000, None)]]:
        with pytest.raises(ValueRefused):
            NodeCapabilities(unlisted=bad)

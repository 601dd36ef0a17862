import attrs
import pytest
from shoal.placement import NodeState, NodeVitals, Tier, UnknownNode, View
from shoal.placement.bits import mask_of, selectors, slots_of, wide_mask
from shoal.placement.slots import in_slots


def test_a_view_is_replaced_never_changed(node):
    first = View.of([node("a", {}), node("b", {})], here="a")
    second = first.replace(node("a", {"zone": "x"}))
    third = second.remove("b").replace(node("c", {}))
    assert first.get("a").get("zone") is None
    assert second.get("a").get("zone") == "x"
    assert [record.name for record in third.records] == ["a", "c"]
    assert (len(first), len(second), len(third)) == (2, 2, 2)
    assert "b" in first
    assert "b" not in third
    assert third.here == "a"
    assert third.with_isolated(isolated=True).isolated
    assert third.remove("nobody").records == third.records


def test_the_later_of_two_records_of_a_node_counts(node):
    view = View.of([node("a", {}), node("a", {"zone": "x"})])
    assert [record.get("zone") for record in view] == ["x"]


def test_a_node_without_a_record_has_no_label_and_says_so(node):
    record = node("a", {"rack": 7, "burst": False})
    assert (record.get("rack"), record.get("burst", True), record.get("zone"), record.get("zone", "x")) == (
        7, False, None, "x",
    )  # fmt: skip
    unknown = attrs.evolve(record, capabilities=None)
    assert (unknown.get("rack"), unknown.get("rack", 1)) == (None, 1)


def test_nodes_are_named_by_id_or_by_a_name_that_is_unique(node):
    view = View.of([node("one", {}, node_id="1"), node("two", {}, node_id="2"), node("two", {}, node_id="3")])
    assert view.named("2").node_id == "2"
    assert view.named("one").node_id == "1"
    with pytest.raises(UnknownNode, match="2 nodes are called 'two'"):
        view.named("two")
    with pytest.raises(UnknownNode, match="did you mean 'one'"):
        view.named("ones")
    assert view.capabilities_of("none") is None


@pytest.mark.parametrize(
    ("state", "age", "tier"),
    [
        (NodeState.ALIVE, 120, Tier.FRESH),
        (NodeState.ALIVE, 121, Tier.STALE),
        (NodeState.ALIVE, None, Tier.STALE),
        (NodeState.SUSPECT, 1, Tier.SUSPECT),
        (NodeState.LEFT, 1, Tier.GONE),
    ],
)
def test_tiers(node, now, state, age, tier):
    record = node("a", {}, state=state, age=age) if age is not None else node("a", {}, free=None, state=state)
    assert record.tier(now) is tier
    assert record.age(now) == age
    assert record.age(0.0) in (0.0, None)


def test_reserved_is_what_the_leases_say_or_the_vitals(node):
    record = attrs.evolve(node("a", {}), vitals=NodeVitals(reserved_mb=5))
    assert (record.reserved, attrs.evolve(record, reserved_mb=7).reserved, node("b").reserved) == (5, 7, 0)


@pytest.mark.parametrize("slots", [[], [0], [63, 64, 65], [5, 700, 9999], list(range(0, 300, 2))])
def test_sets_of_slots(slots):
    mask = mask_of(slots)
    assert wide_mask(slots, 10_000) == mask
    assert slots_of(mask) == slots
    assert [slot for slot, there in enumerate(selectors(mask)) if there] == slots
    assert in_slots(range(10_000)).chosen(mask) == slots


def test_slots_grow_one_by_one_and_keep_old_versions():
    versions = [in_slots([])]
    for slot in range(200):
        versions.append(versions[-1].set(slot, slot))
    assert [list(version) for version in versions[::50]] == [list(range(size)) for size in range(0, 201, 50)]
    assert list(versions[3].set(1, None)) == [0, None, 2]
    assert versions[3].set(1, None).chosen(0b111) == [0, 2]

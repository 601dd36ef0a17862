from collections import Counter

import pytest
from shoal.capabilities.requirement import PlacementRequirement
from shoal.placement import (
    AntiAffinity,
    NodeState,
    OptionRefused,
    Options,
    Preference,
    Schedulable,
    Spread,
    View,
    find_suitable_nodes,
)

ANY = PlacementRequirement()
GPU = PlacementRequirement().is_true("gpu_nvidia").min_int("gpu_vram_mb", 8000)


def names(found):
    return [record.name for record in found.nodes]


def test_find_suitable_nodes(node, now):
    view = View.of(
        [
            node("big", {"gpu_nvidia": True, "gpu_vram_mb": 24564, "region": "eu"}, load=800),
            node("idle", {"gpu_nvidia": True, "gpu_vram_mb": 16384, "region": "us"}, load=10),
            node("small", {"gpu_nvidia": True, "gpu_vram_mb": 4096}),
            node("plain", {"gpu_nvidia": False}),
            node("unheard"),
        ]
    )
    assert names(find_suitable_nodes(view, GPU, now=now)) == ["idle", "big"]
    assert names(find_suitable_nodes(view, GPU, 1, now=now)) == ["idle"]
    assert find_suitable_nodes(view, GPU, 1, now=now).matching == 2
    assert names(find_suitable_nodes(view, GPU.equals("region", "eu"), now=now)) == ["big"]
    assert names(find_suitable_nodes(view, GPU.equals("region", "mars"), now=now)) == []


def test_an_empty_requirement_matches_every_node_also_without_a_record(node, now):
    view = View.of([node("a", {}), node("b")])
    assert names(find_suitable_nodes(view, ANY, now=now)) == ["a", "b"]


def test_order_is_load_then_memory_then_name_then_id(node, now):
    view = View.of(
        [
            node("zeta", {}, load=0, free=3000),
            node("beta", {}, load=20, free=9000),
            node("alfa", {}, load=20, free=9100),
            node("roomy", {}, load=20, free=15000),
            node("busy", {}, load=400, free=15000),
            node("silent", {}, free=None),
            node("twin", {}, load=40, node_id="2" * 32),
            node("twin", {}, load=0, node_id="1" * 32),
        ]
    )
    # A quarter of a load on four CPUs is no eighth yet: all but `busy` are equally idle.
    found = find_suitable_nodes(view, ANY, now=now)
    assert names(found) == ["roomy", "alfa", "beta", "twin", "twin", "zeta", "busy", "silent"]
    assert [record.node_id[0] for record in found.nodes if record.name == "twin"] == ["1", "2"]


def test_an_unknown_load_comes_last_in_its_tier(node, now):
    view = View.of([node("a", {"cpu_usable_milli": 0}, load=0), node("b", {}, load=9900)])
    assert names(find_suitable_nodes(view, ANY, now=now)) == ["b", "a"]


def test_fresh_comes_before_stale_and_stale_before_suspect(node, now):
    view = View.of(
        [
            node("suspect", {}, state=NodeState.SUSPECT),
            node("stale", {}, age=121),
            node("never", {}, free=None),
            node("fresh", {}, load=9000, age=120),
        ]
    )
    assert names(find_suitable_nodes(view, ANY, now=now)) == ["fresh", "stale", "never", "suspect"]
    assert names(find_suitable_nodes(view, ANY, now=now, options=Options(strict=True))) == ["fresh", "stale", "never"]


def test_unschedulable_and_gone_nodes_are_never_listed(node, now):
    view = View.of(
        [
            node("a", {}, schedulable=Schedulable.CORDONED),
            node("b", {}, schedulable=Schedulable.DRAINING),
            node("c", {}, state=NodeState.DEAD),
            node("d", {}, state=NodeState.LEFT),
            node("e", {}),
        ],
        isolated=True,
    )
    found = find_suitable_nodes(view, ANY, now=now)
    assert names(found) == ["e"]
    assert found.isolated


def test_avoid_takes_names_and_ids(node, now):
    view = View.of([node("a", {}), node("b", {}), node("c", {})])
    options = Options(avoid=("a", view.named("c").node_id))
    assert names(find_suitable_nodes(view, ANY, now=now, options=options)) == ["b"]


def test_preferences_order_inside_a_tier_by_weight(node, now):
    view = View.of(
        [
            node("plain", {}, load=0),
            node("ssd", {"disk_root_class": "ssd"}, load=300),
            node("both", {"disk_root_class": "ssd", "zone": "a"}, load=500),
            node("stale", {"disk_root_class": "ssd", "zone": "a"}, age=500),
        ]
    )
    wishes = (
        Preference(requirement=ANY.equals("disk_root_class", "ssd"), weight=2),
        Preference(requirement=ANY.equals("zone", "a"), weight=1),
    )
    options = Options(prefer=wishes)
    assert names(find_suitable_nodes(view, ANY, now=now, options=options)) == ["both", "ssd", "plain", "stale"]
    rather_not = Options(prefer=(Preference(requirement=ANY.equals("zone", "a"), weight=-1),))
    assert names(find_suitable_nodes(view, ANY, 2, now=now, options=rather_not)) == ["plain", "ssd"]


@pytest.mark.parametrize(("margin", "first"), [(None, "idle"), (1, "idle"), (2, "here"), (9, "here")])
def test_the_local_node_is_preferred_within_the_margin(node, now, margin, first):
    # Two eighths of a CPU's load apart.
    view = View.of([node("idle", {}, load=0), node("here", {}, load=100)], here="here")
    found = find_suitable_nodes(view, ANY, now=now, options=Options(prefer_local=margin))
    assert names(found)[0] == first
    assert sorted(names(found)) == ["here", "idle"]


def test_a_stale_local_node_is_not_preferred_to_a_fresh_one(node, now):
    view = View.of([node("other", {}), node("here", {}, age=500)], here="here")
    assert names(find_suitable_nodes(view, ANY, now=now, options=Options(prefer_local=100)))[0] == "other"


def test_fallbacks_are_tried_in_order(node, now):
    view = View.of([node("a", {"zone": "x"}), node("b", {"zone": "y"})])
    options = Options(fallbacks=(ANY.equals("zone", "none"), ANY.equals("zone", "y"), ANY))
    found = find_suitable_nodes(view, ANY.equals("zone", "q"), now=now, options=options)
    assert (names(found), found.fallback) == (["b"], 1)
    assert find_suitable_nodes(view, ANY, now=now, options=options).fallback is None


def zones(node, *where):
    return View.of([node(f"n{at}", {"zone": zone} if zone else {}, load=at * 50) for at, zone in enumerate(where)])


def test_a_set_is_all_or_nothing(node, now):
    view = zones(node, "a", "a", "b")
    assert names(find_suitable_nodes(view, ANY, now=now, options=Options(count=3))) == ["n0", "n1", "n2"]
    found = find_suitable_nodes(view, ANY, now=now, options=Options(count=4))
    assert (names(found), found.matching) == ([], 3)


def test_spread_keeps_the_numbers_of_each_place_close(node, now):
    view = zones(node, "a", "a", "a", "b", "b", "c", None)
    spread = Spread(label="zone")
    assert names(find_suitable_nodes(view, ANY, now=now, options=Options(count=3, spread=spread))) == ["n0", "n3", "n5"]
    assert names(find_suitable_nodes(view, ANY, now=now, options=Options(count=5, spread=spread))) == [
        *("n0", "n3", "n5"),
        *("n1", "n4"),
    ]
    # A sixth would leave c two behind a.
    assert not find_suitable_nodes(view, ANY, now=now, options=Options(count=6, spread=spread)).nodes
    wide = Spread(label="zone", max_skew=2)
    assert len(find_suitable_nodes(view, ANY, now=now, options=Options(count=6, spread=wide)).nodes) == 6


def test_spread_counts_what_is_placed_already(node, now):
    view = zones(node, "a", "a", "b")
    options = Options(spread=Spread(label="zone", placed=("n1",)))
    assert names(find_suitable_nodes(view, ANY, now=now, options=options)) == ["n2"]


def test_anti_affinity_takes_one_node_of_each_place(node, now):
    view = zones(node, "a", "a", "b", "c", None)
    apart = AntiAffinity(label="zone")
    assert names(find_suitable_nodes(view, ANY, now=now, options=Options(count=3, anti_affinity=apart))) == [
        "n0",
        "n2",
        "n3",
    ]
    assert not find_suitable_nodes(view, ANY, now=now, options=Options(count=4, anti_affinity=apart)).nodes


def test_anti_affinity_stays_apart_from_named_nodes(node, now):
    view = zones(node, "a", "a", "b", "c")
    options = Options(anti_affinity=AntiAffinity(label="zone", apart_from=("n1", "n3")))
    assert names(find_suitable_nodes(view, ANY, now=now, options=options)) == ["n2"]


def test_crossing_labels_are_searched_when_the_first_nodes_block(node, now):
    # Greedily n0 (zone a, rack 1) blocks rack 1 for the only node of zone b.
    view = View.of(
        [
            node("n0", {"zone": "a", "rack": "1"}, load=0),
            node("n1", {"zone": "a", "rack": "2"}, load=100),
            node("n2", {"zone": "b", "rack": "1"}, load=200),
        ]
    )
    options = Options(count=2, spread=Spread(label="zone"), anti_affinity=AntiAffinity(label="rack"))
    assert names(find_suitable_nodes(view, ANY, now=now, options=options)) == ["n1", "n2"]


@pytest.mark.parametrize(
    "fields",
    [{"count": 0}, {"count": 5000}, {"seed": -1}, {"seed": 1 << 64}, {"prefer_local": -1}, {"fallbacks": (ANY,) * 9}],
)
def test_options_out_of_range_are_refused(fields):
    with pytest.raises(OptionRefused) as refused:
        Options(**fields)
    assert refused.value.field == next(iter(fields))


def test_a_preference_needs_a_weight():
    with pytest.raises(OptionRefused):
        Preference(requirement=ANY, weight=0)
    with pytest.raises(OptionRefused):
        Spread(label="zone", max_skew=0)


@pytest.mark.parametrize("limit", [-1, 0, True, 1.5, "3"])
def test_a_limit_is_a_whole_number_from_1(node, now, limit):
    with pytest.raises(OptionRefused, match="limit: wanted a whole number from 1"):
        find_suitable_nodes(View.of([node("a", {})]), ANY, limit, now=now)


def test_a_set_that_the_first_node_blocks_is_found_all_the_same(node, now):
    """Without the first node: it has the only rack of the only node of `d`, which holds all others down."""
    lies = [("a", "r"), *(("a", f"a{at}") for at in range(3)), *(("b", f"b{at}") for at in range(4))]
    lies += [*(("c", f"c{at}") for at in range(3)), ("d", "r")]
    view = View.of(node(f"n{at:02}", {"zone": zone, "rack": rack}) for at, (zone, rack) in enumerate(lies))
    options = Options(count=7, spread=Spread(label="zone", max_skew=2), anti_affinity=AntiAffinity(label="rack"))
    found = find_suitable_nodes(view, ANY, now=now, options=options).nodes
    counts = Counter(record.capabilities.get("zone") for record in found)
    assert (len(found), counts["d"]) == (7, 1)
    assert max(counts.values()) - min(counts.values()) <= 2
    assert len({record.capabilities.get("rack") for record in found}) == 7

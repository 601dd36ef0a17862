from collections import Counter

import pytest
from shoal.capabilities.requirement import PlacementRequirement
from shoal.placement import (
    ClusterState,
    FailureClass,
    Failures,
    FailureScope,
    FilterPolicy,
    NodeState,
    NodeVitals,
    OptionRefused,
    Options,
    Pick,
    PickWay,
    Policy,
    RankPolicy,
    Schedulable,
    ScorePolicy,
    Situation,
    Spread,
    Task,
    View,
    facts_of,
    filter_candidates,
    place,
    request_seed,
)
from shoal.placement.score import compute_task_fit_score

HEAVY = Task(min_free_ram_mb=4096)


def reasons(record, task, now, **fields):
    asked = Situation(task, now=now, **fields)
    filtered = filter_candidates([facts_of(record, "here")], asked)
    return [reason.kind.value for reason in filtered.excluded[0][1]] if filtered.excluded else []


def test_cordoned_draining_suspect_and_constraint_follow_the_status(node, now):
    task = Task(requirement=PlacementRequirement().is_true("gpu_nvidia"), min_free_ram_mb=9000)
    held = node("a", {}, schedulable=Schedulable.CORDONED, state=NodeState.SUSPECT)
    strict = Options(strict=True, avoid=("a",))
    assert reasons(held, task, now, options=strict) == ["cordoned", "suspect", "constraint", "avoided", "min_free_ram"]
    assert reasons(held, task, now) == ["cordoned", "constraint", "min_free_ram"]
    draining = node("a", None, schedulable=Schedulable.DRAINING, error="broken")
    assert reasons(draining, task, now) == ["status", "draining", "constraint", "min_free_ram"]


def test_gone_nodes_are_unreachable_and_unheard_ones_partial(node, now):
    assert reasons(node("a", {}, state=NodeState.DEAD), Task(), now) == ["status"]
    assert reasons(node("a"), Task(), now) == ["status"]
    assert reasons(node("a", {}), Task(), now) == []


def test_unknown_vitals_never_exclude(node, now):
    silent = node("a", {}, free=None)
    assert reasons(silent, Task(min_free_ram_mb=14000), now) == []
    assert reasons(silent, Task(min_free_ram_mb=17000), now) == ["min_free_ram"]
    assert facts_of(silent, "").allocatable_mb == 0
    assert reasons(node("a", {}, free=100), Task(min_free_ram_mb=14000), now) == ["min_free_ram"]


@pytest.mark.parametrize(("power", "expected"), [("ac", []), ("battery", ["battery_low"]), (None, ["battery_low"])])
def test_mains_power_lifts_the_battery_guard(node, now, power, expected):
    held = node("a", {}, free=None)
    vitals = NodeVitals(ram_available_mb=9000, battery_percent=10, power_source=power)
    record = type(held)(node_id="a", name="a", capabilities=held.capabilities, vitals=vitals)
    assert reasons(record, HEAVY, now) == expected
    assert reasons(record, Task(), now) == []


@pytest.mark.parametrize(
    ("vitals", "kind", "switch"),
    [
        ({"psi_memory_full_avg10_centi": 7001}, "pressure_psi_full", "pressure_guard"),
        ({"psi_memory_some_avg10_centi": 1500}, "pressure_linux_stall", "pressure_guard"),
        ({"thermal_state": "critical"}, "thermal", "thermal_guard"),
        ({"battery_percent": 19}, "battery_low", "battery_guard"),
    ],
)
def test_each_guard_is_a_switch(node, now, vitals, kind, switch):
    held = node("a", {})
    record = type(held)(
        node_id="a", name="a", capabilities=held.capabilities, vitals=NodeVitals(ram_available_mb=9000, **vitals)
    )
    assert reasons(record, HEAVY, now) == [kind]
    assert reasons(record, HEAVY, now, policy=Policy(filter=FilterPolicy(**{switch: False}))) == []
    assert reasons(record, Task(), now) == []


def test_failure_memory_is_kept_by_node_id_and_can_be_overridden(node, now):
    record = node("a", {})
    scope = FailureScope(node=record.node_id, workload_class="go-build")
    failures = Failures().recorded(scope, FailureClass.EXEC_CRASH, 5000.0)
    state = ClusterState(failures=failures, epoch=5000.0 - now)
    task = Task(workload_class="go-build")
    assert reasons(record, task, now, state=state) == ["failure_memory"]
    assert reasons(record, Task(workload_class="batch-script"), now, state=state) == []
    assert reasons(record, task, now + 86_401, state=state) == []
    lifted = ClusterState(failures=failures.overridden(scope, 5001.0), epoch=5000.0 - now)
    assert reasons(record, task, now, state=lifted) == []
    off = Policy(filter=FilterPolicy(failure_memory=False))
    assert reasons(record, task, now, state=state, policy=off) == []


def test_equally_narrow_failures_are_decided_by_severity_then_count():
    failures = Failures()
    failures = failures.recorded(FailureScope(node="a"), FailureClass.TIMEOUT, 0.0)
    failures = failures.recorded(FailureScope(workload_class="x"), FailureClass.EXEC_CRASH, 0.0)
    target = FailureScope(node="a", workload_class="x")
    assert failures.narrowest(target, 1.0).failure_class == FailureClass.EXEC_CRASH
    assert failures.deciding("x", 1.0).of("a").failure_class == FailureClass.EXEC_CRASH
    assert Failures(reversed(list(failures))).narrowest(target, 1.0).failure_class == FailureClass.EXEC_CRASH


def fleet(node, count=20):
    return View.of([node(f"n{at:02}", {"ram_limit_mb": 64000}, free=2000 + 1500 * at) for at in range(count)])


def test_best_is_the_first_of_the_ranking(node, now):
    decision = place(fleet(node), Task(), now=now)
    assert decision.node.node_id == decision.eligible[0].node_id
    assert decision.runner_up.node_id == decision.eligible[1].node_id
    assert decision.decided_by == "allocatable_ram"
    assert (decision.ok, decision.is_local, decision.seed) == (True, False, 0)


def test_equal_nodes_are_told_apart_by_the_seed(node, now):
    view = View.of([node(f"n{at}", {}) for at in range(8)])
    taken = {place(view, Task(), now=now, options=Options(seed=seed)).node.name for seed in range(40)}
    assert len(taken) == 8
    exact = Policy(rank=RankPolicy.exact)
    assert {place(view, Task(), policy=exact, now=now, options=Options(seed=seed)).node.name for seed in range(9)} == {
        "n0"
    }


def test_two_choices_takes_the_better_of_two(node, now):
    view = fleet(node)
    options = [Options(seed=seed, pick=Pick(way=PickWay.TWO_CHOICES)) for seed in range(300)]
    taken = Counter(place(view, Task(), now=now, options=option).node.name for option in options)
    again = Counter(place(view, Task(), now=now, options=option).node.name for option in options)
    assert taken == again
    assert len(taken) > 12
    # The worst of all is never the better of two.
    assert "n00" not in taken
    assert taken["n19"] > taken["n02"]


def test_spread_picks_among_the_best_fifth(node, now):
    options = [Options(seed=seed, pick=Pick(way=PickWay.SPREAD)) for seed in range(60)]
    taken = {place(fleet(node), Task(), now=now, options=option).node.name for option in options}
    best = [held.name for held in place(fleet(node), Task(), now=now).eligible[:4]]
    assert taken == set(best)


def test_sticky_keeps_its_node_whatever_the_load_and_moves_only_what_it_must(node, now):
    def owners(view):
        return {
            key: place(view, Task(), now=now, options=Options(pick=Pick(way=PickWay.STICKY, key=key))).node.name
            for key in map(str, range(40))
        }

    view = fleet(node, 5)
    before = owners(view)
    busy = view.replace(node("n00", {"ram_limit_mb": 64000}, free=60000, load=9000))
    assert owners(busy) == before
    after = owners(view.remove("n03"))
    assert {key for key in before if before[key] != after[key]} == {key for key in before if before[key] == "n03"}


def test_sticky_follows_weights(node, now):
    view = View.of([node("a", {}, weight=300), node("b", {}, weight=100), node("c", {}, weight=0)])
    keys = [Options(pick=Pick(way=PickWay.STICKY, key=str(number))) for number in range(400)]
    taken = Counter(place(view, Task(), now=now, options=option).node.name for option in keys)
    assert taken["c"] == 0
    assert 2 < taken["a"] / taken["b"] < 4.5


def test_a_sticky_pick_needs_a_key():
    with pytest.raises(OptionRefused):
        Pick(way=PickWay.STICKY)
    with pytest.raises(OptionRefused):
        Pick(key="x")


@pytest.mark.parametrize("way", [PickWay.BEST, PickWay.TWO_CHOICES, PickWay.SPREAD])
def test_several_nodes_are_distinct_and_spread(node, now, way):
    view = View.of([node(f"n{at}", {"zone": "ab"[at % 2]}) for at in range(8)])
    options = Options(count=4, spread=Spread(label="zone"), pick=Pick(way=way), seed=7)
    chosen = place(view, Task(), now=now, options=options).chosen
    assert len({held.node_id for held in chosen}) == 4
    assert Counter(held.capabilities.get("zone") for held in chosen) == {"a": 2, "b": 2}
    assert not place(view, Task(), now=now, options=Options(count=9, pick=Pick(way=way))).ok


def test_the_local_node_is_preferred_within_a_margin_of_score(node, now):
    view = View.of([node("far", {}, free=15000), node("here", {}, free=500)], here="here")
    gap = 30 - 1 - 10
    assert place(view, Task(), now=now).node.name == "far"
    assert place(view, Task(), now=now, options=Options(prefer_local=gap - 1)).node.name == "far"
    assert place(view, Task(), now=now, options=Options(prefer_local=gap)).node.name == "here"


def test_fallbacks_replace_the_requirement(node, now):
    view = View.of([node("a", {"zone": "x"})])
    none, some = PlacementRequirement().has("none"), PlacementRequirement().equals("zone", "x")
    decision = place(view, Task(requirement=none), now=now, options=Options(fallbacks=(none, some)))
    assert (decision.node.name, decision.fallback) == ("a", 1)
    failed = place(view, Task(requirement=none), now=now, options=Options(fallbacks=(none,)))
    assert (failed.ok, failed.fallback) == (False, None)


def test_a_suspect_is_taken_only_when_nothing_else_fits_and_never_when_strict(node, now):
    suspect = node("a", {}, free=15000, state=NodeState.SUSPECT)
    view = View.of([suspect, node("b", {}, free=2000, age=500)])
    assert place(view, Task(), now=now).node.name == "b"
    assert place(view, Task(min_free_ram_mb=9000), now=now).node.name == "a"
    assert not place(view, Task(min_free_ram_mb=9000), now=now, options=Options(strict=True)).ok


def test_the_documented_score_is_flat_where_the_weighted_one_is_not(node, now):
    held = facts_of(node("a", {"gpu_nvidia": True, "gpu_vram_mb": 2048}, free=0, load=4000), "")
    # 25 for any GPU, 4 cores; weighted: 10 and 2 for the GPU, 4 cores, 15 off for the load.
    assert compute_task_fit_score(held, Task()) == 25 + 4
    assert compute_task_fit_score(held, Task(), policy=ScorePolicy.weighted) == 12 + 4 - 15
    assert compute_task_fit_score(held, Task(), policy=ScorePolicy(load=False)) == 12 + 4


def test_request_seeds_differ_by_node_and_request_and_are_stable():
    assert len({request_seed(here, count) for here in ("a", "b") for count in range(5)}) == 10
    # The same on every machine and Python version: nodes must agree.
    assert request_seed("a", 1) == 0x2C5727565DB22C89

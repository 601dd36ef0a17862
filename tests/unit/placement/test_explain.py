import json

import pytest
from shoal.capabilities import DeviceGroup
from shoal.capabilities.requirement import PlacementRequirement
from shoal.capabilities.text import parse_requirement
from shoal.placement import (
    ClusterState,
    NodeState,
    Observation,
    Observations,
    Options,
    Schedulable,
    Spread,
    Task,
    UnknownNode,
    Verdict,
    View,
    explain_find,
    explain_placement,
    place,
    recording_scope,
)
from shoal.placement.replies import decision_map, explanation_map, lines_of
from shoal.placement.report import decision_lines

GPU = parse_requirement("gpu_nvidia, gpu_vram_mb>=22888")


@pytest.fixture
def cluster(node):
    return View.of(
        [
            node("node7", {"gpu_nvidia": True, "gpu_vram_mb": 16384}),
            node("node8", {"gpu_nvidia": True, "gpu_vram_mb": 8192}),
            node("cpu", {"gpu_nvidia": False}),
            node("off", {"gpu_nvidia": True, "gpu_vram_mb": 24564}, schedulable=Schedulable.CORDONED),
            node("gone", {"gpu_nvidia": True, "gpu_vram_mb": 24564}, state=NodeState.DEAD),
        ]
    )


def test_near_misses_say_what_is_missing_and_the_closest_comes_first(cluster, now):
    told = explain_find(cluster, GPU, now=now)
    assert [(miss.node.name, miss.text) for miss in told.near_misses] == [
        ("node7", "only gpu_vram_mb 16384 < 22888"),
        ("node8", "only gpu_vram_mb 8192 < 22888"),
        ("off", "only cordoned"),
    ]


def test_relax_hints_count_what_each_thing_would_bring(cluster, now):
    told = explain_find(cluster, GPU, now=now)
    assert [hint.text for hint in told.relax] == [
        "without term 2 (gpu_vram_mb>=22888): 2 more nodes",
        "without the cordon: 1 more node",
    ]


def test_totals_name_the_nodes_per_term(cluster, now):
    totals = {total.item.text: (total.count, total.names) for total in explain_find(cluster, GPU, now=now).totals}
    assert totals["gpu_vram_mb>=22888"] == (3, ("cpu", "node7", "node8"))
    assert totals["gpu_nvidia"] == (1, ("cpu",))
    assert totals["the cordon"] == (1, ("off",))


def test_the_verdict_tells_busy_from_infeasible_from_unknown(cluster, node, now):
    assert explain_find(cluster, GPU, now=now).verdict is Verdict.BUSY
    without = cluster.remove("off")
    assert explain_find(without, GPU, now=now).verdict is Verdict.INFEASIBLE
    assert explain_find(without.replace(node("new")), GPU, now=now).verdict is Verdict.UNKNOWN
    assert explain_find(cluster, parse_requirement("gpu_nvidia"), now=now).verdict is Verdict.FITS


@pytest.mark.parametrize(
    ("floor", "age", "verdict"),
    [(8001, 1, "busy"), (14976, 1, "busy"), (14977, 1, "infeasible"), (8001, 500, "unknown"), (8000, 500, "fits")],
)
def test_memory_is_busy_until_it_exceeds_the_machine(node, now, floor, age, verdict):
    view = View.of([node("a", {}, free=8000, age=age)])
    assert explain_placement(view, Task(min_free_ram_mb=floor), now=now).verdict == verdict


def test_a_set_is_judged_as_a_whole(node, now):
    view = View.of([node("a", {"zone": "x"}), node("b", {"zone": "x"}), node("c", {"zone": "y"}, free=10)])
    task, spread = Task(min_free_ram_mb=500), Spread(label="zone")
    told = explain_placement(view, task, now=now, options=Options(count=3, spread=spread))
    assert (told.verdict, told.eligible_count) == (Verdict.BUSY, 2)
    never = explain_placement(view, task, now=now, options=Options(count=4))
    assert never.verdict is Verdict.INFEASIBLE
    assert "too_few" in [line.kind for line in never.lines]


def test_typing_slips_get_a_hint(cluster, now):
    (hint,) = explain_find(cluster, parse_requirement("gpu_nvdia"), now=now).hints
    assert "did you mean gpu_nvidia?" in hint


def test_misspelt_nodes_get_a_hint(cluster, now):
    options = Options(avoid=("node7", "nodee8"), spread=Spread(label="zone", placed=("ghost",)))
    told = explain_find(cluster, PlacementRequirement(), now=now, options=options)
    assert told.hints == (
        "no node 'nodee8' in the view (did you mean 'node8'?)",
        "no node 'ghost' in the view",
        "no known node has zone",
    )


def test_the_nearest_of_devices_have_the_most_of_them(node, now):
    def gpus(count):
        return [DeviceGroup(kind="gpu", vram_mb=24564, count=count)] if count else []

    view = View.of([node(f"n{count}", {}, devices=gpus(count)) for count in (0, 1, 3)])
    told = explain_find(view, parse_requirement("gpu[vram_mb>=20GB]*4"), now=now)
    assert [miss.node.name for miss in told.near_misses] == ["n3", "n1", "n0"]


def test_why_not_gives_all_reasons_or_the_rank(cluster, now):
    told = explain_find(cluster, GPU, now=now, node="cpu").why_not
    assert told.rank is None
    assert [term.key for term in told.reasons[0].terms] == ["gpu_nvidia", "gpu_vram_mb"]
    assert explain_find(cluster, parse_requirement("gpu_nvidia"), now=now, node="node8").why_not.rank == 2
    with pytest.raises(UnknownNode, match="did you mean 'node7'"):
        explain_find(cluster, GPU, now=now, node="nod7")


def test_ages_count_stale_and_silent_nodes(node, now):
    view = View.of([node("a", {}, age=3), node("b", {}, age=130), node("c", {}, free=None)], isolated=True)
    told = explain_find(view, PlacementRequirement(), now=now)
    assert (told.ages.youngest, told.ages.oldest, told.ages.stale, told.ages.unknown) == (3.0, 130.0, 1, 1)
    assert told.isolated
    assert [held.tier.name for held in told.eligible] == ["FRESH", "STALE", "STALE"]


def test_lists_are_capped_and_counts_are_not(node, now):
    view = View.of([node(f"n{at:03}", {}, free=10 if at % 2 else 9000) for at in range(100)])
    told = explain_placement(view, Task(min_free_ram_mb=500), now=now, cap=5)
    assert (len(told.eligible), told.eligible_count, len(told.excluded), told.excluded_count) == (5, 50, 5, 50)
    assert told.totals[0].count == 50


def test_the_choice_is_explained_against_the_runner_up(node, now):
    view = View.of(
        [
            node("a", {"tool_git": True, "tool_git_version": "2.43"}, free=9000),
            node("b", {"tool_git": True}, free=8000),
        ]
    )
    task = Task(workload_class="repo-analysis", required_tools=("git",))
    runs = Observation(scope=recording_scope(view.named("a").node_id, task), observed_at=now, wall_ms=700)
    decision = place(view, task, ClusterState(observations=Observations([runs])), now=now)
    texts = {line.kind: line.text for line in decision_lines(decision)}
    assert list(texts) == [
        *("workload_class", "observation_summary", "fit_score", "locality", "ram_plain", "pressure", "cpu", "tools"),
        *("eligible_count", "versus_runner_up_observation", "runner_up"),
    ]
    assert texts["tools"] == "has git 2.43"
    assert texts["runner_up"] == "runner-up b with 34, decided by allocatable_ram"


def test_a_failed_placement_reports_every_reason_of_every_node(node, now):
    view = View.of([node("a", {}, free=100), node("b")])
    task = Task(min_free_ram_mb=5000, memory_request_mb=6000, required_tools=("docker",))
    lines = [(line.kind, line.text) for line in decision_lines(place(view, task, now=now))]
    assert [kind for kind, _ in lines] == [
        "none_qualify",
        *("node:memory_request", "node:min_free_ram", "node:missing_tools"),
        *("node:status", "node:memory_request", "node:min_free_ram", "node:missing_tools"),
        "hint_small_models",
    ]
    assert ("node:memory_request", "a: memory request: needs 5.9 GiB, has 100 MiB, 5.8 GiB short") in lines
    assert decision_lines(place(View.of(), task, now=now))[0].kind == "no_nodes"


def test_nothing_is_explained_that_nobody_asks_for(cluster, now):
    decision = place(cluster, Task(), now=now)
    assert not {"filtered", "eligible", "runner_up", "decided_by", "nodes"} & set(vars(decision))


def test_answers_are_plain_maps(cluster, now, node):
    view = cluster.replace(node("dev", {}, devices=[DeviceGroup(kind="gpu", vram_mb=8192)]))
    task = Task(requirement=parse_requirement("gpu[vram_mb>=24GB]*2, (zone=a | zone=b)"), required_tools=("git",))
    told = explanation_map(explain_placement(view, task, now=now, node="dev"))
    assert json.loads(json.dumps(told)) == told
    assert told["node"]["reasons"][0]["terms"][0]["kind"] == "device_count"
    decision = place(view, Task(), now=now)
    plain = decision_map(decision)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["nodes"][0]["name"] == decision.node.name
    assert plain["eligible"] == 4
    assert lines_of(decision)[0]["kind"] == "fit_score"
    assert decision_map(place(View.of(), Task(), now=now)) == {
        "ok": False,
        "nodes": [],
        "eligible": 0,
        "seed": 0,
        "fallback": None,
    }


def test_a_stale_or_suspect_choice_says_so(node, now):
    def first(record):
        return decision_lines(place(View.of([record]), Task(), now=now))[0].text

    assert first(node("a", {}, age=200)) == "was last heard of 200 s ago; nothing fresher fits"
    assert first(node("a", {}, free=None)) == "never said how it is doing; nothing fresher fits"
    assert first(node("a", {}, state=NodeState.SUSPECT)) == "suspected to be down; nothing better fits"
    assert first(node("a", {})).startswith("fit score")


def test_a_dead_node_that_would_fit_is_named(cluster, now):
    told = explain_find(cluster.remove("off"), GPU, now=now)
    assert (told.verdict, [node.name for node in told.would_fit]) == (Verdict.INFEASIBLE, ["gone"])
    assert explain_find(cluster, parse_requirement("gpu_vram_mb>=80000"), now=now).would_fit == ()


def test_the_places_of_a_set_are_counted(node, now):
    view = View.of([node("a", {"zone": "x"}), node("b", {"zone": "x"}), node("c", {"zone": True}), node("d", {})])
    told = explain_placement(view, Task(), now=now, options=Options(count=4, spread=Spread(label="zone")))
    assert dict(told.places) == {"zone": (("x", 2), (True, 1))}
    assert explanation_map(told)["places"] == {"zone": [{"value": "x", "nodes": 2}, {"value": True, "nodes": 1}]}

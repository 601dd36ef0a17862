"""Placements, schedule and history over a real socket."""

import attrs
import pytest
from shoal.agent import calls_placement
from shoal.agent.payloads import HistoryPayload, SchedulePayload
from shoal.capabilities import NodeCapabilities
from shoal.placement import (
    FailureClass,
    Failures,
    FailureScope,
    History,
    NodeRecord,
    NodeState,
    Schedulable,
    View,
    request_seed,
)

N1, N2, N3 = (f"{number:032x}" for number in (1, 2, 3))


@pytest.fixture
def answer(connect):
    async def answer(call, **args):
        async with connect() as wire:
            reply = await wire.ask(call, args)
            return reply.get("ok", reply.get("err"))

    return answer


def labelled(record, **labels):
    return attrs.evolve(record, capabilities=record.capabilities.with_labels(labels))


def names(answer):
    return [node["name"] for node in answer["nodes"]]


# place


async def test_a_placement_says_which_node_and_how_far_to_trust_it(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(2, load=900))
    placed = await answer("place", task={"requirement": "gpu_nvidia"})
    assert placed["ok"]
    assert names(placed) == ["n3"]
    assert placed["nodes"][0] == {
        "node_id": N3,
        "name": "n3",
        "addr": "127.0.0.1:7003",
        "state": "alive",
        "fit_score": placed["fit_score"],
        "is_local": False,
        "tier": "fresh",
        "age_s": 1.0,
    }
    assert placed["runner_up"]["name"] == "n2"
    assert placed["runner_up"]["fit_score"] < placed["fit_score"]
    assert (placed["eligible"], placed["decided_by"], placed["fallback"]) == (2, "fit_score", None)
    assert placed["view"] == {
        "known": 3, "isolated": False, "youngest_s": 1.0, "oldest_s": 1.0, "stale": 0, "unknown": 0,
    }  # fmt: skip
    assert "explanation" not in placed


async def test_a_task_in_words_is_read_and_the_reading_is_shown(answer, backend, make_node):
    backend.view = backend.view.replace(labelled(make_node(2), tool_git=True))
    words = "clone this repo and run a 7b model"
    placed = await answer("place", task={"description": words, "required_tools": ["git"]})
    assert names(placed) == ["n2"]
    assert placed["tool"] == "git"
    assert placed["task"] == {
        "description": words,
        "workload_class": "local-llm-inference",
        "required_tools": ["git"],
        "min_free_ram_mb": 4096,
    }
    assert (await answer("place", task="clone this repo"))["task"]["required_tools"] == ["git"]


async def test_a_seed_is_given_or_made_and_always_told(answer, backend):
    assert (await answer("place", task="x", options={"seed": 0}))["seed"] == 0
    assert (await answer("place", task="x", options={"seed": 77}))["seed"] == 77
    seeds = {(await answer("place", task="x"))["seed"] for _ in range(3)}
    assert len(seeds) == 3
    assert request_seed(N1, 0) != request_seed(N1, 1)


async def test_nothing_that_fits_is_an_answer_and_explained_on_request(answer):
    task = {"requirement": "gpu_vram_mb>=80GB"}
    short = await answer("place", task=task)
    assert (short["ok"], short["nodes"], short["eligible"]) == (False, [], 0)
    assert "explanation" not in short
    told = (await answer("place", task=task, explain="failure"))["explanation"]
    assert told["verdict"] == "infeasible"
    assert [miss["text"] for miss in told["near_misses"]] == [
        "only gpu_vram_mb 24564 < 76293",
        "only gpu_vram_mb 8000 < 76293",
        "only gpu_vram_mb>=76293 (missing)",
    ]
    assert "explanation" not in await answer("place", task="x", explain="failure")
    assert (await answer("place", task="x", explain="always"))["explanation"]["verdict"] == "fits"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"count": 2}, {"n2", "n3"}),
        ({"count": 3}, set()),
        ({"avoid": ["n3"]}, {"n2"}),
        ({"avoid": [N3]}, {"n2"}),
        ({"count": 2, "spread": {"label": "zone"}}, {"n2", "n3"}),
        ({"anti_affinity": {"label": "zone", "apart_from": ["n3"]}}, {"n2"}),
        ({"prefer": [{"requirement": "zone=b", "weight": 5}]}, {"n2"}),
        ({"pick": "sticky:job", "seed": 4}, {"n2"}),
    ],
)
async def test_every_option_reaches_the_engine(answer, backend, make_node, options, chosen):
    backend.view = View.of(
        [
            make_node(1, gpu=False),
            labelled(make_node(2), zone="b"),
            labelled(make_node(3, vram=24564), zone="a"),
        ],
        here=N1,
    )
    assert set(names(await answer("place", task={"requirement": "gpu_nvidia"}, options=options))) == chosen


async def test_fallbacks_are_taken_in_order_and_told(answer):
    options = {"fallbacks": ["gpu_vram_mb>=99999", "gpu_nvidia", "arch=amd64"]}
    placed = await answer("place", task={"requirement": "zone=nowhere"}, options=options)
    assert (placed["fallback"], placed["ok"]) == (1, True)
    found = await answer("find", requirement="zone=nowhere", options=options)
    assert (found["fallback"], len(found["nodes"])) == (1, 2)


async def test_suspects_are_left_out_when_strict(answer, backend, make_node):
    backend.view = View.of([make_node(2, state=NodeState.SUSPECT)], here=N1)
    assert (await answer("place", task="x"))["nodes"][0]["tier"] == "suspect"
    told = await answer("place", task="x", options={"strict": True}, explain="failure")
    assert [total["kind"] for total in told["explanation"]["totals"]] == ["suspect"]


async def test_policies_can_be_chosen(answer):
    task = {"requirement": "gpu_nvidia"}
    exact = await answer(
        "place", task=task, policy={"rank": "exact", "score": "documented", "without": ["thermal_guard"]}
    )
    assert (names(exact), exact["decided_by"]) == (["n2"], "name"), "these two tie on all that is documented"


@pytest.mark.parametrize(
    ("call", "args", "kind", "path"),
    [
        ("place", {}, "bad-argument", "task"),
        ("place", {"task": 5}, "bad-argument", "task"),
        ("place", {"task": {"required_tool": ["git"]}}, "bad-argument", "task.required_tool"),
        ("place", {"task": {"required_tools": ["git", 3]}}, "bad-argument", "task.required_tools[1]"),
        ("place", {"task": {"requirement": "a>>1"}}, "bad-requirement", "task.requirement"),
        ("place", {"task": {"requirement": "a>=2, a<=1"}}, "bad-requirement", "task.requirement"),
        ("place", {"task": "x", "options": {"count": 0}}, "bad-argument", "options.count"),
        ("place", {"task": "x", "options": {"seeds": 1}}, "bad-argument", "options.seeds"),
        ("place", {"task": "x", "options": {"spread": {}}}, "bad-argument", "options.spread.label"),
        ("place", {"task": "x", "options": {"fallbacks": ["b<<1"]}}, "bad-requirement", "options.fallbacks[0]"),
        ("place", {"task": "x", "policy": {"rank": "best"}}, "bad-argument", "policy.rank"),
        ("place", {"task": "x", "policy": {"without": ["skews"]}}, "bad-argument", "policy.without[0]"),
        ("place", {"task": "x", "explain": True}, "bad-argument", "explain"),
        ("find", {"options": {"seed": 3}}, "bad-argument", "options.seed"),
        ("find", {"options": {"pick": "best"}}, "bad-argument", "options.pick"),
        ("explain", {"task": "x", "requirement": "a"}, "bad-argument", "requirement"),
        ("explain", {"options": {"seed": 3}}, "bad-argument", "options.seed"),
        ("observe", {"node": "n2", "task": "x", "peak_ram_mb": "4 apples"}, "bad-argument", "peak_ram_mb"),
        ("observe", {"node": "n2", "task": {"workload_class": "x" * 129}}, "bad-argument", "workload_class"),
        ("fail", {"node": "n2", "failure": "exec-crsh"}, "bad-argument", "failure"),
    ],
)
async def test_what_is_wrong_is_named_by_its_path(answer, call, args, kind, path):
    error = await answer(call, **args)
    assert (error["kind"], error["path"]) == (kind, path)


async def test_the_nearest_right_field_is_a_hint(answer):
    assert (await answer("place", task={"required_tool": []}))["hint"] == "did you mean required_tools?"
    assert (await answer("place", task="x", policy={"without": ["skews"]}))["hint"] == "did you mean skew?"
    assert (await answer("place", task={"requirement": "a>>1"}))["column"] == 2


async def test_a_misspelt_node_to_avoid_is_warned_of(answer):
    placed = await answer("place", task="x", options={"avoid": ["n22"]})
    assert placed["ok"]
    assert "n22" in placed["warnings"][0]
    assert "n22" in (await answer("find", options={"avoid": ["n22"]}, review=True))["warnings"][0]


async def test_a_big_cluster_is_placed_over_out_of_the_loop_with_the_same_answer(answer, backend, monkeypatch):
    asked = {"task": {"requirement": "gpu_nvidia"}, "options": {"seed": 5}, "explain": "always"}
    small = await answer("place", **asked)
    monkeypatch.setattr(calls_placement, "_AT_ONCE", 0)
    assert await answer("place", **asked) == small


async def test_a_query_that_looks_at_each_node_of_many_is_answered_out_of_the_loop_too(answer, monkeypatch):
    asked = [
        {"options": {"avoid": ["n2"]}, "review": True},
        {"options": {"prefer": [{"requirement": "gpu_nvidia"}]}, "limit": 2},
        {"options": {"count": 4}, "explain": True},
        {"options": {"count": 4}},
    ]
    small = [await answer("find", **args) for args in asked]
    monkeypatch.setattr(calls_placement, "_AT_ONCE_EACH", 0)
    assert [await answer("find", **args) for args in asked] == small


# explain and find


async def test_explain_of_a_requirement_gives_everything_about_it(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(4, state=NodeState.DEAD, vram=90_000)).replace(
        make_node(5, schedulable=Schedulable.CORDONED, vram=90_000)
    )
    told = (await answer("explain", requirement="gpu_nvidia, gpu_vram_mb>=80GB", node="n2"))["explanation"]
    assert told["verdict"] == "busy"
    assert told["node"]["reasons"][0]["terms"][0]["actual"] == 8000
    assert [node["name"] for node in told["would_fit"]] == ["n4"]
    assert ("n5", "only cordoned") in [(miss["name"], miss["text"]) for miss in told["near_misses"]]
    assert (await answer("explain", requirement="a", node="n9"))["kind"] == "unknown-node"


async def test_explain_of_a_task_is_that_of_its_placement(answer, backend, make_node):
    backend.view = backend.view.replace(make_node(2, load=900))
    told = await answer("explain", task={"requirement": "gpu_nvidia"}, node="n2", options={"seed": 1}, limit=1)
    explanation = told["explanation"]
    assert (explanation["verdict"], explanation["node"]["rank"]) == ("fits", 2)
    assert (len(explanation["eligible"]), explanation["eligible_count"]) == (1, 2)
    assert told["seed"] == explanation["seed"] == 1


async def test_find_takes_the_options_of_a_query(answer, backend, make_node):
    backend.view = View.of([labelled(make_node(number), zone=zone) for number, zone in ((1, "a"), (2, "a"), (3, "b"))])
    assert names(await answer("find", options={"avoid": ["n1"]})) == ["n2", "n3"]
    assert names(await answer("find", options={"prefer": [{"requirement": "zone=b"}]})) == ["n3", "n1", "n2"]
    assert names(await answer("find", options={"count": 2, "anti_affinity": {"label": "zone"}})) == ["n1", "n3"]
    none = await answer("find", options={"count": 3, "anti_affinity": {"label": "zone"}}, explain=True)
    assert (none["nodes"], none["total"]) == ([], 3)
    assert none["explanation"]["places"] == {"zone": [{"value": "a", "nodes": 2}, {"value": "b", "nodes": 1}]}


async def test_an_isolated_stale_view_says_so(answer, backend, make_node):
    backend.time = 2000.0
    backend.view = backend.view.replace(NodeRecord(node_id="f" * 32, name="new")).with_isolated(isolated=True)
    view = (await answer("find"))["view"]
    assert view == {
        "known": 4, "isolated": True, "youngest_s": 1001.0, "oldest_s": 1001.0, "stale": 3, "unknown": 1,
    }  # fmt: skip
    assert (await answer("place", task="x"))["nodes"][0]["tier"] == "stale"


# Schedule


@pytest.mark.parametrize(("call", "kind"), [("cordon", Schedulable.CORDONED), ("drain", Schedulable.DRAINING)], ids=str)
async def test_this_node_can_be_cordoned_and_drained_and_put_back(answer, backend, call, kind):
    assert await answer(call) == {"node_id": N1, "name": "n1", "schedulable": kind.value, "changed": True}
    assert (await answer(call, node="n1"))["changed"] is False
    assert backend.schedule.current == SchedulePayload(kind)
    assert (await answer("uncordon"))["schedulable"] == "yes"
    assert [SchedulePayload.decode(payload).schedulable for payload in backend.told] == [kind, Schedulable.YES]


async def test_another_node_is_not_ours_to_cordon_and_ours_is_left_alone(answer, backend):
    error = await answer("cordon", node="n2")
    assert error["kind"] == "refused"
    assert "only its own agent" in error["msg"]
    assert "n2" in error["hint"]
    assert (await answer("cordon", node="n9"))["kind"] == "unknown-node"
    assert backend.told == []


# History

TASK = {"workload_class": "go-build", "required_tools": ["go", "git"]}


def able(make_node, number):
    return labelled(make_node(number), tool_go=True, tool_git=True)


async def test_what_was_observed_is_merged_listed_and_found_again(answer, backend, make_node):
    backend.view = View.of([able(make_node, 1), able(make_node, 2)], here=N1)
    seen = await answer("observe", node="n2", task=TASK, wall_ms=900, peak_ram_mb="2GiB")
    assert seen["observation"]["peak_ram_mb"] == 2048
    seen = (await answer("observe", node="n2", task=TASK, wall_ms=700, samples=3, success=False))["observation"]
    assert (seen["name"], seen["samples"], seen["wall_ms"], seen["success"], seen["tool"]) == ("n2", 4, 750, False, "")
    rows = (await answer("history"))["history"]
    assert [(row["what"], row["name"], row["age_s"]) for row in rows] == [("run", "n2", 0)]
    lines = (await answer("place", task=TASK, options={"avoid": ["n1"]}, explain="always"))["explanation"]["lines"]
    assert "observation_summary" in [line["kind"] for line in lines]


async def test_a_failure_keeps_work_away_until_it_is_overridden(answer, backend, make_node):
    backend.view = View.of([able(make_node, 2)], here=N1)
    held = (await answer("fail", node="n2", failure="exec-crash", task=TASK))["failure"]
    assert (held["name"], held["blocking"], held["count"], held["for_s"]) == ("n2", True, 1, 86400)
    told = await answer("place", task=TASK, explain="failure")
    assert (told["ok"], told["explanation"]["verdict"]) == (False, "busy")
    assert told["explanation"]["totals"][0]["text"] == "the failure memory"
    assert (await answer("place", task="other"))["ok"]
    assert (await answer("override", node="n2", task={"workload_class": "other"}))["lifted"] == []
    lifted = (await answer("override", node="n2"))["lifted"]
    assert [record["workload_class"] for record in lifted] == ["go-build"]
    assert (await answer("place", task=TASK))["ok"]
    assert [row["active"] for row in (await answer("history", node="n2"))["history"]] == [False]


async def test_a_failure_without_a_task_is_about_all_work(answer, backend, make_node):
    backend.view = View.of([able(make_node, 2)], here=N1)
    await answer("fail", node="n2", failure="thermal-failure")
    assert not (await answer("place", task=TASK))["ok"]
    assert not (await answer("place", task="anything"))["ok"]


async def test_a_narrower_failure_is_remembered_beside_the_one_that_counts(answer, backend, make_node):
    backend.view = View.of([able(make_node, 2)], here=N1)
    await answer("fail", node="n2", failure="exec-crash", task=TASK, tool="go")
    assert {record.scope.tool for record in backend.histories.failures} == {"", "go"}
    assert not (await answer("place", task=TASK))["ok"]
    assert len((await answer("override", node="n2"))["lifted"]) == 2


async def test_what_other_nodes_recorded_counts_and_can_be_overridden(answer, backend, make_node):
    backend.view = View.of([able(make_node, 2)], here=N1)
    scope = FailureScope(node=N2, workload_class="go-build")
    backend.others = {N3: History(failures=Failures().recorded(scope, FailureClass.EXEC_CRASH, backend.unix()))}
    assert not (await answer("place", task=TASK))["ok"]
    assert len((await answer("override", node="n2"))["lifted"]) == 1
    assert (await answer("place", task=TASK))["ok"]
    backend.histories.tell()
    (told,) = HistoryPayload.decode(backend.told[-1]).history.failures
    assert (told.overridden, told.scope) == (True, scope)


async def test_success_ends_a_failure(answer, backend, make_node):
    backend.view = View.of([able(make_node, 2)], here=N1)
    await answer("fail", node="n2", failure="exec-crash", task=TASK)
    await answer("observe", node="n2", task=TASK)
    assert (await answer("place", task=TASK))["ok"]


async def test_an_unknown_node_cannot_be_spoken_of(answer):
    for call, args in (("observe", {"task": "x"}), ("fail", {"failure": "timeout"}), ("override", {}), ("history", {})):
        assert (await answer(call, node="n33", **args))["hint"] == "did you mean n3?"


async def test_labels_that_only_look_alike_are_no_tools(answer, backend, make_node):
    record = attrs.evolve(make_node(2), capabilities=NodeCapabilities({"tool_git": 1, "arch": "amd64"}))
    backend.view = View.of([record], here=N1)
    assert not (await answer("place", task={"required_tools": ["git"]}))["ok"]

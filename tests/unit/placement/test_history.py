import json

import pytest
from shoal.placement import (
    FailureClass,
    FailureRecord,
    Failures,
    FailureScope,
    History,
    HistoryRefused,
    Observation,
    Observations,
    ObservationScope,
    Task,
    history_from_plain,
    history_to_plain,
    infer_requirements,
    joined,
    observation_scope_for_requirements,
    recording_scope,
)
from shoal.placement.failures import MAX_FAILURES, backoff_seconds
from shoal.placement.observations import FRESH_SECONDS, MAX_OBSERVATIONS

DAY = 86_400.0


def run(node, at, **fields):
    return Observation(scope=ObservationScope(node=node, workload_class="go-build"), observed_at=at, **fields)


def history(*runs, failures=()):
    held = Failures()
    for scope, failure_class, at in failures:
        held = held.recorded(scope, failure_class, at)
    return History(observations=Observations(runs), failures=held)


FULL = history(
    run("a", 50.0, wall_ms=7, peak_ram_mb=100),
    run("b", 60.0, success=False, samples=3),
    failures=[(FailureScope(node="a"), FailureClass.TIMEOUT, 10.0), (FailureScope(node="b"), "exec-crash", 20.0)],
)


def test_a_history_survives_disk_and_gossip():
    plain = history_to_plain(FULL)
    back = history_from_plain(json.loads(json.dumps(plain)))
    assert list(back.observations) == sorted(
        (seen.normalised() for seen in FULL.observations), key=lambda seen: -seen.observed_at
    )
    assert set(back.failures) == set(FULL.failures)


def test_a_budget_keeps_the_failures_and_then_the_newest_runs():
    many = history(
        *(run(f"node{number}", float(number)) for number in range(1, 500)),
        failures=[(FailureScope(node="a"), FailureClass.TIMEOUT, 10.0)],
    )
    version, runs, failures = history_to_plain(many, most_bytes=2000)
    assert (version, len(failures)) == (1, 1)
    assert [row[0] for row in runs] == [f"node{number}" for number in range(499, 499 - len(runs), -1)]
    assert 10 < len(runs) < 40


@pytest.mark.parametrize(
    "junk",
    [
        None,
        [],
        [1, [], []][:2],
        [2, [], []],
        [1, [[]], []],
        [1, [["a", "", "", "", "", 1.5, True, 1, 1, 1, 1]], []],
        [1, [["a", "", "", "", "", 1, 1, 1, 1, 1, 1]], []],
        [1, [[b"a", "", "", "", "", 1, True, 1, 1, 1, 1]], []],
        [1, [], [["a", "", "", "", "", "timeout", 1 << 64, 1, False]]],
        [1, {}, []],
    ],
)
def test_junk_is_refused(junk):
    with pytest.raises(HistoryRefused):
        history_from_plain(junk)


def test_what_all_nodes_remember_is_added_up_once():
    mine = history(run("a", 10.0, wall_ms=100, samples=1, peak_ram_mb=5))
    theirs = history(
        run("A ", 20.0, wall_ms=400, samples=2, success=False),
        failures=[(FailureScope(node="a"), FailureClass.TIMEOUT, 0.0)],
    )
    both = joined([mine, theirs])
    (seen,) = both.observations
    assert (seen.wall_ms, seen.samples, seen.success, seen.peak_ram_mb) == (300, 3, False, 5)
    again = both.failures.merged(theirs.failures)
    assert list(again) == list(both.failures)


def test_only_what_still_counts_is_kept():
    pruned = FULL.pruned(60.0 + FRESH_SECONDS)
    assert [seen.scope.node for seen in pruned.observations] == ["b"]
    assert len(pruned.failures) == 0
    assert len(FULL.pruned(100.0).failures) == 2


def test_memory_is_bounded():
    observations = Observations(run(f"n{number}", float(number + 1)) for number in range(MAX_OBSERVATIONS + 10))
    assert len(observations) == MAX_OBSERVATIONS
    assert observations.get(ObservationScope(node="n0", workload_class="go-build")) is None
    failures = Failures(
        FailureRecord(scope=FailureScope(node=f"n{number}"), failure_class="timeout", expires_at=float(number))
        for number in range(MAX_FAILURES + 10)
    )
    assert len(failures) == MAX_FAILURES
    assert failures.get(FailureScope(node="n0")) is None


def test_back_off_doubles_to_a_week():
    assert [backoff_seconds(count) / DAY for count in (-1, 0, 1, 2, 3, 4, 5, 10**9)] == [1, 1, 1, 2, 4, 7, 7, 7]


def test_recording_and_lookup_use_one_scope():
    task = Task(workload_class="go-build", required_tools=("go", "git"))
    assert observation_scope_for_requirements("n", task, "go").tool == "go"
    assert recording_scope("n", task) == observation_scope_for_requirements("n", task)
    single = Task(workload_class="x", required_tools=("Ollama",))
    assert (recording_scope("n", single).tool, recording_scope("n", single).backend) == ("Ollama", "ollama")


def test_a_classifier_that_fails_leaves_it_to_the_keywords():
    def broken(_):
        raise RuntimeError

    assert infer_requirements("go test", broken).task.workload_class == "go-build"
    assert infer_requirements("go test", lambda _: "batch-script").task.workload_class == "batch-script"
    assert infer_requirements("go test", lambda _: None).task.workload_class == "go-build"

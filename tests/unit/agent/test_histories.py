import itertools
import threading
import time

import attrs
import pytest
import trio
from shoal.agent import histories as histories_module
from shoal.agent.errors import StateUnusable
from shoal.agent.histories import JOIN_SECONDS, TELL_SECONDS, Histories
from shoal.agent.payloads import HISTORY_BYTES, HistoryPayload
from shoal.agent.state import StateDirectory
from shoal.placement import (
    FailureClass,
    FailureScope,
    History,
    Observation,
    Observations,
    ObservationScope,
)
from shoal.placement.observations import FRESH_SECONDS

UNIX = 1_700_000_000.0
DAY = 86_400.0
LATER = itertools.count(1000, 10)
A, B = "a" * 32, "b" * 32
GO = FailureScope(node=A, workload_class="go-build")


def run(node=A, at=UNIX, work="go-build", **fields):
    return Observation(scope=ObservationScope(node=node, workload_class=work), observed_at=at, **fields)


class Cluster:
    """Nodes whose histories reach each other as their sections do: encoded, and only what each recorded itself."""

    def __init__(self, *names):
        self.sections = {}
        self.nodes = {name: self.node(name) for name in names}

    def node(self, name, state=None):
        return Histories(
            state,
            lambda payload: self.sections.__setitem__(name, payload),
            lambda: {other: self.history(other) for other in self.sections if other != name},
        )

    def history(self, name):
        return HistoryPayload.decode(self.sections[name]).history

    def spread(self):
        for node in self.nodes.values():
            node.tell()


@pytest.fixture
def cluster():
    return Cluster("one", "two", "three")


@pytest.fixture
def state(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    yield directory
    directory.close()


def holds(histories, scope=GO, unix=UNIX + 1):
    """What a placement on the node would read, long after everything has come round."""
    state = histories.state(next(LATER), unix)
    return state.failures.narrowest(scope, unix)


# Runs


def test_a_run_counts_here_at_once_and_elsewhere_when_it_has_come_round(cluster):
    one, two = cluster.nodes["one"], cluster.nodes["two"]
    one.observe(run(wall_ms=700))
    assert len(one.state(5.0, UNIX).observations) == 1
    assert len(two.state(5.0, UNIX).observations) == 0
    cluster.spread()
    (seen,) = two.state(5.0 + JOIN_SECONDS, UNIX).observations
    assert (seen.wall_ms, seen.observed_at) == (700, UNIX)


def test_runs_of_one_scope_on_all_nodes_are_added_up_once(cluster):
    one, two, three = cluster.nodes.values()
    one.observe(run(wall_ms=100, peak_ram_mb=10))
    two.observe(run(wall_ms=400, samples=2, at=UNIX + 5))
    cluster.spread()
    for node in (one, two, three):
        (seen,) = node.state(9.0, UNIX).observations
        assert (seen.samples, seen.wall_ms, seen.peak_ram_mb, seen.observed_at) == (3, 300, 10, UNIX + 5)
    one.observe(run(wall_ms=700, at=UNIX + 6))
    (seen,) = one.state(9.0, UNIX).observations
    assert (seen.samples, seen.wall_ms) == (4, 400)


def test_what_others_learned_may_be_late_but_not_for_long(cluster):
    one, two = cluster.nodes["one"], cluster.nodes["two"]
    assert not two.state(10.0, UNIX).observations
    one.observe(run())
    cluster.spread()
    two.observe(run(node=B))
    late = two.state(10.0 + JOIN_SECONDS / 2, UNIX).observations
    assert [seen.scope.node for seen in late] == [B], "its own counts at once"
    assert len(two.state(10.0 + JOIN_SECONDS, UNIX).observations) == 2


def test_joining_again_costs_nothing_while_nothing_changed(monkeypatch):
    others = {B: History(observations=Observations([run(node=B)]))}
    node = Histories(None, lambda _: None, lambda: others)
    first = node.state(1.0, UNIX)
    monkeypatch.setattr(histories_module, "joined", None)
    assert node.state(500.0, UNIX).observations is first.observations
    node.observe(run())
    assert len(node.state(500.0, UNIX).observations) == 2


def test_the_state_relates_its_clock_to_the_call():
    node = Histories(None, lambda _: None, dict)
    state = node.state(100.0, UNIX)
    assert (state.epoch, len(state.observations), len(state.failures)) == (UNIX - 100.0, 0, 0)


def test_recording_from_one_thread_while_others_read_loses_nothing():
    node = Histories(None, lambda _: None, dict)
    done = threading.Event()

    def read():
        while not done.is_set():
            node.state(1.0, UNIX)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(400):
        node.observe(run(work=f"w{number % 7}", success=False))
    done.set()
    for reader in readers:
        reader.join()
    for state in (node.state(1.0, UNIX), node.own):
        assert sum(seen.samples for seen in state.observations) == 400


# Failures


def test_a_failure_keeps_its_node_and_work_away_everywhere(cluster):
    one, two, three = cluster.nodes.values()
    held = one.fail(GO, FailureClass.EXEC_CRASH, UNIX + 0.7)
    assert (held.count, held.expires_at, held.is_blocking) == (1, UNIX + DAY, True)
    cluster.spread()
    for node in (one, two, three):
        assert holds(node).is_blocking
        assert holds(node, FailureScope(node=A, workload_class="other")) is None
        assert holds(node, unix=UNIX + DAY) is None


def test_each_failure_more_holds_longer(cluster):
    one = cluster.nodes["one"]
    for count in range(1, 4):
        held = one.fail(GO, FailureClass.TIMEOUT, UNIX + count)
    assert (held.count, held.expires_at) == (3, UNIX + 3 + 4 * DAY)


@pytest.mark.parametrize("lifter", ["one", "two"])
def test_any_node_lifts_a_failure_for_all(cluster, lifter):
    cluster.nodes["one"].fail(GO, FailureClass.EXEC_CRASH, UNIX)
    cluster.spread()
    cluster.nodes[lifter].lift(GO)
    assert holds(cluster.nodes[lifter]) is None
    cluster.spread()
    assert [holds(node) for node in cluster.nodes.values()] == [None, None, None]


@pytest.mark.parametrize("failing", ["one", "three"])
def test_a_failure_after_the_lifting_counts_again(cluster, failing):
    cluster.nodes["one"].fail(GO, FailureClass.EXEC_CRASH, UNIX)
    cluster.spread()
    cluster.nodes["two"].lift(GO)
    cluster.spread()
    cluster.nodes[failing].fail(GO, FailureClass.EXEC_CRASH, UNIX + 60)
    cluster.spread()
    assert all(holds(node, unix=UNIX + 61) for node in cluster.nodes.values())


def test_a_run_that_went_well_clears_failures_of_its_node_and_work(cluster):
    one, two, three = cluster.nodes.values()
    one.fail(GO, FailureClass.EXEC_CRASH, UNIX)
    one.fail(attrs.evolve(GO, workload_class="batch-script"), FailureClass.TIMEOUT, UNIX)
    cluster.spread()
    two.observe(run(at=UNIX + 5, success=False))
    cluster.spread()
    assert holds(three) is not None
    two.observe(run(at=UNIX + 6))
    cluster.spread()
    assert [holds(node) for node in (one, two, three)] == [None, None, None]
    assert holds(three, attrs.evolve(GO, workload_class="batch-script")) is not None


def test_what_only_we_hold_is_forgotten_by_a_success(cluster):
    one = cluster.nodes["one"]
    one.fail(GO, FailureClass.EXEC_CRASH, UNIX)
    one.observe(run(at=UNIX + 6))
    assert len(one.own.failures) == 0
    assert one.fail(GO, FailureClass.EXEC_CRASH, UNIX + 7).count == 1


def test_lifting_what_nobody_holds_changes_nothing(cluster):
    one = cluster.nodes["one"]
    one.lift(GO)
    one.tell()
    assert cluster.sections == {}


# Telling


def test_a_start_without_memories_says_nothing(cluster):
    cluster.spread()
    assert cluster.sections == {}


def test_the_section_stays_small_and_holds_the_latest(cluster):
    one = cluster.nodes["one"]
    for number in range(500):
        one.observe(run(node=f"{number:032x}", at=UNIX + number, success=False))
    one.fail(GO, FailureClass.EXEC_CRASH, UNIX)
    one.tell()
    assert HISTORY_BYTES / 2 < len(cluster.sections["one"]) <= HISTORY_BYTES
    told = cluster.history("one")
    assert [record.scope for record in told.failures] == [GO]
    assert {seen.scope.node for seen in told.observations} == {
        f"{number:032x}" for number in range(500 - len(told.observations), 500)
    }
    assert len(one.state(1.0, UNIX).observations) == 500, "here all of it counts"


async def test_changes_are_told_together_and_the_first_at_once(autojump_clock, nursery):
    told = []
    node = Histories(None, told.append, dict)
    nursery.start_soon(node.run)
    node.observe(run(at=time.time()))
    await trio.testing.wait_all_tasks_blocked()
    assert len(told) == 1
    for number in range(5):
        node.observe(run(at=time.time(), work=f"w{number}"))
    await trio.sleep(TELL_SECONDS / 2)
    assert len(told) == 1
    await trio.sleep(TELL_SECONDS)
    assert len(told) == 2
    assert len(HistoryPayload.decode(told[1]).history.observations) == 6


# Keeping


async def settled(node):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.run)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()


async def test_what_was_recorded_survives_a_restart(state):
    now = time.time()
    node = Histories(state, lambda _: None, dict)
    node.observe(run(at=now, wall_ms=5))
    node.fail(GO, FailureClass.EXEC_CRASH, now)
    await settled(node)
    told = []
    again = Histories(state, told.append, dict)
    assert holds(again, unix=now + 1) == holds(node, unix=now + 1)
    assert list(again.own.observations) == list(node.own.observations)
    again.tell()
    assert len(told) == 1, "others ask nothing of an earlier run"


def test_a_stop_stores_what_was_not_stored_yet(state):
    node = Histories(state, lambda _: None, dict)
    node.close()
    assert state.load("history") is None
    node.observe(run(at=time.time()))
    node.close()
    assert len(Histories(state, lambda _: None, dict).own.observations) == 1


async def test_what_is_too_old_goes_and_an_overridden_failure_stays_while_it_would_hold(state):
    now = time.time()
    node = Histories(state, lambda _: None, dict)
    node.observe(run(at=now - FRESH_SECONDS - 60, success=False))
    node.fail(GO, FailureClass.EXEC_CRASH, now)
    node.fail(attrs.evolve(GO, node=B), FailureClass.TIMEOUT, now - 2 * DAY)
    node.lift(GO)
    await settled(node)
    assert len(node.own.observations) == 0
    assert [(record.scope.node, record.overridden) for record in node.own.failures] == [(A, True)]


@pytest.mark.parametrize("junk", [5, {}, [], [1, 2], [1, [["x"]], []], [99, [], []]])
def test_a_file_that_is_no_history_is_set_aside(state, junk):
    state.save("history", junk)
    own = Histories(state, lambda _: None, dict).own
    assert (len(own.observations), len(own.failures)) == (0, 0)
    assert len(state.warnings) == 1


def test_a_disk_that_fails_stops_nobody(state, monkeypatch):
    def full(_name, _value):
        raise StateUnusable("here", "no space left")

    monkeypatch.setattr(state, "save", full)
    node = Histories(state, lambda _: None, dict)
    node.fail(GO, FailureClass.EXEC_CRASH, UNIX)
    node.close()
    assert holds(node) is not None

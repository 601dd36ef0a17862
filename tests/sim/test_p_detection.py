"""P1, P2, P14: crashes are pinged, suspected and declared in time, however many at once."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import mean

import pytest
import sim_checks as checks
from shoal.gossip import Change, wire
from shoal.gossip.frames import HEADER_BYTES, PlainFrames
from shoal.gossip.messages import Ping
from shoal.gossip.simulation import Network

FRAMES = PlainFrames("shoal")


def pings(cluster):
    """Every ping as it is sent: (moment, sender's index, target's id)."""
    seen = []

    def tap(machine, data, _to):
        message = wire.decode(FRAMES.unwrap(data)) if data[HEADER_BYTES] == wire.PING else None
        if isinstance(message, Ping):
            seen.append((cluster.now, machine.index, message.target))

    cluster.tap = tap
    return seen


def crash_once(count, seed):
    """Seconds from a crash to the first ping at it, and to the first suspicion; in intervals, as lan has 1 s."""
    cluster = checks.rest(count, seed)
    cluster.run(3.0 + 7.0 * cluster.chance.random())
    cluster.happenings.clear()
    seen = pings(cluster)
    cluster.crash(0)
    at, target = cluster.now, cluster.machines[0].identity.node_id
    assert cluster.run_until(lambda: bool(cluster.of(Change.SUSPECTED)), 2.0 * count + 10.0)
    return min(when for when, _, whom in seen if whom == target) - at, cluster.of(Change.SUSPECTED)[0].at - at


def p1(count, expected, runs):
    first, suspected = zip(*(crash_once(count, seed) for seed in range(runs)), strict=True)
    # Three standard errors, as the spread of a first ping is at most its mean.
    assert mean(first) == pytest.approx(expected, abs=3 * expected / math.sqrt(runs)), first
    assert mean(first) < mean(suspected) <= 2.2, suspected


@pytest.mark.parametrize(("count", "expected", "runs"), [(3, 0.71, 120), (10, 0.91, 100), (100, 0.98, 40)])
def test_p1_first_ping_of_a_crashed_node(count, expected, runs):
    p1(count, expected, runs)


@pytest.mark.big
def test_p1_first_ping_among_1000():
    p1(1000, 1.0, 30)


@pytest.mark.parametrize("seed", range(2))
def test_p2_everybody_is_probed_within_two_rounds_less_one_period(seed):
    count, newcomers = 12, 3
    cluster = checks.rest(count, seed)
    cluster.seeds = [0]
    seen = pings(cluster)
    cluster.run(40.0)
    for _ in range(newcomers):
        cluster.start([cluster.add().index])
        cluster.run(10.0)
    cluster.run(60.0)
    limit = 2 * (count + newcomers) - 1
    turns = defaultdict(list)
    for when, sender, whom in seen:
        if sender < count:
            turns[sender, cluster.index_of(whom)].append(when)
    for (sender, target), moments in turns.items():
        gaps = [after - before for before, after in zip(moments, [*moments[1:], cluster.now], strict=True)]
        assert max(gaps) <= limit, (sender, target, max(gaps))
    assert len(turns) == count * (count + newcomers - 1)


@pytest.mark.parametrize("seed", range(2))
def test_p2_a_crashed_one_is_probed_or_known_by_all_within_two_rounds(seed):
    count = 16
    cluster = checks.rest(count, seed)
    cluster.run(20.0)
    seen = pings(cluster)
    cluster.crash(3)
    at, target = cluster.now, cluster.machines[3].identity.node_id
    cluster.run(2 * count - 1)
    probed = {sender for _, sender, whom in seen if whom == target}
    known = set(cluster.first_seen(Change.SUSPECTED, 3)) | set(cluster.first_seen(Change.FAILED, 3))
    assert probed | known >= set(range(count)) - {3}
    assert max(cluster.first_seen(Change.FAILED, 3).values()) - at <= 2 * count - 1


@pytest.mark.parametrize("seed", range(6))
def test_p14_45_of_50_dead_at_once_are_all_declared(seed):
    checks.crash_is_noticed(seed, count=50, victims=45, within=65.0)


def test_p14_40_percent_of_200_dead_at_once_are_all_declared():
    checks.crash_is_noticed(1, count=200, victims=80, within=65.0)


def test_p14_under_loss():
    checks.crash_is_noticed(2, count=50, victims=20, within=65.0, network=Network(loss=0.1))


@pytest.mark.big
@pytest.mark.parametrize("seed", range(10, 40))
def test_p14_many_times(seed):
    checks.crash_is_noticed(seed, count=50, victims=45, within=65.0)


@pytest.mark.big
def test_p14_400_of_1000_dead_at_once():
    checks.crash_is_noticed(1, count=1000, victims=400, within=65.0)

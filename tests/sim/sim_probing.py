"""P1 and P2: when a crashed node is pinged first, and how long anybody goes unprobed."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import mean

from shoal.gossip import Change, wire
from shoal.gossip.frames import HEADER_BYTES, PlainFrames
from shoal.gossip.messages import Ping
from sim_checks import demand, rest

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
    cluster = rest(count, seed)
    cluster.run(3.0 + 7.0 * cluster.chance.random())
    cluster.happenings.clear()
    seen = pings(cluster)
    cluster.crash(0)
    at, target = cluster.now, cluster.machines[0].identity.node_id
    demand(cluster.run_until(lambda: bool(cluster.of(Change.SUSPECTED)), 2.0 * count + 10.0), "P1 nobody suspects it")
    return min(when for when, _, whom in seen if whom == target) - at, cluster.of(Change.SUSPECTED)[0].at - at


def first_ping_comes_soon(seed, *, count=3, expected=0.71, runs=120):
    """P1: the mean over `runs` crashes, of seeds from `seed * runs` on."""
    first, suspected = zip(*(crash_once(count, seed * runs + run) for run in range(runs)), strict=True)
    # Three standard errors, as the spread of a first ping is at most its mean.
    demand(abs(mean(first) - expected) <= 3 * expected / math.sqrt(runs), "P1 mean of first pings", mean(first))
    demand(mean(first) < mean(suspected) <= 2.2, "P1 mean of first suspicions", mean(suspected))


def everybody_is_probed(seed, *, count=12, newcomers=3):
    """P2: by everybody within 2N - 1 periods, N counting all that were seen meanwhile."""
    cluster = rest(count, seed)
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
        demand(max(gaps) <= limit, "P2 periods between two probes", sender, target, max(gaps))
    demand(len(turns) == count * (count + newcomers - 1), "P2 all are probed by all", len(turns))

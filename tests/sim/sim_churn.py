"""P10: what could grow in a node, and a day of churn to make it grow."""

from __future__ import annotations

from collections import Counter
from random import Random

from shoal.gossip import Change, Settings
from shoal.gossip.simulation import Network
from sim_checks import demand, rest


def sizes(machine):
    """Everything in a node that could grow, by count."""
    node, parts = machine.node, machine.node._parts
    found = {"rows": len(node._core.table), "recent": len(node._core.recent), "queue": len(parts.spread)}
    for name in (
        "spread",
        "sections",
        "prober",
        "answers",
        "syncer",
        "joiner",
        "relay",
        "liveness",
        "intake",
        "upkeep",
    ):
        part = getattr(parts, name)
        for key, value in vars(part).items():
            if isinstance(value, dict | list | set):
                found[f"{name}.{key}"] = len(value)
    return found


def rows_are_bounded(cluster):
    ids = len(cluster._index_of)
    for machine in cluster.running():
        demand(len(machine.node._core.table) <= ids, "P10 rows <= distinct ids", machine.index)


def churn(seed, *, hours=24.0, count=8, settings=None):
    """P10: a day of crashes, restarts, leaves, replacements and changes. Gives sizes at half time and at the end.

    Half of the nodes run all the time: whoever starts anew has forgotten what it would have collected.
    """
    settings = settings or Settings.lan(
        probe_interval=10.0,
        probe_timeout=2.0,
        gossip_tick=2.0,
        sync_interval=300.0,
        retry_interval=60.0,
        reap_after=1800.0,
        forget_after=7200.0,
    )
    cluster = rest(count, seed, settings=settings, network=Network(loss=0.02))
    cluster.seeds = [0, 1]
    cluster.recorded = frozenset({Change.FAILED})
    chance, end = Random(seed), hours * 3600.0

    def turn():
        index = chance.randrange(count // 2, count)
        machine = cluster.machines[index]
        act = chance.randrange(4)
        if not machine.up:
            cluster.restart(index, moved=chance.random() < 0.2)
        elif act == 0:
            cluster.crash(index)
        elif act == 1:
            cluster.leave(index)
        elif act == 2:
            cluster.reinstall(index)
        else:
            cluster.publish(index, chance.randbytes(300))
        if cluster.now < end:
            cluster.after(600.0 * chance.random(), turn)

    turn()
    cluster.run(end / 2)
    rows_are_bounded(cluster)
    middle = biggest(cluster)
    cluster.run(end / 2)
    rows_are_bounded(cluster)
    return middle, biggest(cluster), len(cluster._heap)


def biggest(cluster):
    found = Counter()
    for machine in cluster.running():
        for key, value in sizes(machine).items():
            found[key] = max(found[key], value)
    return found


def stays_flat(seed, **how):
    """P10: what is held after a day is what was held after half of it."""
    middle, end, events = churn(seed, **how)
    demand(events <= 16 * 8, "P10 timers", events)
    for what, size in end.items():
        # Half as much again, for what comes and goes: what only grew would be twice as much.
        demand(size <= max(1.5 * middle[what], 32), "P10 grows", what, middle[what], size)

"""Checkers of the properties of MEMBERSHIP.md, section 8: each runs a scenario and raises `Broken` with the reason.

Used by the property tests on the core as it is, and by the mutation tests on cores that are broken on purpose.
"""

from __future__ import annotations

import math

from shoal.gossip import Change, Rank, SectionKind, Settings, State
from shoal.gossip.precedence import standing
from shoal.gossip.simulation import Cluster, Network
from sim_mischief import Mischief


class Broken(AssertionError):
    """A property does not hold."""


def demand(holds, prop, *why):
    if not holds:
        raise Broken(f"{prop}: " + " ".join(map(str, why)))


def rest(count, seed, *, settings=None, network=None, record=b""):
    """A cluster at rest."""
    return Cluster.established(count, settings or Settings.lan(), seed=seed, network=network, record=record)


def table_of(machine):
    """What equal tables agree on: all but suspicions, accusers and vitals."""
    return {
        entry.node_id: (
            entry.claim.generation,
            entry.claim.incarnation,
            entry.claim.rank is Rank.LEFT,
            entry.shown in {State.ALIVE, State.SUSPECT} or entry.shown,
            tuple(
                sorted(
                    (int(kind), held.version, held.digest.hex())
                    for kind, held in entry.sections.items()
                    if held.generation == entry.claim.generation
                )
            ),
        )
        for entry in machine.node._core.table
    }


def equal_tables(cluster):
    tables = [table_of(machine) for machine in cluster.running()]
    return all(table == tables[0] for table in tables)


def differences(cluster):
    """Where tables differ from the first one's, for a message."""
    machines = cluster.running()
    first = table_of(machines[0])
    return [
        (machine.index, cluster.index_of(node_id), first.get(node_id), table.get(node_id))
        for machine in machines[1:]
        for table in [table_of(machine)]
        for node_id in {*first, *table}
        if first.get(node_id) != table.get(node_id)
    ][:4]


def false_deaths(cluster, dead=()):
    """Deaths shown of machines that are not among the dead."""
    deaths = cluster.of(Change.FAILED)
    return [h for h in deaths if cluster.index_of(h.subject) not in dead and h.observer not in dead]


class Laws:
    """P7, watched while a cluster runs: what one node holds only rises, and nobody but the owner raises a version."""

    def __init__(self, cluster, *, every=0.5):
        self._cluster = cluster
        self._held = {}
        self._every = every
        self._look()

    def _look(self):
        cluster = self._cluster
        owners = {m.node.identity.node_id: m.node._core.me.claim for m in cluster.machines}
        for machine in cluster.running():
            for entry in machine.node._core.table:
                self._check(machine, entry, owners)
        ids = len({m.identity.node_id for m in cluster.machines} | set(cluster._index_of))
        for machine in cluster.running():
            demand(len(machine.node._core.table) <= ids, "P10 rows <= distinct ids", machine.index)
        cluster.after(self._every, self._look)

    def _check(self, machine, entry, owners):
        key = (machine.index, machine.life, entry.node_id)
        claim, shown = entry.claim, entry.shown
        before = self._held.get(key)
        self._held[key] = (claim, shown)
        if before is not None:
            demand(standing(before[0]) <= standing(claim), "P7 a held claim fell", before, claim)
            revived = before[1] in {State.DEAD, State.LEFT} and shown in {State.ALIVE, State.SUSPECT}
            raised = standing(before[0])[:3] < standing(claim)[:3]
            demand(raised or not revived, "P7 resurrection", before, claim, shown)
        owner = owners.get(entry.node_id)
        if owner is not None and claim.rank is not Rank.LEFT:
            mine = (owner.generation, owner.incarnation)
            demand((claim.generation, claim.incarnation) <= mine, "P7 not the owner raised it", claim, owner)


def crash_is_noticed(seed, *, count=16, victims=1, within=25.0, settings=None, network=None):
    """All survivors show the crashed dead in time, and nobody else."""
    cluster = rest(count, seed, settings=settings, network=network)
    Laws(cluster, every=0.5 if count <= 64 else 8.0)
    cluster.run(4.0)
    dead = cluster.chance.sample(range(count), victims)
    for victim in dead:
        cluster.crash(victim)

    def known():
        return all(m.node.alive == count - victims and not m.node.suspected for m in cluster.running())

    noticed = cluster.run_until(known, within)
    left = sorted(m.node.alive + m.node.suspected - (count - victims) for m in cluster.running())
    demand(noticed, "P14 all dead are declared", left)
    took = cluster.now - 4.0
    cluster.run(10.0)
    demand(not false_deaths(cluster, dead), "P5 nobody else is declared", false_deaths(cluster, dead)[:3])
    return took


def loss_kills_nobody(seed, *, count=32, loss=0.1, seconds=120.0, settings=None):
    """P5: loss alone makes no dead."""
    cluster = rest(count, seed, settings=settings, network=Network(loss=loss))
    Laws(cluster, every=2.0)
    cluster.run(seconds)
    demand(not cluster.of(Change.FAILED), "P5 no node falsely dead", cluster.of(Change.FAILED)[:3])
    return cluster


def stalls_kill_nobody(seed, *, count=64, stalled=16, seconds=120.0, settings=None, noticed=True):
    """P8: healthy nodes never declare each other dead while others stall up to 10 s.

    `noticed`: whether the stalled see their own lag; else only their packets wait.
    """
    cluster = rest(count, seed, settings=settings)
    for index in range(stalled):
        if noticed:
            cluster.stall(index, 10.0, working=1.0, until=seconds)
        else:
            cluster.machines[index].slow = 10.0
    cluster.run(seconds + 15.0)
    wrong = false_deaths(cluster, range(stalled))
    demand(not wrong, "P8 healthy nodes declare each other", [(h.observer, cluster.index_of(h.subject)) for h in wrong])
    about_healthy = [h for h in cluster.of(Change.FAILED) if (cluster.index_of(h.subject) or 0) >= stalled]
    demand(not about_healthy, "P8 dead events about the healthy", about_healthy[:3])
    return cluster


def no_hole_stays(seed, *, count=12, seconds=90.0, settings=None):
    """P4 and P7: after a random schedule all tables, sections and tombstones are equal within two sync intervals."""
    settings = settings or Settings.local()
    cluster = rest(count, seed, settings=settings, record=b"first")
    cluster.seeds = [0, 1]
    Laws(cluster)
    mischief = Mischief(cluster, seed, until=seconds)
    mischief.begin()
    cluster.run_until(lambda: mischief.ended_at is not None, seconds + 10.0)

    def healed():
        return (
            all(m.held_until <= cluster.now for m in cluster.machines) and cluster.complete() and equal_tables(cluster)
        )

    equal = cluster.run_until(healed, 2 * settings.sync_interval)
    demand(equal, "P4 tables stay different", differences(cluster), mischief.done)
    return cluster.now - mischief.ended_at


def stopped_and_odd_clocks(seed, *, count=32):
    """P9: clock steps, drift, suspend and freeze make no dead; who was away accuses nobody on return."""
    cluster = rest(count, seed)
    cluster.seeds = [0]
    years = 10 * 365 * 86400.0
    for index in range(count):
        cluster.drift(index, 0.9 + 0.2 * (index % 2))
        cluster.set_wall_clock(index, years if index % 3 else -years)
    cluster.run(20.0)
    demand(not cluster.of(Change.FAILED), "P9 drift makes dead", cluster.of(Change.FAILED)[:3])
    cluster.crash(1)
    cluster.run(0.2)
    cluster.restart(1)  # its wall clock says 1960 or 2033
    cluster.run(20.0)
    demand(cluster.complete(), "P9 restarted with a stepped clock", [m.node.alive for m in cluster.running()])
    demand(not cluster.of(Change.FAILED), "P9 steps make dead", cluster.of(Change.FAILED)[:3])
    for away, stop in ((2, cluster.freeze), (3, cluster.suspend), (4, cluster.freeze), (5, cluster.suspend)):
        seconds = 3.0 if away < 4 else 30.0
        cluster.happenings.clear()
        stop(away, seconds)
        cluster.run(seconds + 25.0)
        returned = cluster.now - 25.0
        accused = [h for h in cluster.of(Change.SUSPECTED, Change.FAILED) if h.observer == away and h.at >= returned]
        demand(not accused, "P9 back from a stop it accuses", away, accused[:3])
        wrong = false_deaths(cluster, [away])
        demand(not wrong, "P9 a stop makes others dead", away, wrong[:3])
        demand(seconds > 3 or not cluster.of(Change.FAILED), "P9 a short stop makes dead", away)
        demand(cluster.complete(), "P9 back within seconds", away, [m.node.alive for m in cluster.running()])


def spread_is_quick(seed, *, count=200, loss=0.0, news=8):
    """P3: p99 of the time in which a row, and a small section with it, reaches all. Gives it in ticks."""
    cluster = rest(count, seed, network=Network(loss=loss))
    cluster.run(5.0)
    took = []
    for number in range(news):
        cluster.happenings.clear()
        index = cluster.chance.randrange(count)
        at = cluster.now
        cluster.publish(index, bytes([number]), SectionKind.SCHEDULE)
        cluster.run(6.0)
        seen = cluster.first_seen(Change.SECTION, index)
        demand(len(seen) == count, "P3 reaches all", len(seen))
        took += [moment - at for observer, moment in seen.items() if observer != index]
    ticks = sorted(took)[int(0.99 * len(took))] / cluster.settings.gossip_tick
    limit = math.ceil(math.log(count, cluster.settings.fanout + 1)) + 2 + (loss > 0)
    demand(ticks <= limit, "P3 p99 in ticks", ticks, "of", limit)
    return ticks


def leave_is_known(seed, *, count=128, loss=0.1):
    """P12: p99 <= 2 s, and leaving is no death. Gives the p99."""
    cluster = rest(count, seed, network=Network(loss=loss))
    cluster.run(5.0)
    at = cluster.now
    cluster.leave(7)
    cluster.run(30.0)
    seen = {who: when for who, when in cluster.first_seen(Change.LEFT, 7).items() if who != 7}
    demand(len(seen) == count - 1, "P12 leave known everywhere", len(seen))
    p99 = sorted(seen.values())[int(0.99 * len(seen))] - at
    demand(p99 <= 2.0, "P12 p99 of leaving", p99)
    demand(not cluster.of(Change.FAILED), "P12 leaving is no death", cluster.of(Change.FAILED)[:3])
    return p99


def partition_heals(seed, *, count=32, seconds=600.0):
    """P13: 50/50 for long, converged within 30 s, no false dead within a side. Gives the seconds."""
    cluster = rest(count, seed)
    Laws(cluster, every=2.0)
    half = count // 2
    cluster.run(3.0)
    cluster.partition(range(half), range(half, count))
    cluster.run(seconds)

    def side(index):
        return index is not None and index < half

    within = [h for h in cluster.of(Change.FAILED) if side(h.observer) == side(cluster.index_of(h.subject))]
    demand(not within, "P13 no false dead within a side", within[:3])
    across = {cluster.shown(one, other) for one in range(half) for other in range(half, count)}
    demand(across == {State.DEAD}, "P13 the other side is dead", across)
    cluster.heal()
    healed = cluster.run_until(lambda: cluster.complete() and equal_tables(cluster), 30.0)
    demand(healed, "P13 heals in 30 s", [m.node.alive for m in cluster.running()])
    return cluster.now - seconds - 3.0


def all_restart(seed, *, count=100, loss=0.05, over=5.0, within=10.0):
    """P11: all restarted in random order; full mesh soon after. Gives the seconds since the last restart."""
    cluster = rest(count, seed, network=Network(loss=loss), record=bytes(440))
    cluster.seeds = [0, 1, 2]
    cluster.recorded = frozenset({Change.FAILED})
    cluster.run(3.0)

    def restart(index):
        cluster.crash(index)
        cluster.restart(index)
        cluster.publish(index, bytes(440))

    for index in range(count):
        cluster.after(over * cluster.chance.random(), restart, index)
    cluster.run(over)
    demand(cluster.run_until(lambda: meshed(cluster), within), "P11 full mesh", holes(cluster))
    return cluster.now - over - 3.0


def meshed(cluster):
    return not holes(cluster, most=1)


def holes(cluster, most=5):
    """Pairs of which one does not show the other alive in the generation that it has."""
    found = []
    for one in cluster.running():
        table = one.node._core.table
        for other in cluster.running():
            entry = table.get(other.identity.node_id)
            if entry is None or entry.shown is not State.ALIVE or entry.claim.generation != other.identity.generation:
                found.append((one.index, other.index))
                if len(found) >= most:
                    return found
    return found

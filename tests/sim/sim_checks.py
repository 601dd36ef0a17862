"""Checkers of the properties of MEMBERSHIP.md, section 8: each runs a scenario and raises `Broken` with the reason.

Used by the property tests on the core as it is, and by the mutation tests on cores that are broken on purpose.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from shoal.gossip import Change, Rank, SectionKind, Settings, State
from shoal.gossip.precedence import standing
from shoal.gossip.simulation import Cluster, Network


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
    laws = Laws(cluster)
    cluster.run(4.0)
    dead = cluster.chance.sample(range(count), victims)
    for victim in dead:
        cluster.crash(victim)

    def known():
        return all(m.node.alive == count - victims for m in cluster.running())

    noticed = cluster.run_until(known, within)
    demand(noticed, "P14 all dead are declared", sorted(m.node.alive for m in cluster.running()))
    took = cluster.now - 4.0
    cluster.run(10.0)
    demand(not false_deaths(cluster, dead), "P5 nobody else is declared", false_deaths(cluster, dead)[:3])
    del laws
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


class Mischief:
    """P4: a random finite schedule of faults, all over by `until`."""

    def __init__(self, cluster, seed, *, until):
        self._cluster = cluster
        self._chance = Random(seed)
        self._until = until
        self.done = Counter()
        self.ended_at = None

    def begin(self):
        self._cluster.after(1 + 3 * self._chance.random(), self._next)

    def _next(self):
        cluster, chance = self._cluster, self._chance
        if cluster.now >= self._until:
            self._end()
            return
        acts = [self._crash, self._restart, self._leave, self._cut, self._one_way, self._udp, self._heal, self._publish]
        acts += [self._weather, self._freeze, self._suspend, self._publish, self._restart]
        act = chance.choice(acts)
        self.done[act.__name__] += 1
        act()
        cluster.after(6 * chance.random(), self._next)

    def _end(self):
        cluster = self._cluster
        self.ended_at = cluster.now
        cluster.heal()
        cluster.network = Network()
        for machine in cluster.machines:
            if not machine.up and not machine.left:
                cluster.restart(machine.index)

    def _some(self):
        indexes = range(len(self._cluster.machines))
        return self._chance.sample(indexes, 1 + self._chance.randrange(len(indexes) // 2))

    def _any(self, *, up):
        found = [m.index for m in self._cluster.machines if m.up is up]
        return self._chance.choice(found) if found else None

    def _crash(self):
        index = self._any(up=True)
        if index and len(self._cluster.running()) > 3:
            self._cluster.crash(index)

    def _restart(self):
        index = self._any(up=False)
        if index is not None:
            self._cluster.restart(index, moved=self._chance.random() < 0.3)

    def _leave(self):
        index = self._any(up=True)
        if index and len(self._cluster.running()) > 3 and self._chance.random() < 0.4:
            self._cluster.leave(index)

    def _cut(self):
        one = self._some()
        self._cluster.partition(one, [i for i in range(len(self._cluster.machines)) if i not in one])

    def _one_way(self):
        self._cluster.cuts.block(self._some(), self._some())

    def _udp(self):
        self._cluster.cuts.block(self._some(), self._some(), streams=False)

    def _heal(self):
        self._cluster.heal()

    def _publish(self):
        index = self._any(up=True)
        kind = self._chance.choice((SectionKind.RECORD, SectionKind.SCHEDULE, 77))
        size = self._chance.choice((3, 440, 4000))
        if index is not None and not self._cluster.machines[index].node._core.leaving:
            self._cluster.publish(index, self._chance.randbytes(size), kind)

    def _weather(self):
        loss = self._chance.choice((0.0, 0.05, 0.2, 0.4))
        self._cluster.network = Network(loss=loss, doubled=0.1, held=0.1, hold=2.0)

    def _freeze(self):
        index = self._any(up=True)
        if index is not None:
            self._cluster.freeze(index, min(8 * self._chance.random(), max(self._until - self._cluster.now, 0.1)))

    def _suspend(self):
        index = self._any(up=True)
        if index is not None:
            self._cluster.suspend(index, min(20 * self._chance.random(), max(self._until - self._cluster.now, 0.1)))


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

"""A random finite schedule of faults, for P4: whatever it does is over by a given moment."""

from __future__ import annotations

from collections import Counter
from random import Random

from shoal.gossip import SectionKind
from shoal.gossip.simulation import Network


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

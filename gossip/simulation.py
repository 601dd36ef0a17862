"""The deterministic cluster: many nodes, one heap of events, a network that loses, delays and cuts. Seed in, run out.

It is a shell like the agent's, with clocks of its own: it obeys the same effects, so that what holds here holds
there. Used by tests and by `shoal simulate`. Commands name machines by their index.

    simulated_network    loss, delay, doubling, reordering, cuts
    simulated_machine    clocks that drift, processes that stop, machines that sleep
    simulated_shell      events and effects
    simulated_base       tables shared by all until they differ, for clusters of many thousands
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random

import attrs

from .effects import Change
from .frames import Frames
from .member import BOOT_ID_BYTES, NODE_ID_BYTES, Address, Identity, Section, SectionKind, State
from .node import Node
from .settings import Settings
from .simulated_base import Base, SharingNode
from .simulated_machine import Machine
from .simulated_network import Network, simulated_address
from .simulated_shell import Happening, Shell

__all__ = ["Cluster", "Happening", "Machine", "Network"]

_EPOCH_MS = 1_700_000_000_000  # the wall clock at the start of a run


class Cluster(Shell):
    """Nodes, network and time."""

    def __init__(self, count: int, settings: Settings, *, seed: int, network: Network | None = None) -> None:
        super().__init__(seed=seed, network=network)
        self.settings = settings
        self.machines: list[Machine] = []
        self.seeds: list[int] = [0]
        self.resolve = lambda _: [self.machines[index].address for index in self.seeds]
        for _ in range(count):
            self.add()

    @classmethod
    def established(
        cls, count: int, settings: Settings, *, seed: int, network: Network | None = None, record: bytes = b""
    ) -> Cluster:
        """A cluster that runs and is at rest: all know all. What no node has changed is held once for all of them."""
        cluster = cls(0, settings, seed=seed, network=network)
        for _ in range(count):
            cluster.add()
        section: dict[int, bytes] = {SectionKind.RECORD: record} if record else {}
        base = Base((machine.identity, machine.address, section) for machine in cluster.machines)
        cluster.seeds = []
        for machine in cluster.machines:
            chance = Random(cluster.chance.getrandbits(64))
            machine.node = SharingNode(machine.identity, settings, chance, base, advertise=machine.address)
            cluster.obey(machine, machine.node.start(0.0))
        return cluster

    # Building

    def add(
        self, *, settings: Settings | None = None, seal: Frames | None = None, address: Address | None = None
    ) -> Machine:
        """One more machine, not started; with settings, frames or an address of its own where given."""
        index = len(self.machines)
        identity = Identity(node_id=self.chance.randbytes(NODE_ID_BYTES), generation=_EPOCH_MS, boot_id=self._boot_id())
        return self._put(index, identity, address or simulated_address(index), settings, seal)

    def clone(self, index: int) -> Machine:
        """A machine with a copy of another's state directory, as it is at this moment; not started."""
        stored = self.machines[index].identity
        twin = len(self.machines)
        identity = attrs.evolve(stored, generation=self._next_generation(index), boot_id=self._boot_id())
        machine = self._put(twin, identity, simulated_address(twin), None, None)
        self._index_of[stored.node_id] = index
        return machine

    def _put(
        self, index: int, identity: Identity, address: Address, settings: Settings | None, seal: Frames | None
    ) -> Machine:
        chance = Random(self.chance.getrandbits(64))
        node = Node(identity, settings or self.settings, chance, advertise=address, seal=seal)
        machine = Machine(index, address, node, identity)
        machine.seal = seal
        self.machines.append(machine)
        self.by_address[address] = machine
        self._index_of[identity.node_id] = index
        return machine

    def _boot_id(self) -> bytes:
        return self.chance.randbytes(BOOT_ID_BYTES)

    def _next_generation(self, index: int) -> int:
        """As an agent takes it: beyond what is stored, and the wall clock's when that is greater."""
        machine = self.machines[index]
        wall = _EPOCH_MS + int(1000 * (self.now + machine.clock.wall_error))
        return max(machine.identity.generation + 1, wall)

    def machine(self, index: int) -> Machine:
        return self.machines[index]

    # Life and death

    def start(self, indexes: Iterable[int] | None = None, *, within: float = 0.0, join: bool = True) -> None:
        """Start machines at random moments of the next `within` seconds; each asks the seeds."""
        for index in range(len(self.machines)) if indexes is None else indexes:
            self.after(self.chance.random() * within, self._start, self.machines[index], join)

    def _start(self, machine: Machine, join: bool) -> None:  # noqa: FBT001 - passed on by the heap
        local = machine.clock.at(self.now)
        self.obey(machine, machine.node.start(local))
        if join:
            self.obey(machine, machine.node.join(local))

    def crash(self, index: int) -> None:
        """The process is gone; the machine still refuses its connections."""
        self.stop(self.machines[index])

    def restart(self, index: int, *, join: bool = True, moved: bool = False, forgetful: bool = False) -> None:
        """The same id in a new generation; `moved`: on a new address; `forgetful`: without its peers snapshot."""
        machine = self.machines[index]
        remembered = () if forgetful else machine.node.snapshot()
        machine.identity = attrs.evolve(
            machine.identity, generation=self._next_generation(index), boot_id=self._boot_id()
        )
        if moved:
            if self.by_address.get(machine.address) is machine:
                del self.by_address[machine.address]
            machine.moves += 1
            machine.address = simulated_address(index, machine.moves)
            self.by_address[machine.address] = machine
        chance = Random(self.chance.getrandbits(64))
        settings, address = machine.node.settings, machine.address
        machine.node = Node(
            machine.identity, settings, chance, advertise=address, seal=machine.seal, remembered=remembered
        )
        machine.up, machine.left = True, False
        machine.life += 1
        self._index_of[machine.identity.node_id] = index
        self._start(machine, join)

    def reinstall(self, index: int) -> None:
        """The process is gone with its state directory; a node with a new id starts in its place and joins."""
        machine = self.machines[index]
        self.stop(machine)
        node_id = self.chance.randbytes(NODE_ID_BYTES)
        machine.identity = attrs.evolve(machine.identity, node_id=node_id)
        self.restart(index, forgetful=True)

    def leave(self, index: int) -> None:
        machine = self.machines[index]
        self.obey(machine, machine.node.leave(machine.clock.at(self.now)))

    # Faults

    def freeze(self, index: int, seconds: float) -> None:
        """Stop the process (SIGSTOP): packets and timers wait, then the lag is noticed and all come at once."""
        self.hold(self.machines[index], seconds, asleep=False)

    def suspend(self, index: int, seconds: float) -> None:
        """Suspend the machine: packets are lost, its monotonic clock stands still, then it resumes."""
        self.hold(self.machines[index], seconds, asleep=True)

    def stall(self, index: int, longest: float, *, working: float, until: float) -> None:
        """Again and again, until that moment: work for up to `working` seconds, then stop for up to `longest`."""
        work, rest = working * self.chance.random(), longest * self.chance.random()
        if self.now + work < until:
            self.after(work, self.freeze, index, rest)
            self.after(work + rest, lambda: self.stall(index, longest, working=working, until=until))

    def drift(self, index: int, rate: float) -> None:
        """Let a machine's clocks run at another rate: 1.1 is 10 % fast."""
        self.machines[index].clock.drift(rate, self.now)

    def set_wall_clock(self, index: int, error: float) -> None:
        """Set the wall clock wrong by that many seconds."""
        self.machines[index].clock.wall_error = error

    def partition(self, *groups: Iterable[int]) -> None:
        """Only machines of one group reach each other; those in none reach nobody."""
        self.cuts.partition(*groups)

    def heal(self) -> None:
        self.cuts.heal()

    # Looking

    def running(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.up]

    def publish(self, index: int, payload: bytes, kind: int = SectionKind.RECORD) -> None:
        """Let a node set its section."""
        machine = self.machines[index]
        self.obey(machine, machine.node.publish(kind, payload, machine.clock.at(self.now)))

    def section(self, observer: int, subject: int, kind: int = SectionKind.RECORD) -> Section | None:
        """What one holds of another."""
        member = self.machines[observer].node.member(self.machines[subject].identity.node_id)
        return None if member is None else member.sections.get(kind)

    def shown(self, observer: int, subject: int) -> State | None:
        member = self.machines[observer].node.member(self.machines[subject].identity.node_id)
        return None if member is None else member.state

    def complete(self) -> bool:
        """Whether every running machine shows as many members alive as run."""
        running = self.running()
        return all(machine.node.alive == len(running) for machine in running)

    def of(self, *what: Change) -> list[Happening]:
        return [happening for happening in self.happenings if happening.what in what]

    def index_of(self, node_id: bytes) -> int | None:
        return self._index_of.get(node_id)

    def first_seen(self, what: Change, subject: int) -> dict[int, float]:
        """When each observer first showed that of the subject."""
        node_id = self.machines[subject].identity.node_id
        seen: defaultdict[int, float] = defaultdict(lambda: float("inf"))
        for happening in self.happenings:
            if happening.what is what and happening.subject == node_id:
                seen[happening.observer] = min(seen[happening.observer], happening.at)
        return dict(seen)

"""The deterministic cluster: many nodes, one heap of events, a network that loses, delays and cuts. Seed in, run out.

It is a shell like the agent's, with a clock of its own: it obeys the same effects, so that what holds here holds
there. Used by tests and by `shoal simulate`.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from random import Random

import attrs

from .effects import (
    Ask,
    Change,
    Changed,
    Conflict,
    Effect,
    Left,
    Note,
    Outcome,
    Persist,
    Refused,
    ResolveSeeds,
    Send,
    TimedOut,
    Wake,
)
from .member import BOOT_ID_BYTES, NODE_ID_BYTES, Address, Identity, State
from .node import Node
from .settings import Settings

UDP_HEADERS = 28  # IPv4 and UDP, counted into bytes as on the wire
_PORT = 7931
_FIRST_GENERATION = 1_700_000_000_000


@attrs.frozen(kw_only=True)
class Network:
    """How packets travel. Times in seconds."""

    loss: float = 0.0
    """Share of datagrams lost, each way. Streams lose nothing, as TCP repeats."""
    shortest: float = 0.0005
    longest: float = 0.002


@attrs.frozen
class Happening:
    """One change that one node showed."""

    at: float
    observer: int
    subject: bytes
    what: Change
    section: int | None


@attrs.define(eq=False)
class Machine:
    """One simulated machine and the node on it."""

    index: int
    address: Address
    node: Node
    identity: Identity
    up: bool = True
    life: int = 0
    """Raised at each crash and restart: what was meant for an earlier life is dropped."""
    paused_until: float = 0.0
    left: bool = False
    bytes_out: int = 0
    packets_out: int = 0


Check = Callable[["Cluster", Machine, Effect], None]


class Cluster:
    """Nodes, network and time. `machines[i]` is addressed by its index in all commands."""

    def __init__(self, count: int, settings: Settings, *, seed: int, network: Network | None = None) -> None:
        self.chance = Random(seed)
        self.settings = settings
        self.network = network or Network()
        self.now = 0.0
        self.machines: list[Machine] = []
        self.happenings: list[Happening] = []
        self.conflicts: list[tuple[int, Conflict]] = []
        self.notes: Counter[str] = Counter()
        self.seeds: list[int] = [0]
        self.blocked: Callable[[Machine, Machine, bool], bool] = lambda _from, _to, _stream: False
        """Whether what one machine sends another is lost; the last argument tells streams from datagrams."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._by_address: dict[Address, Machine] = {}
        self._index_of: dict[bytes, int] = {}
        for _ in range(count):
            self.add()

    # Building and commanding

    def add(self) -> Machine:
        """One more machine, not started."""
        index = len(self.machines)
        address = (f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", _PORT)
        identity = Identity(
            node_id=self.chance.randbytes(NODE_ID_BYTES),
            generation=_FIRST_GENERATION,
            boot_id=self.chance.randbytes(BOOT_ID_BYTES),
        )
        machine = Machine(index, address, self._node(identity, address), identity)
        self.machines.append(machine)
        self._by_address[address] = machine
        self._index_of[identity.node_id] = index
        return machine

    def _node(self, identity: Identity, address: Address, remembered: Iterable[Address] = ()) -> Node:
        chance = Random(self.chance.getrandbits(64))
        return Node(identity, self.settings, chance, advertise=address, remembered=remembered)

    def start(self, indexes: Iterable[int] | None = None, *, within: float = 0.0, join: bool = True) -> None:
        """Start machines at random moments of the next `within` seconds; each asks the seeds."""
        for index in range(len(self.machines)) if indexes is None else indexes:
            machine = self.machines[index]
            self.after(self.chance.random() * within, lambda machine=machine: self._start(machine, join=join))

    def _start(self, machine: Machine, *, join: bool) -> None:
        self.obey(machine, machine.node.start(self.now))
        if join:
            self.obey(machine, machine.node.join(self.now))

    def crash(self, index: int) -> None:
        """The process is gone; the machine still refuses its connections."""
        self.machines[index].up = False
        self.machines[index].life += 1

    def restart(self, index: int, *, join: bool = True) -> None:
        """The same id in a new generation."""
        machine = self.machines[index]
        remembered = machine.node.snapshot()
        machine.identity = attrs.evolve(
            machine.node.identity,
            generation=machine.node.identity.generation + 1,
            boot_id=self.chance.randbytes(BOOT_ID_BYTES),
        )
        machine.node = self._node(machine.identity, machine.address, remembered)
        machine.up, machine.left = True, False
        machine.life += 1
        self._index_of[machine.identity.node_id] = index
        self._start(machine, join=join)

    def pause(self, index: int, seconds: float) -> None:
        """Stop the process: packets and timers wait, then all come at once."""
        self.machines[index].paused_until = max(self.machines[index].paused_until, self.now + seconds)

    def leave(self, index: int) -> None:
        machine = self.machines[index]
        self.obey(machine, machine.node.leave(self.now))

    def partition(self, *groups: Iterable[int]) -> None:
        """Only machines of one group reach each other; those in none reach nobody."""
        group_of = {index: number for number, group in enumerate(groups) for index in group}
        self.blocked = lambda one, other, _stream: (
            one is not other and (one.index not in group_of or group_of[one.index] != group_of.get(other.index))
        )

    def heal(self) -> None:
        self.blocked = lambda _from, _to, _stream: False

    # Time

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something later."""
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + seconds, self._sequence, act))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        self.run_until(lambda: False, seconds)

    def run_until(self, done: Callable[[], bool], seconds: float, *, every: float = 0.1) -> bool:
        """Let time pass until `done`, looked at each `every` seconds, or until `seconds` are over. True when done."""
        end = self.now + seconds
        look = self.now
        heap = self._heap
        while heap and heap[0][0] <= end:
            if heap[0][0] >= look:
                self.now = max(self.now, look)
                if done():
                    return True
                look = max(look + every, heap[0][0])
            self.now, _, act = heapq.heappop(heap)
            act()
        self.now = end
        return done()

    # The shell

    def obey(self, machine: Machine, effects: list[Effect]) -> None:
        """Interpret effects in order, as the agent's driver does."""
        for effect in effects:
            match effect:
                case Send():
                    self._send(machine, effect)
                case Wake():
                    self._later(machine, effect.after, lambda e=effect: machine.node.wake(e.token, self.now))
                case Ask():
                    self._ask(machine, effect)
                case ResolveSeeds():
                    found = [self.machines[index].address for index in self.seeds]
                    self._later(machine, 0.0, lambda f=found: machine.node.resolved(f, self.now))
                case _:
                    self._record(machine, effect)

    def _record(self, machine: Machine, effect: Effect) -> None:
        """What a shell tells its users."""
        match effect:
            case Changed(subject, what, section):
                self.happenings.append(Happening(self.now, machine.index, subject, what, section))
            case Persist(identity):
                machine.identity = identity
                self._index_of[identity.node_id] = machine.index
            case Conflict():
                self.conflicts.append((machine.index, effect))
            case Left():
                machine.left = True
                self.crash(machine.index)
            case Note(event):
                self.notes[event] += 1
            case _:
                pass

    def _later(self, machine: Machine, seconds: float, act: Callable[[], list[Effect]]) -> None:
        """Give this life of a machine an input later; a paused one gets it when it goes on."""
        life = machine.life

        def happen() -> None:
            if machine.life != life or not machine.up:
                return
            if machine.paused_until > self.now:
                self.after(machine.paused_until - self.now, happen)
                return
            self.obey(machine, act())

        self.after(seconds, happen)

    def _delay(self) -> float:
        return self.chance.uniform(self.network.shortest, self.network.longest)

    def _send(self, machine: Machine, effect: Send) -> None:
        machine.packets_out += 1
        machine.bytes_out += len(effect.data) + UDP_HEADERS
        target = self._by_address.get(effect.to)
        if target is None or self.blocked(machine, target, False):
            return
        if self.network.loss and self.chance.random() < self.network.loss:
            return
        source = machine.address
        self._later(target, self._delay(), lambda: target.node.receive(effect.data, source, self.now))

    def _ask(self, machine: Machine, effect: Ask) -> None:
        """A stream: one frame there, one back; refused by a machine without a process, silent when cut."""
        target = self._by_address.get(effect.to)
        answered = False

        def settle(outcome: Outcome) -> list[Effect]:
            nonlocal answered
            if answered:
                return []
            answered = True
            return machine.node.answered(effect.token, outcome, self.now)

        def serve() -> list[Effect]:
            assert target is not None  # noqa: S101 - checked below
            reply, effects = target.node.serve(effect.payload, machine.address, self.now)
            if not self.blocked(target, machine, True):
                self._later(machine, self._delay(), lambda: settle(Refused() if reply is None else reply))
            return effects

        self._later(machine, effect.within, lambda: settle(TimedOut()))
        if target is None or self.blocked(machine, target, True):
            return
        if target.up:
            self._later(target, 2 * self._delay(), serve)
        else:
            self._later(machine, 2 * self._delay(), lambda: settle(Refused()))

    # Looking

    def running(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.up]

    def shown(self, observer: int, subject: int) -> State | None:
        member = self.machines[observer].node.member(self.machines[subject].identity.node_id)
        return None if member is None else member.state

    def complete(self) -> bool:
        """Whether every running machine shows as many members alive as run."""
        count = len(self.running())
        return all(machine.node.alive == count for machine in self.running())

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

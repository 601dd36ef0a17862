"""Virtual time and the obeying of effects: the simulator's counterpart of the agent's driver.

One heap of events for all machines. A node is called with its own machine's clock; everything else is true time.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

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
    Token,
    Wake,
)
from .member import Address
from .simulated_machine import Machine
from .simulated_network import UDP_HEADERS, Cuts, Network

# As in the agent's driver: a wake-up this late is a gap that the node is told of.
_LAG_SECONDS = 1.0
# A process that goes on sees all its timers before any packet: the worse order of the two that a real one may take.
_WAKING = 0.0001
_ROUNDING = 1e-6  # local clocks and true time are converted to and fro


@attrs.frozen
class Happening:
    """One change that one node showed."""

    at: float
    observer: int
    subject: bytes
    what: Change
    section: int | None


class Shell(ABC):
    """Runs the nodes of many machines."""

    def __init__(self, *, seed: int, network: Network | None = None) -> None:
        self.chance = Random(seed)
        self.network = network or Network()
        self.cuts = Cuts()
        self.now = 0.0
        self.happenings: list[Happening] = []
        self.recorded = frozenset(Change)
        """Which changes become happenings; fewer save memory where there are many nodes."""
        self.conflicts: list[tuple[int, Conflict]] = []
        self.notes: Counter[str] = Counter()
        self.resolve: Callable[[Machine], Iterable[Address]] = lambda _: ()
        """What a machine's name server answers for the seeds."""
        self.tap: Callable[[Machine, bytes, Address], None] | None = None
        """Sees every datagram as it is sent, whatever becomes of it."""
        self.by_address: dict[Address, Machine] = {}
        self._index_of: dict[bytes, int] = {}
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    # Time

    def after(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        """Do something later."""
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + seconds, self._sequence, act, arguments))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        end = self.now + seconds
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end:
            self.now, _, act, arguments = pop(heap)
            act(*arguments)
        self.now = end

    def run_until(self, done: Callable[[], bool], seconds: float, *, every: float = 0.1) -> bool:
        """Let time pass until `done`, looked at each `every` seconds, or until `seconds` are over. True when done."""
        end = self.now + seconds
        while self.now < end:
            if done():
                return True
            self.run(min(every, end - self.now))
        return done()

    # Obeying

    def obey(self, machine: Machine, effects: list[Effect]) -> None:
        """Interpret effects in order, as the agent's driver does."""
        for effect in effects:
            if type(effect) is Send:
                self._send(machine, effect.data, effect.to)
            elif type(effect) is Wake:
                due = machine.clock.at(self.now) + effect.after
                self.after(effect.after / machine.clock.rate, self._fire, machine, machine.life, effect.token, due)
            elif type(effect) is Changed:
                if effect.what in self.recorded:
                    what, section = effect.what, effect.section
                    self.happenings.append(Happening(self.now, machine.index, effect.node_id, what, section))
            else:
                self._obey_rare(machine, effect)

    def _obey_rare(self, machine: Machine, effect: Effect) -> None:
        match effect:
            case Ask():
                self._ask(machine, effect)
            case ResolveSeeds():
                found = list(self.resolve(machine))
                self.after(0.0, self._resolved, machine, machine.life, found)
            case Persist(identity):
                machine.identity = identity
                self._index_of[identity.node_id] = machine.index
            case Conflict():
                self.conflicts.append((machine.index, effect))
            case Left():
                machine.left = True
                self.stop(machine)
            case Note(event):
                self.notes[event] += 1
            case _:
                pass

    def stop(self, machine: Machine) -> None:
        """The process is gone; the machine still refuses its connections."""
        machine.up = False
        machine.life += 1
        machine.held_until, machine.asleep, machine.kept = 0.0, False, 0

    def _fire(self, machine: Machine, life: int, token: Token, due: float) -> None:
        if machine.life != life:
            return
        if machine.held_until > self.now:
            self.after(machine.held_until - self.now, self._fire, machine, life, token, due)
            return
        local = machine.clock.at(self.now)
        if local < due - _ROUNDING:
            self.after((due - local) / machine.clock.rate, self._fire, machine, life, token, due)
            return
        self.obey(machine, machine.node.wake(token, local))

    def _give(self, machine: Machine, life: int, act: Callable[[float], list[Effect]]) -> None:
        """Give this life of a machine any other input; a stopped one gets it when it goes on."""
        if machine.life != life or not machine.up:
            return
        if machine.held_until > self.now:
            self.after(machine.held_until - self.now, self._give, machine, life, act)
            return
        self.obey(machine, act(machine.clock.at(self.now)))

    def _resolved(self, machine: Machine, life: int, found: list[Address]) -> None:
        self._give(machine, life, lambda now: machine.node.resolved(found, now))

    def hold(self, machine: Machine, seconds: float, *, asleep: bool) -> None:
        """Stop a process, or the whole machine, for a while."""
        machine.held_until = max(machine.held_until, self.now + seconds)
        machine.asleep = machine.asleep or asleep
        self.after(machine.held_until - self.now, self._go_on, machine, machine.life, self.now)

    def _go_on(self, machine: Machine, life: int, since: float) -> None:
        if machine.life != life or machine.held_until > self.now:
            return
        seconds, machine.kept = self.now - since, 0
        if machine.asleep:
            machine.asleep = False
            machine.clock.lose(seconds, self.now)
            self.obey(machine, machine.node.resumed(seconds, machine.clock.at(self.now)))
        elif seconds > _LAG_SECONDS:
            self.obey(machine, machine.node.lagged(seconds, machine.clock.at(self.now)))

    # The network

    def _send(self, machine: Machine, data: bytes, to: Address) -> None:
        machine.packets_out += 1
        machine.bytes_out += len(data) + UDP_HEADERS
        if self.tap is not None:
            self.tap(machine, data, to)
        target = self.by_address.get(to)
        if target is None or (self.cuts.any and self.cuts.blocked(machine.index, target.index, stream=False)):
            return
        for delay in self.network.arrivals(self.chance):
            if target.slow:
                delay += target.slow * self.chance.random()  # noqa: PLW2901 - the same delay, with its second part
            self.after(delay, self._arrive, target, target.life, data, machine.address)

    def inject(self, index: int, data: bytes, source: Address) -> None:
        """Deliver a datagram that no node sent."""
        machine = self.machine(index)
        self._arrive(machine, machine.life, data, source)

    @abstractmethod
    def machine(self, index: int) -> Machine:
        """The machine of this number."""

    def _arrive(self, target: Machine, life: int, data: bytes, source: Address) -> None:
        if target.life != life or not target.up:
            return
        if target.held_until > self.now:
            if target.accepts():
                self.after(target.held_until - self.now + _WAKING, self._arrive, target, life, data, source)
            return
        self.obey(target, target.node.receive(data, source, target.clock.at(self.now)))

    def _ask(self, machine: Machine, effect: Ask) -> None:
        """A stream: one frame there, one back; refused by a machine without a process, silent when cut."""
        asked = _Asked(machine, machine.life, effect)
        machine.stream_bytes_out += len(effect.payload)
        self.after(effect.within / machine.clock.rate, self._settle, asked, TimedOut())
        target = self.by_address.get(effect.to)
        if target is None or target.asleep or self.cuts.blocked(machine.index, target.index, stream=True):
            return
        way = 2 * self.network.delay(self.chance)
        if target.up:
            self.after(way, self._serve, target, target.life, asked)
        else:
            self.after(way, self._settle, asked, Refused())

    def _serve(self, target: Machine, life: int, asked: _Asked) -> None:
        machine = asked.machine
        if target.life != life or not target.up:
            self._settle(asked, Refused())
            return
        if target.held_until > self.now:
            self.after(target.held_until - self.now, self._serve, target, life, asked)
            return
        reply, effects = target.node.serve(asked.effect.payload, machine.address, target.clock.at(self.now))
        target.stream_bytes_out += len(reply or b"")
        if not self.cuts.blocked(target.index, machine.index, stream=True):
            self.after(self.network.delay(self.chance), self._settle, asked, Refused() if reply is None else reply)
        self.obey(target, effects)

    def _settle(self, asked: _Asked, outcome: Outcome) -> None:
        if not asked.settled:
            asked.settled = True
            machine, token = asked.machine, asked.effect.token
            self._give(machine, asked.life, lambda now: machine.node.answered(token, outcome, now))


@attrs.define(eq=False)
class _Asked:
    """One stream from its opening to its outcome."""

    machine: Machine
    life: int
    effect: Ask
    settled: bool = False

"""Feeds one `gossip.Node` and obeys its effects: the only place where the protocol meets sockets and the clock.

Everything here runs in trio's thread, and nothing between an input and its last effect awaits: the node is never
seen half-changed. Three tasks wait: for datagrams, for the earliest timer, for TCP connections.
"""

import contextlib
import heapq
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog
import trio

from ..gossip.effects import (
    Ask,
    Changed,
    Conflict,
    Effect,
    Isolation,
    Left,
    Note,
    Persist,
    ResolveSeeds,
    Send,
    Token,
    Wake,
)
from ..gossip.member import Address, Identity
from ..gossip.node import Node
from ..gossip.vitals import Vitals
from .seeds import resolve
from .stream import StreamServer, ask
from .udp import UdpSocket

log = structlog.get_logger("shoal.gossip")

# A wake-up this late means that the loop was stalled or the process was stopped: what we heard is old news.
LAG_SECONDS = 1.0
# Suspend is seen as CLOCK_BOOTTIME running ahead of CLOCK_MONOTONIC; less than this is their reading apart.
SUSPEND_SECONDS = 0.5
# After a longer absence than this nobody waits for an answer to what the socket kept, and its news is old: the kernel
# keeps the first packets and drops the later ones.
OLD_SECONDS = 10.0
# The node notes each kind of trouble once a minute: these tell of the last minutes.
KEPT_NOTES = 32
# Seeds are looked up every few seconds, for ever: a name that does not resolve is logged at once, and then as often.
UNRESOLVED_SECONDS = 60.0
# Of the addresses that operators named beside the configured seeds: each is looked up and asked for ever.
MOST_NAMED = 64


class Observer(Protocol):
    """Who is told what the node shows, inside the same turn."""

    def changed(self, change: Changed) -> None: ...
    def isolation(self, *, isolated: bool) -> None: ...
    def conflict(self, conflict: Conflict) -> None: ...
    def identity(self, identity: Identity) -> None:
        """Store it before returning: packets that carry it follow."""
        ...


class Driver:
    """One node on one pair of sockets. `run` serves until cancelled; the commands are plain calls in trio's thread.

    `counters` tells what the sockets refused, beside the node's own; `notes` are its latest, with their Unix times.
    """

    def __init__(
        self, node: Node, udp: UdpSocket, tcp: socket.socket, *, seeds: Iterable[Address], observer: Observer
    ) -> None:
        self.node = node
        self._udp = udp
        self.counters: Counter[str] = Counter()
        self.notes: deque[tuple[float, Note]] = deque(maxlen=KEPT_NOTES)
        self._streams = StreamServer(tcp, self._serve, self._count)
        self._seeds = tuple(seeds)
        self._named: tuple[Address, ...] = ()
        self._unresolved: dict[str, float] = {}
        self._observer = observer
        self._timers: list[tuple[float, int, Token]] = []
        self._timer_count = 0
        self._sleeping: trio.CancelScope | None = None
        self._awake_at = 0.0
        self._ahead = _boottime_ahead()
        self._nursery: trio.Nursery | None = None
        self._left = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the node and serve it. Ready once its first packets are out."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                now = trio.current_time()
                self._awake_at = now
                self.obey(self.node.start(now))
                if self._seeds:
                    self.obey(self.node.join(now))
                nursery.start_soon(self._read_datagrams)
                nursery.start_soon(self._run_timers)
                nursery.start_soon(self._streams.run)
                task_status.started()
        finally:
            self._nursery = None
            self.close()

    def close(self) -> None:
        """Give the port back; `run` does it at its end."""
        self._udp.close()
        self._streams.close()

    def join(self, seeds: Iterable[Address] = ()) -> None:
        """Try the seeds, and these with them from now on, until one answers; of very many the latest."""
        latest = dict.fromkeys(seeds)
        self._named = (*(seed for seed in self._named if seed not in latest), *latest)[-MOST_NAMED:]
        self.obey(self.node.join(trio.current_time()))

    def publish(self, kind: int, payload: bytes) -> None:
        """Spread `payload` as this node's own section. Raises SectionTooLarge, and then nothing changed."""
        self.obey(self.node.publish(kind, payload, trio.current_time()))

    def set_vitals(self, vitals: Vitals) -> None:
        self.obey(self.node.set_vitals(vitals, trio.current_time()))

    def move(self, address: Address) -> None:
        """Others reach this node there from now on."""
        self.obey(self.node.move(address, trio.current_time()))

    def forget(self, node_id: bytes) -> None:
        """Bury a node for good. Raises gossip's UnknownNode."""
        self.obey(self.node.forget(node_id, trio.current_time()))

    def echo(self, node_id: bytes, *, full: bool) -> int | None:
        """Ping a member outside of any probe; see `gossip.Node.echo`."""
        number, effects = self.node.echo(node_id, trio.current_time(), full=full)
        self.obey(effects)
        return number

    async def leave(self) -> None:
        """Say goodbye and return when everybody had time to hear it; the caller sets the deadline."""
        self.obey(self.node.leave(trio.current_time()))
        await self._left.wait()

    def obey(self, effects: list[Effect]) -> None:
        """Carry out `effects` in order. Effects of a failed send follow those that are already due."""
        pending = effects
        while pending:
            more: list[Effect] = []
            for effect in pending:
                if type(effect) is Send:
                    if not self._udp.send(effect.data, effect.to):
                        more += self.node.send_failed(effect.to, trio.current_time())
                elif type(effect) is Wake:
                    self._set_timer(effect.token, effect.after)
                else:
                    self._obey_rare(effect)
            pending = more

    def _obey_rare(self, effect: Effect) -> None:
        match effect:
            case Ask():
                self._start(self._ask, effect)
            case ResolveSeeds():
                self._start(self._resolve)
            case Changed():
                self._observer.changed(effect)
            case Persist():
                self._observer.identity(effect.identity)
            case Isolation():
                self._observer.isolation(isolated=effect.isolated)
            case Conflict():
                self._observer.conflict(effect)
            case Left():
                self._left.set()
            case Note():
                self.notes.append((time.time(), effect))
                log.warning(effect.event, **effect.fields)
            case _:
                pass

    def _start(self, task: Callable[..., object], *args: object) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(task, *args)  # pyright: ignore[reportArgumentType]

    def _set_timer(self, token: Token, after: float) -> None:
        when = trio.current_time() + after
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, token))
        if self._sleeping is not None and when < self._sleeping.deadline:
            self._sleeping.deadline = when

    async def _run_timers(self) -> None:
        while True:
            now = trio.current_time()
            self._notice_gap(now)
            for token in self._due(now):
                self.obey(self.node.wake(token, now))
            until = self._timers[0][0] if self._timers else float("inf")
            with trio.CancelScope(deadline=until) as self._sleeping:
                await trio.sleep_forever()

    def _due(self, now: float) -> list[Token]:
        """The tokens due at `now`, taken off the heap first: what they set in motion waits for the next round."""
        due: list[Token] = []
        while self._timers and self._timers[0][0] <= now:
            due.append(heapq.heappop(self._timers)[2])
        return due

    def _sleep_on(self) -> None:
        """Answered pings need no deadline any more: do not wake up for the first timers if they are such."""
        timers = self._timers
        while timers and self.node.moot(timers[0][2]):
            heapq.heappop(timers)
        if timers and self._sleeping is not None:
            self._sleeping.deadline = timers[0][0]

    def soon(self, seconds: float) -> float:
        """A moment about so many seconds from now, to a quarter, at which a timer is due anyway if there is such."""
        now = trio.current_time()
        low, high = now + 0.75 * seconds, now + 1.25 * seconds
        return min((when for when, _, _ in self._timers if low <= when <= high), default=now + seconds)

    async def _read_datagrams(self) -> None:
        while True:
            await self._udp.readable()
            now = trio.current_time()
            self._notice_gap(now)
            for data, source in self._udp.drain():
                self.obey(self.node.receive(data, source, now))
            self._sleep_on()

    def _notice_gap(self, now: float) -> None:
        """Tell the node when time passed without us, before it draws conclusions from what it did not hear."""
        ahead = _boottime_ahead()
        slept, self._ahead = ahead - self._ahead, ahead
        late = now - max(self._timers[0][0], self._awake_at) if self._timers else 0.0
        if max(slept, late) > OLD_SECONDS:
            self.counters["datagrams dropped after an absence"] += self._udp.discard()
        if slept > SUSPEND_SECONDS:
            self._awake_at = now
            self.obey(self.node.resumed(slept, now))
        elif late > LAG_SECONDS:
            self._awake_at = now
            self.obey(self.node.lagged(late, now))

    def _count(self, what: str) -> None:
        self.counters[what] += 1

    def _serve(self, payload: bytes, source: Address) -> bytes | None:
        reply, effects = self.node.serve(payload, source, trio.current_time())
        self.obey(effects)
        return reply

    async def _ask(self, effect: Ask) -> None:
        outcome = await ask(effect.to, effect.payload, effect.within)
        self.obey(self.node.answered(effect.token, outcome, trio.current_time()))

    async def _resolve(self) -> None:
        addresses, failures = await resolve(dict.fromkeys((*self._seeds, *self._named)))
        now = trio.current_time()
        told = {name: at for name, at in self._unresolved.items() if name in failures and now - at < UNRESOLVED_SECONDS}
        for name in failures.keys() - told.keys():
            log.warning("seed.unresolved", seed=name, error=failures[name])
        self._unresolved = dict.fromkeys(failures, now) | told
        self.obey(self.node.resolved(addresses, now))


def _boottime_ahead() -> float:
    """How far the clock that counts suspend runs ahead of the one that does not; 0 where there is no such clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        return 0.0
    with contextlib.suppress(OSError):
        return time.clock_gettime(boottime) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return 0.0

"""The one class that a user holds: inputs with `now`, effects out. No clock, no socket, no task, no logger.

Every method that takes `now` returns the effects of that input, to be obeyed in order. See `effects` for what each
asks of the shell, `core` for the shared state, and the parts for the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random

from .address import canonical
from .border import Border
from .core import Core
from .effects import Effect, Outcome, Purpose, Token
from .errors import UnknownNode
from .frames import Frames, PlainFrames
from .member import Address, Identity, Member
from .parts import Parts
from .settings import Settings
from .vitals import Vitals


class Node:
    """This node of the cluster. `chance` should be unpredictable in production (`random.SystemRandom`)."""

    def __init__(  # noqa: PLR0913 - who, how, and by what means; all but two by keyword
        self,
        identity: Identity,
        settings: Settings,
        chance: Random,
        *,
        advertise: Address,
        seal: Frames | None = None,
        remembered: Iterable[Address] = (),
    ) -> None:
        address = (canonical(advertise[0]), advertise[1])
        frames = seal or PlainFrames(settings.cluster)
        core = self._core = Core(identity, settings, chance, frames, address)
        self._parts = Parts(core, remembered)
        self._border = Border(core, self._parts)

    # What is shown

    @property
    def identity(self) -> Identity:
        return self._core.identity

    @property
    def address(self) -> Address:
        """Where others reach this node."""
        return self._core.address

    @property
    def settings(self) -> Settings:
        return self._core.settings

    @property
    def me(self) -> Member:
        return self._core.me.member()

    @property
    def isolated(self) -> bool:
        """Nothing was heard from anyone for the shortest suspicion: the view may be old."""
        return self._core.health.isolated

    @property
    def joined(self) -> bool:
        """A sync went through since the start, in either direction; or this node is its own only seed."""
        return self._parts.joiner.joined

    @property
    def health(self) -> int:
        """0 well, 8 worst: how late this node finds itself."""
        return self._core.health.score

    @property
    def counters(self) -> Mapping[str, int]:
        return self._core.counters

    @property
    def alive(self) -> int:
        """How many members are shown alive, this node included; in constant time."""
        return self._core.table.size - len(self._core.table.suspects)

    @property
    def suspected(self) -> int:
        """How many members are shown suspect; in constant time."""
        return len(self._core.table.suspects)

    def members(self) -> Iterator[Member]:
        """All that are shown, this node among them; tombstones are not."""
        return (entry.member() for entry in self._core.table if not entry.ghost)

    def member(self, node_id: bytes) -> Member | None:
        entry = self._core.table.get(node_id)
        return None if entry is None or entry.ghost else entry.member()

    def snapshot(self) -> tuple[Address, ...]:
        """Addresses of the live and the lost, for the state file: what the next run asks beside its seeds."""
        return self._parts.joiner.snapshot()

    # Commands

    def start(self, now: float) -> list[Effect]:
        """Once, before anything else."""
        core = self._core
        core.start(now)
        core.wake(Purpose.PROBE, core.chance.random() * core.settings.probe_interval)
        if self._parts.joiner.remembered:
            self._parts.joiner.resolved((), now)
        return core.taken()

    def join(self, _now: float) -> list[Effect]:
        """Ask the seeds, now and until one answered."""
        self._parts.joiner.join()
        return self._core.taken()

    def resolved(self, addresses: Iterable[Address], now: float) -> list[Effect]:
        """The answer to `ResolveSeeds`."""
        self._parts.joiner.resolved([(canonical(host), port) for host, port in addresses], now)
        return self._core.taken()

    def publish(self, kind: int, payload: bytes, now: float) -> list[Effect]:
        """Set our own section of that kind. Raises SectionTooLarge."""
        if self._parts.sections.publish(kind, payload, now):
            self._parts.spread.burst(self._core.settings.fanout, now)
        return self._core.taken()

    def set_vitals(self, vitals: Vitals, now: float) -> list[Effect]:
        """Take a sample; call it about once a second. It is sent when it differs enough or has grown old."""
        self._parts.relay.set_own(vitals, now)
        return self._core.taken()

    def leave(self, now: float) -> list[Effect]:
        """Say goodbye. `Left` follows; until then keep feeding the node."""
        self._parts.farewell.begin(now)
        return self._core.taken()

    def move(self, address: Address, now: float) -> list[Effect]:
        """This node is reached at another address from now on; a new incarnation tells it."""
        self._parts.selfrules.move((canonical(address[0]), address[1]), now)
        return self._core.taken()

    def forget(self, node_id: bytes, now: float) -> list[Effect]:
        """Make a tombstone of a member at once, here and everywhere. Raises UnknownNode."""
        entry = self._core.table.get(node_id)
        if entry is None or entry is self._core.me:
            raise UnknownNode(node_id)
        self._parts.liveness.forget(entry, now)
        return self._core.taken()

    def echo(self, node_id: bytes, now: float, *, full: bool) -> tuple[int | None, list[Effect]]:
        """Ping a member outside of any probe, with a datagram as large as any of ours if `full`.

        The number tells `echoed` which one; None for a node that is not in the table.
        """
        number = self._parts.echoes.send(node_id, now, full=full)
        return number, self._core.taken()

    def echoed(self, number: int) -> bool:
        """Whether that echo was answered until now; true once."""
        return self._parts.echoes.take(number)

    # Inputs

    def receive(self, data: bytes, source: Address, now: float) -> list[Effect]:
        """One datagram. `source` in canonical form."""
        self._border.receive(data, source, now)
        return self._core.taken()

    def wake(self, token: Token, now: float) -> list[Effect]:
        """A timer fired, in time or late."""
        self._parts.wake(token, now)
        return self._core.taken()

    def moot(self, token: Token) -> bool:
        """Whether this timer has nothing left to do, so that nobody need wake up for it."""
        return token.purpose is Purpose.DIRECT and self._parts.prober.over(token.number)

    def serve(self, payload: bytes, source: Address, now: float) -> tuple[bytes | None, list[Effect]]:
        """One request of a stream and its reply; None: close without one."""
        return self._border.serve(payload, source, now), self._core.taken()

    def answered(self, token: Token, outcome: Outcome, now: float) -> list[Effect]:
        """The outcome of an `Ask`."""
        if isinstance(outcome, bytes):
            self._border.heard(now)
        self._parts.answered(token, outcome, now)
        return self._core.taken()

    def send_failed(self, to: Address, _now: float) -> list[Effect]:
        """A `Send` did not leave this machine; that never counts against a peer."""
        self._core.count("sends failed")
        self._parts.prober.send_failed(to)
        return self._core.taken()

    def lagged(self, seconds: float, now: float) -> list[Effect]:
        """The shell's loop ran this much late. Over an interval it is a gap like a suspend."""
        self._core.health.worsen()
        if seconds > self._core.settings.probe_interval:
            self._gap(seconds, now)
        return self._core.taken()

    def resumed(self, seconds: float, now: float) -> list[Effect]:
        """The machine slept, or the process was stopped, for this long."""
        self._core.health.worsen()
        self._gap(seconds, now)
        return self._core.taken()

    def _gap(self, seconds: float, now: float) -> None:
        """We missed what happened: nonces may repeat, old news is dropped, nobody is accused until a sync has told."""
        core, parts = self._core, self._parts
        core.frames.renew()
        parts.spread.clear()
        parts.liveness.restart_suspicions(now)
        core.health.heard_at = now if core.health.heard_at is not None else None
        parts.absence.begin(seconds, now)
        parts.syncer.with_anyone()

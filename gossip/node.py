"""The one class that a user holds: inputs with `now`, effects out. No clock, no socket, no task, no logger.

Every method that takes `now` returns the effects of that input, to be obeyed in order. See `effects` for what each
asks of the shell, `core` for the shared state, and the parts for the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random

from . import wire
from .address import canonical
from .answer import Answers, fitting, room_for
from .core import Core
from .effects import Effect, Isolation, Left, Outcome, Purpose, Token
from .errors import FrameRefused, FrameReplayed, UnknownNode, WireError
from .frames import PAYLOAD_BYTES, Frames, PlainFrames
from .intake import Intake
from .join import Joiner
from .liveness import Liveness
from .member import Address, Identity, Member, Rank, State
from .messages import Ack, Flag, Gossip, Message, Nack, NotMe, Ping, PingRequest, Pull, Push, Sync
from .probe import Prober
from .relay import VitalsRelay
from .sections import Sections
from .selfrules import SelfRules
from .settings import Settings
from .spread import Spread
from .sync import Syncer
from .table import NEVER
from .upkeep import Upkeep
from .vitals import Vitals

_LEAVE_SECONDS = 2.0  # pings are answered as left for this long
_LEAVE_BURSTS = 3  # fanouts to which leaving is told at once
_NOTE_SECONDS = 60.0  # refused packets are noted once in this time, with the address
_TOLD_SECONDS = 1.0  # a peer is corrected at most this often
_MOST_TOLD = 1024


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
        self._spread = Spread(core)
        self._sections = Sections(core, self._spread)
        self._selfrules = SelfRules(core, self._spread)
        self._relay = VitalsRelay(core)
        self._liveness = Liveness(core, self._spread, self._sections, self._selfrules)
        self._intake = Intake(core, self._liveness, self._sections, self._relay)
        self._prober = Prober(core, self._spread, self._relay, self._liveness, self._intake)
        self._answers = Answers(core, self._spread, self._relay, self._selfrules)
        self._syncer = Syncer(core, self._intake, self._sections)
        self._joiner = Joiner(core, self._spread, self._syncer, self._sections, self._prober)
        self._joiner.remembered = list(remembered)
        self._upkeep = Upkeep(core, self._liveness, self._prober, self._joiner)
        self._told: dict[bytes, float] = {}
        self._noted_at = NEVER
        self._timers: dict[Purpose, Callable[[Token, float], None]] = {
            Purpose.PROBE: lambda _, now: self._upkeep.tick(now),
            Purpose.DIRECT: lambda token, now: self._prober.direct_over(token.number, now),
            Purpose.ROUND: lambda token, now: self._prober.round_over(token.number, now),
            Purpose.RELAY: lambda token, now: self._answers.relay_over(token.number, now),
            Purpose.SUSPICION: lambda token, now: self._liveness.expire(token.key, now),
            Purpose.GOSSIP: lambda token, now: self._spread.tick(token.number, now),
            Purpose.PULL: lambda _, now: self._sections.pull_due(now),
            Purpose.SYNC: lambda token, _: self._syncer.begin(token.number),
            Purpose.EXTRA: lambda _, __: self._syncer.with_anyone(),
            Purpose.JOIN: lambda token, _: self._joiner.retry(token.number),
            Purpose.SELF: lambda token, now: self._selfrules.unanswered(token.number, now),
            Purpose.LEAVE: lambda _, __: self._core.emit(Left()),
        }

    # What is shown

    @property
    def identity(self) -> Identity:
        return self._core.identity

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
        return self._joiner.joined

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
        """Addresses of the live members, for the state file: what the next run asks beside its seeds."""
        table = self._core.table
        entries = [table.get(node_id) for node_id in table.live]
        return tuple(e.claim.address for e in entries if e is not None and e.claim.address is not None)

    # Commands

    def start(self, now: float) -> list[Effect]:
        """Once, before anything else."""
        core = self._core
        core.start(now)
        core.wake(Purpose.PROBE, core.chance.random() * core.settings.probe_interval)
        if self._joiner.remembered:
            self._joiner.resolved((), now)
        return core.taken()

    def join(self, _now: float) -> list[Effect]:
        """Ask the seeds, now and until one answered."""
        self._joiner.join()
        return self._core.taken()

    def resolved(self, addresses: Iterable[Address], now: float) -> list[Effect]:
        """The answer to `ResolveSeeds`."""
        self._joiner.resolved([(canonical(host), port) for host, port in addresses], now)
        return self._core.taken()

    def publish(self, kind: int, payload: bytes, now: float) -> list[Effect]:
        """Set our own section of that kind. Raises SectionTooLarge."""
        if self._sections.publish(kind, payload, now):
            self._spread.burst(self._core.settings.fanout, now)
        return self._core.taken()

    def set_vitals(self, vitals: Vitals, now: float) -> list[Effect]:
        """Take a sample; call it about once a second. It is sent when it differs enough or has grown old."""
        self._relay.set_own(vitals, now)
        return self._core.taken()

    def leave(self, now: float) -> list[Effect]:
        """Say goodbye. `Left` follows; until then keep feeding the node."""
        core = self._core
        if not core.leaving:
            core.leaving = True
            core.me.row = core.me.row._replace(claim=core.me.claim._replace(rank=Rank.LEFT))
            core.me.shown, core.me.shown_at = State.LEFT, now
            core.table.touch(core.me, now)
            self._spread.row(core.me.node_id, now, first=True)
            self._spread.burst(_LEAVE_BURSTS * core.settings.fanout, now)
            core.wake(Purpose.LEAVE, _LEAVE_SECONDS if core.table.live else 0.0)
        return core.taken()

    def forget(self, node_id: bytes, now: float) -> list[Effect]:
        """Make a tombstone of a member at once, here and everywhere. Raises UnknownNode."""
        entry = self._core.table.get(node_id)
        if entry is None or entry is self._core.me:
            raise UnknownNode(node_id)
        self._liveness.forget(entry, now)
        return self._core.taken()

    # Inputs

    def receive(self, data: bytes, source: Address, now: float) -> list[Effect]:
        """One datagram. `source` in canonical form."""
        message = self._opened(data, source, now)
        if message is not None:
            if message.sender.node_id == self._core.identity.node_id:
                self._from_ourselves(message, source, now)
            else:
                self._heard(now)
                self._obey(message, source, len(data), now)
        return self._core.taken()

    def wake(self, token: Token, now: float) -> list[Effect]:
        """A timer fired, in time or late."""
        self._timers[token.purpose](token, now)
        return self._core.taken()

    def serve(self, payload: bytes, source: Address, now: float) -> tuple[bytes | None, list[Effect]]:
        """One request of a stream and its reply; None: close without one."""
        message = self._opened(payload, source, now)
        if message is None:
            return None, self._core.taken()
        mine = message.sender.node_id == self._core.identity.node_id
        if not mine:
            self._heard(now)
        reply = self._reply(message, now)
        frame = None if reply is None else self._core.frames.wrap_stream(reply, source)
        return frame, self._core.taken()

    def answered(self, token: Token, outcome: Outcome, now: float) -> list[Effect]:
        """The outcome of an `Ask`."""
        if isinstance(outcome, bytes):
            self._heard(now)
        match token.purpose:
            case Purpose.JOIN:
                self._joiner.answered(token.number, outcome, now)
            case Purpose.SYNC:
                if self._syncer.answered(token.number, outcome, now):
                    self._prober.accusing = True
            case Purpose.PULL:
                self._sections.answered(token.number, outcome, now)
            case Purpose.FALLBACK:
                self._prober.fallback_answered(token.number, outcome, now)
            case _:
                """A push: whatever came of it, the next hashes tell."""
        return self._core.taken()

    def send_failed(self, to: Address, _now: float) -> list[Effect]:
        """A `Send` did not leave this machine; that never counts against a peer."""
        self._core.count("sends failed")
        self._prober.send_failed(to)
        return self._core.taken()

    def lagged(self, seconds: float, now: float) -> list[Effect]:
        """The shell's loop ran this much late. Over an interval it is a gap like a suspend."""
        self._core.health.worsen()
        if seconds > self._core.settings.probe_interval:
            self._gap(now)
        return self._core.taken()

    def resumed(self, _seconds: float, now: float) -> list[Effect]:
        """The machine slept, or the process was stopped, for this long."""
        self._core.health.worsen()
        self._gap(now)
        return self._core.taken()

    # Inside

    def _gap(self, now: float) -> None:
        """We missed what happened: nonces may repeat, old news is dropped, nobody is accused until a sync has told."""
        self._core.frames.renew()
        self._spread.clear()
        self._liveness.restart_suspicions(now)
        self._core.health.heard_at = now if self._core.health.heard_at is not None else None
        if self._core.table.live:
            self._prober.accusing = False
            self._syncer.with_anyone()

    def _opened(self, data: bytes, source: Address, now: float) -> Message | None:
        core = self._core
        try:
            return wire.decode(core.frames.unwrap(data, source))
        except FrameReplayed as refusal:
            core.count(f"refused: {refusal.place}")
        except FrameRefused as refusal:
            core.count(f"refused: {refusal.place}")
            if now - self._noted_at >= _NOTE_SECONDS:
                self._noted_at = now
                core.note("packet.refused", source=f"{source[0]}:{source[1]}", reason=str(refusal))
        except WireError as error:
            core.count(f"malformed: {error.place}")
        return None

    def _heard(self, now: float) -> None:
        if self._core.health.heard(now):
            self._core.emit(Isolation(isolated=False))

    def _from_ourselves(self, message: Message, source: Address, now: float) -> None:
        """Only the check for a live twin speaks in our own name."""
        if isinstance(message, Ping):
            self._core.send(self._answers.to_ping(message, (), wire.PING_BYTES, now), source)
        elif isinstance(message, Ack):
            self._selfrules.acked(message, now)

    def _obey(self, message: Message, source: Address, size: int, now: float) -> None:
        core = self._core
        relayed = isinstance(message, Ack) and bool(message.flags & Flag.RELAYED)
        # A ping request's address is its target's.
        place = source if isinstance(message, PingRequest) else message.items.address or source
        if relayed:
            place = None
        outdated = self._intake.hear(message.sender, place, message.items, now).outdated
        match message:
            case Ping():
                self._intake.report(message, now)
                self._answers.judge_view(message, now)
                entry = core.table.get(message.sender.node_id)
                room = room_for(size - core.frames.overhead, validated=entry is not None and entry.validated == source)
                core.send(self._answers.to_ping(message, outdated, room, now), source)
                self._syncer.compare(message.sender, message.flags, message.summary, now)
                return
            case Ack():
                self._take_ack(message, None if relayed else source, now)
            case PingRequest():
                self._answers.ping_for(message, source, now)
            case Nack():
                self._prober.nacked(message, now)
            case NotMe():
                self._selfrules.unanswered(message.request, now)
                self._prober.not_me(message, now)
            case Gossip():
                pass
            case _:
                core.count("stream messages in datagrams")
        if outdated:
            self._correct(message.sender.node_id, outdated, source, now)

    def _take_ack(self, ack: Ack, source: Address | None, now: float) -> None:
        if self._selfrules.acked(ack, now) or self._answers.pass_on(ack, now):
            return
        self._intake.report(ack, now)
        self._prober.acked(ack, source, now)
        if source is not None:
            self._syncer.compare(ack.sender, ack.flags, ack.summary, now)

    def _correct(self, peer: bytes, outdated: tuple[bytes, ...], to: Address, now: float) -> None:
        """Tell a peer what it has wrong, at most once a second, and only where a member is known to be."""
        core = self._core
        entry = core.table.get(peer)
        if entry is None or entry.claim.address != to or now - self._told.get(peer, NEVER) < _TOLD_SECONDS:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[peer] = now
        rows = [core.table.packed(known) for known in map(core.table.get, outdated) if known is not None]
        body = fitting(rows, PAYLOAD_BYTES - wire.HEADER_BYTES)
        core.send(wire.message(wire.GOSSIP, core.speaker, body), to)

    def _reply(self, message: Message, now: float) -> bytes | None:
        match message:
            case Ping():
                outdated: tuple[bytes, ...] = ()
                if message.sender.node_id != self._core.identity.node_id:
                    outdated = self._intake.hear(message.sender, None, message.items, now).outdated
                    self._intake.report(message, now)
                    self._answers.judge_view(message, now)
                return self._answers.to_ping(message, outdated, PAYLOAD_BYTES, now)
            case Sync():
                reply = self._syncer.serve(message, now)
                if self._core.table.live:
                    self._joiner.met()
                return reply
            case Push():
                self._intake.hear(message.sender, None, message.items, now)
                return wire.message(wire.PUSHED, self._core.speaker)
            case Pull():
                return self._sections.serve(message, now)
            case _:
                self._core.count("unexpected requests")
                return None

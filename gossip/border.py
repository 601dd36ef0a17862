"""Where datagrams and streams come in: opened, bounded, parsed, and given to the part that they are for.

Nothing queues here: each input is done with before the next, and what waits is in the socket's bounded buffer.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import wire
from .address import text
from .answer import fitting, room_for
from .core import Core
from .effects import Isolation
from .errors import FrameRefused, FrameReplayed, KeyUnknown, WireError
from .frames import PAYLOAD_BYTES
from .items import pack_row
from .limits import Allowance, Refusals, SourceLimit
from .member import Address
from .messages import Ack, Flag, Gossip, Message, Nack, NotMe, Page, Paged, Ping, PingRequest, Pull, Push, Row, Sync
from .parts import Parts
from .table import NEVER
from .vitals import PACKED_BYTES as VITALS_BYTES

_TOLD_SECONDS = 1.0  # a peer is corrected at most this often
_MOST_TOLD = 1024
_NOT_ME_A_SECOND = 50
_PUSHES_A_SECOND = 32
# A member that has not our key is told so by a ping in ours; each costs a look at all members.
_SPEAK_UPS_A_SECOND = 4


class Border:
    """The inputs from the network."""

    def __init__(self, core: Core, parts: Parts) -> None:
        self._core = core
        self._parts = parts
        self._sources = SourceLimit()
        self._not_me = Allowance(_NOT_ME_A_SECOND)
        self._pushes = Allowance(_PUSHES_A_SECOND)
        self._speak_ups = Allowance(_SPEAK_UPS_A_SECOND)
        self._told: dict[bytes, float] = {}
        self._refused: dict[str, Refusals] = {}

    def receive(self, data: bytes, source: Address, now: float) -> None:
        """One datagram."""
        message = self._opened(data, source, now, datagram=True)
        if message is None:
            return
        if message.sender.node_id == self._core.identity.node_id:
            self._from_ourselves(message, source, now)
            return
        self.heard(now)
        room = len(data) - self._core.frames.overhead
        match message:
            case Page():
                self._page(message, room, source, now)
            case Paged():
                self._parts.paged(self._parts.pager.take(message, now), now)
            case _:
                self._obey(message, source, room, now)

    def serve(self, payload: bytes, source: Address, now: float) -> bytes | None:
        """One request of a stream; the reply's frame."""
        message = self._opened(payload, source, now, datagram=False)
        if message is None:
            return None
        if message.sender.node_id != self._core.identity.node_id:
            self.heard(now)
        reply = self._reply(message, source, now)
        return None if reply is None else self._core.streamed(reply, source)

    def heard(self, now: float) -> None:
        """Something valid came from somebody."""
        if self._core.health.heard(now):
            self._core.emit(Isolation(isolated=False))

    def _opened(self, data: bytes, source: Address, now: float, *, datagram: bool) -> Message | None:
        core = self._core
        try:
            payload = core.frames.unwrap(data, source)
            if datagram and not self._sources.take(source, now):
                core.count("packets over the limit of their source")
                return None
            return wire.decode(payload)
        except FrameReplayed as refusal:
            core.count(f"refused: {refusal.place}")
        except FrameRefused as refusal:
            core.count(f"refused: {refusal.place}")
            self._note(refusal, source, now)
            if datagram and isinstance(refusal, KeyUnknown):
                self._speak_up(len(data), source, now)
        except WireError as error:
            core.count(f"malformed: {error.place}")
        return None

    def _note(self, refusal: FrameRefused, source: Address, now: float) -> None:
        refused = self._refused.setdefault(refusal.place, Refusals())
        packets, others = refused.take(source, now)
        if packets:
            also = {"others": ", ".join(map(text, others))} if others else {}
            self._core.note("packet.refused", source=text(source), reason=str(refusal), packets=packets, **also)

    def _speak_up(self, size: int, source: Address, now: float) -> None:
        """A member used a key that we slept through: once it hears us it answers in one that we have."""
        overhead = self._core.frames.overhead
        if wire.PING_BYTES + overhead <= size and self._speak_ups.take(now) and self._parts.joiner.is_member(source):
            self._parts.strangers.ping(source, now)

    def _from_ourselves(self, message: Message, source: Address, now: float) -> None:
        """Only the check for a live twin speaks in our own name."""
        if isinstance(message, Ping):
            self._core.send(self._parts.answers.to_ping(message, (), wire.PING_BYTES, now), source)
        elif isinstance(message, Ack):
            self._parts.selfrules.acked(message, now)

    def _obey(self, message: Message, source: Address, room: int, now: float) -> None:
        parts = self._parts
        if not parts.strangers.believed(message):
            self._meet(message, source, room, now)
            return
        place = parts.strangers.place(message, source)
        outdated = parts.intake.hear(message.sender, place, message.items, now).outdated
        match message:
            case Ping():
                self._answer(message, outdated, room, source, now)
                return
            case Ack():
                self._take_ack(message, source, now)
            case PingRequest():
                parts.answers.ping_for(message, source, now)
            case Nack():
                parts.prober.nacked(message, now)
            case NotMe():
                parts.selfrules.unanswered(message.request, now)
                parts.prober.not_me(message, now)
            case Gossip():
                pass
            case _:
                self._core.count("stream messages in datagrams")
        if outdated:
            self._correct(message.sender.node_id, outdated, room, source, now)

    def _meet(self, message: Message, source: Address, room: int, now: float) -> None:
        """Nothing that a stranger says is taken: a ping is answered, and what room is left asks it for proof."""
        if isinstance(message, Ping):
            if self._aimed_elsewhere(message, source, now):
                return
            ack = self._parts.answers.to_ping(message, (), min(room, wire.ACK_BYTES + VITALS_BYTES), now)
            self._core.send(ack, source)
            room -= len(ack) + self._core.frames.overhead
        elif isinstance(message, NotMe):
            self._parts.selfrules.unanswered(message.request, now)
        self._parts.strangers.knock(source, room, now)

    def _aimed_elsewhere(self, ping: Ping, source: Address, now: float) -> bool:
        """Whether a ping is for another, who is told; one for us may have to be contradicted."""
        core, answers = self._core, self._parts.answers
        answers.judge_view(ping, now)
        if not answers.meant_for_another(ping):
            return False
        if self._not_me.take(now):
            core.send(core.message(wire.NOT_ME, request=ping.request), source)
        return True

    def _answer(self, ping: Ping, outdated: tuple[bytes, ...], room: int, source: Address, now: float) -> None:
        core, parts = self._core, self._parts
        parts.intake.report(ping, now)
        if self._aimed_elsewhere(ping, source, now):
            return
        entry = core.table.get(ping.sender.node_id)
        validated = entry is not None and entry.validated == source
        astray = entry is not None and entry.claim.address != source and ping.items.address is None
        ack = parts.answers.to_ping(
            ping, outdated, room_for(room, validated=validated), now, seen=source if astray else None
        )
        core.send(ack, source)
        parts.syncer.compare(ping.sender, ping.flags, ping.summary, now)

    def _take_ack(self, ack: Ack, source: Address, now: float) -> None:
        parts = self._parts
        if parts.selfrules.acked(ack, now) or parts.answers.pass_on(ack, now):
            return
        relayed = bool(ack.flags & Flag.RELAYED)
        parts.intake.report(ack, now)
        parts.echoes.acked(ack)
        parts.prober.acked(ack, None if relayed else source, now)
        if not relayed:
            parts.syncer.compare(ack.sender, ack.flags, ack.summary, now)

    def _correct(self, peer: bytes, outdated: tuple[bytes, ...], room: int, to: Address, now: float) -> None:
        """Tell a peer what it has wrong, at most once a second, and only where a member is known to be."""
        core = self._core
        entry = core.table.get(peer)
        if core.paused or entry is None or entry.claim.address != to:
            return
        if now - self._told.get(peer, NEVER) < _TOLD_SECONDS:
            return
        validated = entry.validated == to
        known = [entry for entry in map(core.table.get, outdated) if entry is not None]
        # Without section versions a row is no longer than the one that it corrects.
        rows = [core.table.packed(each) if validated else pack_row(Row(each.told().claim)) for each in known]
        body = fitting(rows, room_for(room, validated=validated) - wire.HEADER_BYTES - len(core.origin()))
        if not body:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[peer] = now
        core.send(core.message(wire.GOSSIP, body), to)

    def _page(self, page: Page, room: int, source: Address, now: float) -> None:
        """One page of a sync without TCP. Never longer than the request, whoever sent it."""
        parts = self._parts
        busy: Iterable[bytes] | None = None
        if page.items.place is not None and page.items.place.begins:
            busy = parts.syncer.refused(page.sender.node_id, joining=bool(page.flags & Flag.JOINING), now=now)
        room = min(room, PAYLOAD_BYTES)
        known = parts.strangers.believed(page)
        if not known:
            parts.strangers.knock(source, room, now)
            room -= wire.PING_BYTES + len(self._core.origin()) + self._core.frames.overhead
        self._core.send(parts.pager.serve(page, room, now, busy=busy, heed=known), source)
        if known:
            self._met()

    def _met(self) -> None:
        """Somebody compares tables with us: we are part of something."""
        if self._core.table.live:
            self._parts.joiner.met()

    def _reply(self, message: Message, source: Address, now: float) -> bytes | None:
        parts, core = self._parts, self._core
        match message:
            case Ping():
                return self._ack_by_stream(message, now)
            case Sync():
                reply = parts.syncer.serve(message, source[0], now)
                self._met()
                return reply
            case Push():
                if not self._pushes.take(now):
                    core.count("pushes refused")
                    return None
                parts.intake.hear(message.sender, message.items.address, message.items, now)
                return core.message(wire.PUSHED)
            case Pull():
                return parts.sections.serve(message, now)
            case _:
                core.count("unexpected requests")
                return None

    def _ack_by_stream(self, ping: Ping, now: float) -> bytes:
        """Of a node that datagrams do not reach, streams alone tell what it has and that its table differs."""
        parts, core = self._parts, self._core
        outdated: tuple[bytes, ...] = ()
        if ping.sender.node_id != core.identity.node_id:
            known = core.table.get(ping.sender.node_id) is not None
            outdated = parts.intake.hear(ping.sender, ping.items.address, ping.items, now).outdated
            parts.intake.report(ping, now)
            parts.answers.judge_view(ping, now)
            if known:
                parts.syncer.compare(ping.sender, ping.flags, ping.summary, now)
        if parts.answers.meant_for_another(ping):
            return core.message(wire.NOT_ME, request=ping.request)
        return parts.answers.to_ping(ping, outdated, PAYLOAD_BYTES, now)

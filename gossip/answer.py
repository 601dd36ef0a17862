"""Answers to pings, and pinging for others as a relay.

An answer goes to the packet's source. Until that address has answered an unpredictable request id of ours it gets no
more bytes than it sent: whoever forges a source gains nothing.
"""

from __future__ import annotations

from . import items, wire
from .core import Core
from .effects import Purpose
from .frames import PAYLOAD_BYTES
from .member import Address, Claim
from .messages import ANYONE, Ack, Flag, Ping, PingRequest
from .probe import patience
from .relay import VitalsRelay
from .selfrules import SelfRules
from .spread import Spread
from .vitals import PACKED_BYTES as VITALS_BYTES

_MOST_RELAYED = 256  # relayed pings in flight: beyond it others are asked
_RELAYED_SECONDS = 10.0


class _Relayed:
    """One ping sent for another node."""

    __slots__ = ("answered", "at", "origin", "request", "target")

    def __init__(self, origin: Address, request: int, target: bytes, now: float) -> None:
        self.origin = origin
        self.request = request
        self.target = target
        self.at = now
        self.answered = False


class Answers:
    """What this node does for those that probe."""

    def __init__(self, core: Core, spread: Spread, relay: VitalsRelay, selfrules: SelfRules) -> None:
        self._core = core
        self._spread = spread
        self._relay = relay
        self._selfrules = selfrules
        self._relayed: dict[int, _Relayed] = {}

    def judge_view(self, ping: Ping, now: float) -> None:
        """The ping says how its sender sees us; whoever suspects us is answered by the very ack."""
        if ping.target == self._core.identity.node_id:
            view = Claim(ping.target, ping.target_generation, ping.view_incarnation, ping.view_rank)
            self._selfrules.about_me(view, now)

    def meant_for_another(self, ping: Ping) -> bool:
        return ping.target not in {self._core.identity.node_id, ANYONE}

    def to_ping(
        self, ping: Ping, outdated: tuple[bytes, ...], room: int, now: float, *, seen: Address | None = None
    ) -> bytes:
        """The ack, in at most `room` bytes of payload.

        `outdated`: of whom the sender knows less than we. `seen`: where the ping came from, when its sender claims
        to be elsewhere and may not know that it looks so.
        """
        core = self._core
        opening = core.opening(wire.ACK, ping.request, now)
        vitals = core.me.vitals or b""
        if len(opening) + len(vitals) > room:
            vitals = b""
            opening = wire.without_vitals(opening)
        if ping.sender.node_id == core.identity.node_id:
            return b"".join((opening, vitals, items.pack_boot_id(core.identity.boot_id)))
        room -= len(opening) + len(vitals)
        body = fitting([core.origin(), b"" if seen is None else items.pack_observed(seen)], room)
        room -= sum(map(len, body))
        first = self._first(outdated, room)
        body += first
        room -= sum(map(len, first))
        news = self._spread.fill(room)
        room -= sum(map(len, news))
        return b"".join((opening, vitals, *body, *news, *self._relay.fill(room, now)))

    def _first(self, outdated: tuple[bytes, ...], room: int) -> list[bytes]:
        """Our own row while it is not plainly alive, and rows that the sender should know better."""
        core = self._core
        subjects = dict.fromkeys(((core.identity.node_id,) if core.leaving else ()) + outdated)
        return fitting([core.table.packed(e) for e in map(core.table.get, subjects) if e is not None], room)

    def ping_for(self, request: PingRequest, source: Address, now: float) -> None:
        """Ping the target in our own name; say no in time if it stays silent. Only members are pinged.

        Nothing rides along that the request did not pay for: anybody may have sent it.
        """
        core = self._core
        entry = core.table.get(request.target)
        if entry is None or not entry.live or entry.claim.address is None or len(self._relayed) >= _MOST_RELAYED:
            core.send(core.message(wire.NACK, request=request.request), source)
            return
        mine = core.request_id()
        self._relayed[mine] = _Relayed(source, request.request, request.target, now)
        claim = entry.claim
        aim = wire.aim(claim.node_id, claim.generation, claim.rank, claim.incarnation)
        opening = wire.without_vitals(core.opening(wire.PING, mine, now))
        core.send(b"".join((opening, aim, core.origin())), entry.claim.address)
        # As soon as we would give up ourselves: when TCP is refused too, the round need not wait any longer.
        core.wake(Purpose.RELAY, min(request.wait_ms / 1000, patience(core, entry)), number=mine)

    def pass_on(self, ack: Ack, now: float) -> bool:
        """Whether this ack was for a ping that we sent for another, who gets it now, even when it is late."""
        relayed = self._relayed.get(ack.request)
        if relayed is None or ack.sender.node_id != relayed.target:
            return False
        relayed.answered = True
        opening = wire.opening(wire.ACK, relayed.request, ack.sender, Flag.RELAYED, ack.summary)
        self._core.send(opening, relayed.origin)
        self.drop_old(now)
        return True

    def relay_over(self, request: int, now: float) -> None:
        """The time that the asker gave us is over."""
        relayed = self._relayed.get(request)
        if relayed is not None and not relayed.answered:
            core = self._core
            core.send(core.message(wire.NACK, request=relayed.request), relayed.origin)
        self.drop_old(now)

    def drop_old(self, now: float) -> None:
        for request, relayed in list(self._relayed.items()):
            if now - relayed.at < _RELAYED_SECONDS:
                return
            del self._relayed[request]


def room_for(request_bytes: int, *, validated: bool) -> int:
    """Bytes of payload that an answer may have."""
    return PAYLOAD_BYTES - VITALS_BYTES if validated else min(request_bytes, PAYLOAD_BYTES)


def fitting(parts: list[bytes], room: int) -> list[bytes]:
    """The parts that fit, in order."""
    chosen: list[bytes] = []
    for part in parts:
        if len(part) <= room:
            room -= len(part)
            chosen.append(part)
    return chosen

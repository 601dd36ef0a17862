"""The state that the parts of a node share, and the few acts that all of them need.

One `Core` per `Node`. Parts (`spread`, `liveness`, `selfrules`, `probe`, `sections`, `sync`, `join`) are built over it
and append effects to it; `Node` hands them out at the end of each input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from . import items, wire
from .effects import Ask, Change, Changed, Effect, Note, Outcome, Purpose, Send, Token, Wake
from .errors import WireError
from .frames import Frames
from .health import Health
from .member import Address, Claim, Identity, Rank, SectionKind, State
from .messages import Flag, Message, Row, Speaker, Summary
from .settings import Settings
from .suspicion import spread_time
from .table import NEVER, Entry, Table

# A table that gained a member this recently is compared at every packet: starts of many nodes fill their holes by it.
YOUNG_SECONDS = 10.0
# Quiet means unchanged for this many spread times: longer than news is on its way.
QUIET_SPREADS = 2
_MOST_RECENT = 32  # more than are heard in the time for which a relay counts as recent, of those that probe us
_NO_RECORD = (0, bytes(8))
_REQUEST_BITS = 64


class Core:
    """What a node knows, and its outbox."""

    def __init__(
        self, identity: Identity, settings: Settings, chance: Random, frames: Frames, advertise: Address
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.chance = chance
        self.frames = frames
        self.table = Table(settings.reap_after)
        self.health = Health()
        self.counters: Counter[str] = Counter()
        self.recent: dict[bytes, None] = {}
        """Those heard last, the latest at the end."""
        self.leaving = False
        self.paused = False
        """Whether gossip waits until a doubt about our identity is settled."""
        self.stale = False
        """Away for so long that our rows teach nothing until a sync (see `absence`)."""
        self.accuse_after = NEVER
        """After a gap nobody is accused before this moment; a sync ends it."""
        self.rtt: float | None = None
        """Round trip to whoever answered of late, and its deviation; in seconds."""
        self.rtt_spread = 0.0
        self.elsewhere = False
        """Whether somebody saw our packets come from another address than the one we claim: it goes with each then."""
        self._out: list[Effect] = []
        self._bucket = chance.randrange(64)
        claim = Claim(identity.node_id, identity.generation, 0, Rank.ALIVE, advertise)
        self.me = Entry(Row(claim), State.ALIVE, 0.0)
        self.table.add(self.me, 0.0)

    def start(self, now: float) -> None:
        """Set what the constructor could not know: it has no clock."""
        self.me.shown_at = self.me.since = now
        self.table.changed_at = now

    @property
    def speaker(self) -> Speaker:
        claim = self.me.row.claim
        return Speaker(claim.node_id, claim.generation, claim.incarnation)

    @property
    def address(self) -> Address:
        """Our own, as others reach it."""
        claimed = self.me.row.claim.address
        assert claimed is not None  # noqa: S101 - set by the constructor and never removed
        return claimed

    def taken(self) -> list[Effect]:
        """Everything the last input asked for, in order."""
        out, self._out = self._out, []
        return out

    def heard_from(self, node_id: bytes) -> None:
        """Note whose packet came last."""
        recent = self.recent
        recent.pop(node_id, None)
        recent[node_id] = None
        if len(recent) > _MOST_RECENT:
            del recent[next(iter(recent))]

    def emit(self, effect: Effect) -> None:
        self._out.append(effect)

    def send(self, payload: bytes, to: Address) -> None:
        self._out.append(Send(self.frames.wrap(payload, to), to))

    def ask(self, token: Token, to: Address, payload: bytes, within: float) -> None:
        """One request over TCP."""
        self._out.append(Ask(token, to, self.streamed(payload, to), within))

    def streamed(self, payload: bytes, to: Address) -> bytes:
        """The frame of a request or a reply; it says where we can be reached, as its source does not."""
        return self.frames.wrap_stream(payload + items.pack_address(self.address), to)

    def reply(self, outcome: Outcome) -> Message | None:
        """The message of a stream's reply; None when there is none, or it is broken."""
        if not isinstance(outcome, bytes):
            return None
        try:
            return wire.decode(self.frames.unwrap(outcome))
        except WireError:
            self.count("replies refused")
            return None

    def wake(self, purpose: Purpose, after: float, key: bytes = b"", number: int = 0) -> None:
        self._out.append(Wake(Token(purpose, key, number), max(after, 0.0)))

    def changed(self, node_id: bytes, what: Change, section: int | None = None, *, again: bool = False) -> None:
        self._out.append(Changed(node_id, what, section, again))

    def note(self, event: str, **fields: str | float) -> None:
        self._out.append(Note(event, fields))

    def count(self, what: str) -> None:
        self.counters[what] += 1

    def request_id(self) -> int:
        """Unpredictable as far as `chance` is: an answer to it proves that its sender got our packet."""
        return self.chance.getrandbits(_REQUEST_BITS)

    def quiet_seconds(self) -> float:
        return QUIET_SPREADS * spread_time(self.settings, self.table.size)

    def young(self, now: float) -> bool:
        return now - self.table.grown_at < YOUNG_SECONDS

    def message(self, kind: int, body: Iterable[bytes] = (), request: int = 0, flags: int = 0) -> bytes:
        """Any message of ours that has only the common header and items."""
        return wire.message(kind, self.speaker, (self.origin(), *body), request, flags)

    def tellable(self) -> Iterable[Entry]:
        """The entries that this node may teach."""
        return (self.me,) if self.stale else self.table

    def origin(self) -> bytes:
        """What a packet to a member says of where we can be reached: nothing, when its source says it."""
        return items.pack_address(self.address) if self.elsewhere else b""

    def opening(self, kind: int, request: int, now: float) -> bytes:
        """The start of a ping or an ack, with the hashes of this moment and the next bucket in turn."""
        table = self.table
        bucket = self._bucket = (self._bucket + 1) % len(table.buckets)
        quiet = self.quiet_seconds()
        flags = 0
        if now - table.changed_at >= quiet:
            flags |= Flag.QUIET_TABLE
        if now - table.bucket_changed_at[bucket] >= quiet:
            flags |= Flag.QUIET_BUCKET
        if now - table.grown_at < YOUNG_SECONDS:
            flags |= Flag.YOUNG
        if self.me.vitals is not None:
            flags |= Flag.VITALS
        version, digest = self._record()
        summary = Summary(version, digest, table.hash, bucket, table.buckets[bucket])
        return wire.opening(kind, request, self.speaker, flags, summary)

    def _record(self) -> tuple[int, bytes]:
        held = self.me.sections.get(SectionKind.RECORD)
        return _NO_RECORD if held is None else (held.version, held.digest)

"""A sync without TCP: the same exchange by pages of one datagram each, in both directions at once.

    Page: where I am in your table, my bucket hashes, what comes next of mine
    Paged: what comes next of yours, and where you are then; the first one also carries your hashes

A request is as long as its reply may be, so that nobody gains by forging its source; and it holds all that the reply
depends on, so that the serving end keeps nothing. Each page is asked for again until its reply comes. Order: first the
rows of all nodes with their vitals, then the sections that fit a packet; within both by bucket and node id.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from collections.abc import Set as AbstractSet
from enum import Enum

from . import items, wire
from .core import Core
from .effects import Purpose
from .frames import PAYLOAD_BYTES
from .intake import Intake
from .member import Address
from .messages import Flag, Page, Paged, Place
from .spread import Spread
from .table import Entry, bucket_of, differing_buckets

_AGAIN_SECONDS = 0.5
_MOST_TRIES = 6
# Under the bound on packets of one source, and gentle to a link that is already in trouble.
_PAUSE_SECONDS = 0.01
_MOST_SESSIONS = 4
# A table of ten thousand nodes has some; whoever sends on for ever stops here.
_MOST_PAGES = 20_000
_ROWS, _SECTIONS, _END = range(3)
BEGIN, END = Place(), Place(_END)


class Ending(Enum):
    """How an exchange by pages ended."""

    COMPLETE = "complete"
    BUSY = "busy"
    SILENT = "no answer"


class Session:
    """One exchange that this node asked for."""

    __slots__ = (
        "address", "busy", "ending", "hashes", "joining", "mine", "number", "pages",
        "partner", "reached", "sender", "stale", "taught", "theirs", "tries", "unequal",
    )  # fmt: skip

    def __init__(self, number: int, address: Address, hashes: Iterable[int], *, joining: bool) -> None:
        self.number = number
        self.address = address
        self.joining = joining
        self.hashes = tuple(hashes)
        """Of our table when it began."""
        self.partner: tuple[int, ...] = ()
        """Hashes of the other's table when it began."""
        self.sender = b""
        self.unequal: AbstractSet[int] = frozenset()
        self.theirs = BEGIN
        self.mine = self.reached = BEGIN
        """Of our table: what the other has, and what the page on its way will bring it to."""
        self.tries = self.pages = 0
        self.taught = self.stale = False
        self.ending: Ending | None = None
        self.busy: tuple[Address, ...] = ()
        """Members to ask instead."""


class Pager:
    """Both ends of exchanges by pages."""

    def __init__(self, core: Core, spread: Spread, intake: Intake) -> None:
        self._core = core
        self._spread = spread
        self._intake = intake
        self._sessions: dict[int, Session] = {}

    # The asking end

    def begin(self, address: Address, *, joining: bool, now: float) -> Session | None:
        """Ask for the first page; None when too many exchanges are under way, or one with that address."""
        sessions = self._sessions
        if len(sessions) >= _MOST_SESSIONS or any(session.address == address for session in sessions.values()):
            return None
        session = Session(self._core.request_id(), address, self._core.table.buckets, joining=joining)
        sessions[session.number] = session
        self._core.count("syncs by pages")
        self._send(session, now)
        return session

    def _send(self, session: Session, now: float) -> None:
        """Ask for the page after the last one."""
        core = self._core
        body = [items.pack_place(session.theirs), items.pack_hashes(session.hashes)]
        room = PAYLOAD_BYTES - wire.HEADER_BYTES - sum(map(len, body))
        if session.partner:
            page, session.reached = self._page(session.mine, session.unequal, room, now)
        else:
            page = [core.table.packed(core.me)]
        body += [*page, items.pack_padding(room - sum(map(len, page)))]
        flags = Flag.JOINING if session.joining else 0
        core.send(wire.message(wire.PAGE, core.speaker, body, request=session.number, flags=flags), session.address)
        core.wake(Purpose.PAGE, _AGAIN_SECONDS, number=session.number)

    def due(self, number: int, now: float) -> Session | None:
        """A timer fired: the pause is over, or no reply came. The session when that ends it."""
        session = self._sessions.get(number)
        if session is None:
            return None
        session.tries += 1
        if session.tries > _MOST_TRIES or session.pages >= _MOST_PAGES:
            return self._end(session, Ending.SILENT)
        self._send(session, now)
        return None

    def take(self, reply: Paged, now: float) -> Session | None:
        """A page came. The session when that ends it."""
        session = self._sessions.get(reply.request)
        if session is None:
            self._core.count("replies refused")
            return None
        session.sender = reply.sender.node_id
        if reply.flags & Flag.BUSY:
            session.busy = tuple(row.claim.address for row in reply.items.rows if row.claim.address is not None)
            return self._end(session, Ending.BUSY)
        # What a first join teaches is known to all the others: it is not news to pass on.
        self._spread.muted = session.joining
        session.taught = self._intake.hear(reply.sender, reply.items.address, reply.items, now).taught or session.taught
        self._spread.muted = False
        if reply.items.hashes:
            session.partner = reply.items.hashes
            session.unequal = differing_buckets(session.hashes, session.partner)
        session.stale = session.stale or bool(reply.flags & Flag.STALE)
        session.theirs, session.mine = reply.items.place or END, session.reached
        session.tries, session.pages = 0, session.pages + 1
        if session.theirs == END and (session.mine == END or not session.unequal):
            return self._end(session, Ending.COMPLETE if session.partner else Ending.SILENT)
        # This number is answered: the next page goes out, under the next, when the pause is over.
        del self._sessions[session.number]
        session.number = self._core.request_id()
        self._sessions[session.number] = session
        self._core.wake(Purpose.PAGE, _PAUSE_SECONDS, number=session.number)
        return None

    def _end(self, session: Session, ending: Ending) -> Session:
        del self._sessions[session.number]
        session.ending = ending
        return session

    # The serving end

    def serve(self, message: Page, room: int, now: float, *, busy: Iterable[bytes] | None, heed: bool) -> bytes:
        """The reply in at most `room` bytes of payload. `busy`: rows to name instead; `heed`: take what it says."""
        core = self._core
        room -= wire.HEADER_BYTES
        flags = Flag.STALE if core.stale else 0
        if busy is not None:
            body = [*_within(busy, room)]
            return wire.message(wire.PAGED, core.speaker, body, request=message.request, flags=Flag.BUSY)
        place = message.items.place or END
        body: list[bytes] = []
        if place == BEGIN:
            body.append(items.pack_hashes(core.table.buckets))
        unequal = differing_buckets(core.table.buckets, message.items.hashes)
        if heed:
            self._intake.hear(message.sender, message.items.address, message.items, now)
        page, place = self._page(place, unequal, room - items.PLACE_BYTES - sum(map(len, body)), now)
        body += page
        if place != END:
            body.append(items.pack_place(place))
        return wire.message(wire.PAGED, core.speaker, body, request=message.request, flags=flags)

    # Both ends

    def _page(self, after: Place, buckets: Container[int], room: int, now: float) -> tuple[list[bytes], Place]:
        """What comes after a place within those buckets, as far as it fits, and the place reached."""
        body: list[bytes] = []
        entries = [e for e in self._core.tellable() if bucket_of(e.node_id) in buckets and not e.reaped]
        entries.sort(key=_order)
        for phase in range(after.phase, _END):
            done = (bucket_of(after.node_id), after.node_id) if phase == after.phase else (-1, b"")
            for entry in entries:
                if _order(entry) < done:
                    continue
                said = after.kind if _order(entry) == done else -1
                for kind, part in self._parts(entry, phase, now):
                    if kind <= said:
                        continue
                    if len(part) > room:
                        if body:
                            return body, after
                        continue  # more than a page of its own: it needs TCP
                    room -= len(part)
                    body.append(part)
                    after = Place(phase, entry.node_id, kind)
        return body, END

    def _parts(self, entry: Entry, phase: int, now: float) -> Iterable[tuple[int, bytes]]:
        """What is said of one node in one phase, each with the number by which its place is known."""
        if phase == _SECTIONS:
            for kind in sorted(entry.sections):
                yield kind, items.pack_section(entry.node_id, kind, entry.sections[kind])
            return
        age = None if entry.live else int(now - entry.ended_at)
        yield 0, items.pack_row(entry.told(), age)
        if entry.vitals is not None and entry.live:
            made = entry.vitals_generation or entry.claim.generation
            yield 1, items.pack_vitals(entry.node_id, made, now - entry.vitals_at, entry.vitals)


def _order(entry: Entry) -> tuple[int, bytes]:
    return bucket_of(entry.node_id), entry.node_id


def _within(parts: Iterable[bytes], room: int) -> Iterable[bytes]:
    for part in parts:
        if len(part) > room:
            return
        room -= len(part)
        yield part

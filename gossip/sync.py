"""Anti-entropy: tables are compared by hashes in every ping and ack, and exchanged over TCP where they differ.

A sync starts when hashes differ and
    (a) both tables are quiet, or
    (b) the bucket that the packet carries differs and is quiet at both ends, or
    (c) one of the tables gained a member in the last seconds (starts of many nodes), at most once a second, or
    (d) every hash seen has differed for a whole sync interval.
It exchanges all bucket hashes, then the rows of the buckets that differ, then the sections that one side lacks:
one Sync, and where needed one Push and one Pull. Equal tables cost nothing. Where TCP is blocked: see `pages`.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import items, wire
from .absence import Absence
from .core import Core
from .effects import Outcome, Purpose, Token
from .intake import Intake
from .member import Rank, State
from .messages import Flag, Row, Speaker, Summary, Sync, Synced
from .pages import Ending, Pager, Session
from .precedence import join
from .sections import Sections
from .table import NEVER, Entry, bucket_of, differing_buckets

_YOUNG_PAUSE = 1.0  # seconds between syncs of rule (c)
_ASK_SECONDS = 5.0
# Rows of one reply; the rest of the stream's frame is for sections and vitals.
_ROWS_BYTES = wire.STREAM_BYTES // 2
_BODY_BYTES = wire.STREAM_BYTES - 4096  # room for the frame, the header and the hashes
_BUSY_WINDOW = 0.1  # seconds in which at most this many are served: a storm of joins spreads over the members
_MOST_JOINS, _MOST_SYNCS = 16, 4
_OFFERED = 10  # members named by a busy node


class Syncer:
    """Both ends of syncs."""

    def __init__(self, core: Core, intake: Intake, sections: Sections, pager: Pager, absence: Absence) -> None:
        self._core = core
        self._intake = intake
        self.sections = sections
        self.pager = pager
        self.absence = absence
        self._paging: Session | None = None
        self._taught = False
        self._partner: bytes | None = None
        self._number = 0
        self._cursor = 0
        self._young_at = NEVER
        self._differs_since: float | None = None
        self._barren: dict[bytes, float] = {}
        self._window_at = NEVER
        self._served = {False: 0, True: 0}

    # The asking end

    def compare(self, speaker: Speaker, flags: int, summary: Summary, now: float) -> None:
        """A ping or an ack told the sender's hashes."""
        table = self._core.table
        if summary.table_hash == table.hash:
            self._differs_since = None
            return
        if self._differs_since is None:
            self._differs_since = now
        if self._partner is not None or now - self._barren.get(speaker.node_id, NEVER) < self._patience:
            return
        quiet = self._core.quiet_seconds()
        bucket = summary.bucket
        young = flags & Flag.YOUNG or self._core.young(now)
        if (
            (flags & Flag.QUIET_TABLE and now - table.changed_at >= quiet)
            or (
                flags & Flag.QUIET_BUCKET
                and table.buckets[bucket] != summary.bucket_hash
                and now - table.bucket_changed_at[bucket] >= quiet
            )
            or (young and now - self._young_at >= _YOUNG_PAUSE)
            or now - self._differs_since >= self._patience
        ):
            self._young_at = now
            self.soon(speaker.node_id, self._core.chance.random() * self._core.settings.gossip_tick)

    @property
    def _patience(self) -> float:
        return self._core.settings.sync_interval

    def soon(self, partner: bytes, after: float) -> None:
        """Sync with a member after a while, unless one is under way."""
        if self._partner is None and partner in self._core.table.live:
            self._partner = partner
            self._number += 1
            self._core.wake(Purpose.SYNC, after, number=self._number)

    def with_anyone(self) -> None:
        """One more sync, after joining: whoever it is, most of what we missed is there."""
        for node_id in self._core.table.live.sample(self._core.chance, 1):
            self.soon(node_id, 0.0)

    def begin(self, number: int) -> None:
        """The jitter is over."""
        if number == self._number and self._partner is not None:
            self._cursor = 0
            self._taught = False
            self._ask(self._partner)

    def request(self, *, joining: bool, cursor: int = 0) -> bytes:
        """A sync request. A joiner's carries all that it has to say about itself."""
        core = self._core
        me = core.me
        body = [items.pack_hashes(core.table.buckets), core.table.packed(me)]
        if cursor:
            body.append(items.pack_cursor(cursor))
        if joining:
            body += [items.pack_section(me.node_id, kind, held) for kind, held in me.sections.items()]
            if me.vitals is not None:
                body.append(items.pack_vitals(me.node_id, me.claim.generation, 0.0, me.vitals))
        flags = Flag.JOINING if joining else 0
        return wire.message(wire.SYNC, core.speaker, body, flags=flags)

    def _ask(self, partner: bytes) -> None:
        core = self._core
        entry = core.table.get(partner)
        if entry is None or entry.claim.address is None:
            self._partner = None
            return
        core.count("syncs asked")
        token = Token(Purpose.SYNC, number=self._number)
        core.ask(token, entry.claim.address, self.request(joining=False, cursor=self._cursor), _ASK_SECONDS)

    def answered(self, number: int, outcome: Outcome, now: float) -> None:
        """The reply of a sync of ours."""
        partner = self._partner
        if number != self._number or partner is None or self._paging is not None:
            return
        reply = self._core.reply(outcome)
        if isinstance(reply, Synced):
            self._taught = self.absorb(reply, self._cursor, now) or self._taught
            self._cursor = reply.items.cursor
            if self._cursor:
                self._ask(partner)
            else:
                self._complete(partner, now, stale=bool(reply.flags & Flag.STALE))
        elif isinstance(outcome, bytes) or not self._page(partner, now):
            self._partner = None

    def _page(self, partner: bytes, now: float) -> bool:
        """TCP does not go through: the same by datagrams, as long as the partner seems to be there."""
        entry = self._core.table.get(partner)
        if entry is not None and entry.shown is State.ALIVE and entry.claim.address is not None:
            self._paging = self.pager.begin(entry.claim.address, joining=False, now=now)
        return self._paging is not None

    def paged(self, ended: Session, now: float) -> None:
        """An exchange by pages ended, perhaps ours."""
        partner = self._partner
        if ended is not self._paging or partner is None:
            return
        self._paging = self._partner = None
        if ended.ending is Ending.COMPLETE:
            self._taught = ended.taught
            if not ended.stale:
                self.absence.confirmed(ended.partner)
            self._complete(partner, now, stale=ended.stale)

    def _complete(self, partner: bytes, now: float, *, stale: bool) -> None:
        self._partner = None
        self.informed(now, stale=stale)
        if not self._taught:
            self._barren[partner] = now
            if len(self._barren) > len(self._core.table):
                self._barren = {node: at for node, at in self._barren.items() if now - at < self._patience}

    def informed(self, now: float, *, stale: bool) -> None:
        """A sync is complete, of whatever kind."""
        self.absence.informed(now, stale=stale)

    def absorb(self, reply: Synced, start: int, now: float) -> bool:
        """Take a reply, give back what its sender lacks, fetch what it holds. True when anyone was taught.

        `start`: the bucket from which it was asked for.
        """
        core, sender = self._core, reply.sender.node_id
        taught = self._intake.hear(reply.sender, reply.items.address, reply.items, now).taught
        if reply.items.observed not in {None, core.address}:
            core.elsewhere = True
        if not reply.flags & Flag.STALE:
            self.absence.confirmed(reply.items.hashes, start=start, stop=reply.items.cursor or items.BUCKETS)
        gifts = self._gifts(reply, start, now)
        if gifts and (entry := core.table.get(sender)) is not None and entry.claim.address is not None:
            payload = wire.message(wire.PUSH, core.speaker, gifts)
            core.ask(Token(Purpose.PUSH), entry.claim.address, payload, _ASK_SECONDS)
        wants = self.sections.missing([row.claim.node_id for row in reply.items.rows])
        if wants:
            self.sections.ask(sender, wants)
        return taught or bool(gifts) or bool(wants)

    def _gifts(self, reply: Synced, start: int, now: float) -> list[bytes]:
        """Rows and sections of ours that are newer than those of the reply, in the buckets that it covered."""
        core = self._core
        covered = range(start, reply.items.cursor or items.BUCKETS)
        heard = {row.claim.node_id: row for row in reply.items.rows}
        differing = differing_buckets(core.table.buckets, reply.items.hashes)
        rows: list[bytes] = []
        sections: list[bytes] = []
        for entry in core.tellable():
            node_id = entry.node_id
            bucket = bucket_of(node_id)
            if bucket not in differing or bucket not in covered or entry.reaped:
                continue
            theirs = heard.get(node_id)
            if theirs is None or self._newer(entry, theirs):
                rows.append(self._row(entry, now))
                sections += _newer_sections(entry, theirs)
        return _within(rows + sections, _BODY_BYTES)

    def _newer(self, entry: Entry, theirs: Row) -> bool:
        ours = entry.told()
        if ours == theirs:
            return False
        joined = join(theirs.claim, ours.claim, self._core.settings.most_accusers)
        return joined is not theirs.claim or not set(ours.heads) <= set(theirs.heads)

    def _row(self, entry: Entry, now: float) -> bytes:
        if entry.claim.rank in {Rank.DEAD, Rank.LEFT} and not entry.live:
            return items.pack_row(entry.told(), int(now - entry.ended_at))
        return self._core.table.packed(entry)

    # The serving end

    def serve(self, message: Sync, host: str, now: float) -> bytes:
        """Compare, and reply with what differs; with everything to a joiner; with other members when busy.

        `host`: where the stream comes from.
        """
        core = self._core
        joining = bool(message.flags & Flag.JOINING)
        if not message.items.cursor:
            busy = self.refused(message.sender.node_id, joining=joining, now=now)
            if busy is not None:
                return wire.message(wire.BUSY, core.speaker, busy)
        differing = set(range(items.BUCKETS))
        if not joining:
            differing = differing_buckets(core.table.buckets, message.items.hashes)
        self._intake.hear(message.sender, message.items.address, message.items, now)
        reply = [*self._observed(message.sender.node_id, host), *self._reply(differing, message, now)]
        return wire.message(wire.SYNCED, core.speaker, reply, flags=Flag.STALE if core.stale else 0)

    def _observed(self, node_id: bytes, host: str) -> list[bytes]:
        """Where the asker is seen, when it claims another host; of its port a stream says nothing."""
        entry = self._core.table.get(node_id)
        claimed = None if entry is None else entry.claim.address
        return [] if claimed is None or claimed[0] == host else [items.pack_observed((host, claimed[1]))]

    def refused(self, asker: bytes, *, joining: bool, now: float) -> list[bytes] | None:
        """Rows of members to ask instead, when too many are served already; None when this one is."""
        core = self._core
        if not self._busy(joining=joining, now=now):
            core.count("joins served" if joining else "syncs served")
            return None
        core.count("syncs refused busy")
        drawn = [core.table.get(node) for node in core.table.live.sample(core.chance, _OFFERED + 1)]
        offered = [entry for entry in drawn if entry is not None and entry.node_id != asker]
        return [*map(core.table.packed, offered[:_OFFERED])]

    def _busy(self, *, joining: bool, now: float) -> bool:
        if now - self._window_at >= _BUSY_WINDOW:
            self._window_at = now
            self._served = {False: 0, True: 0}
        self._served[joining] += 1
        return self._served[joining] > (_MOST_JOINS if joining else _MOST_SYNCS)

    def _reply(self, differing: set[int], message: Sync, now: float) -> list[bytes]:
        start = message.items.cursor
        wanted = [entry for entry in self._core.tellable() if start <= bucket_of(entry.node_id) in differing]
        wanted.sort(key=lambda entry: bucket_of(entry.node_id))
        body = [items.pack_hashes(self._core.table.buckets)]
        size, last, count = 0, start, 0
        for entry in wanted:
            bucket = bucket_of(entry.node_id)
            if size > _ROWS_BYTES and bucket != last:
                body.append(items.pack_cursor(bucket))
                break
            body.append(self._row(entry, now))
            size += len(body[-1])
            last, count = bucket, count + 1
        if message.flags & Flag.JOINING:
            luggage = self._luggage(wanted[:count], message.sender.node_id, now)
            body += _within(luggage, _BODY_BYTES - sum(map(len, body)))
        return body

    def _luggage(self, entries: Iterable[Entry], joiner: bytes, now: float) -> Iterable[bytes]:
        """Sections and vitals of these nodes."""
        for entry in entries:
            node_id = entry.node_id
            if node_id == joiner:
                continue
            for kind, section in entry.sections.items():
                yield items.pack_section(node_id, kind, section)
            if entry.vitals is not None and entry.live:
                made = entry.vitals_generation or entry.claim.generation
                yield items.pack_vitals(node_id, made, now - entry.vitals_at, entry.vitals)


def _newer_sections(entry: Entry, theirs: Row | None) -> list[bytes]:
    known: dict[int, tuple[int, int]] = {}
    if theirs is not None:
        known = {head.kind: (theirs.claim.generation, head.version) for head in theirs.heads}
    return [
        items.pack_section(entry.node_id, kind, held)
        for kind, held in entry.sections.items()
        if (held.generation, held.version) > known.get(kind, (0, 0))
    ]


def _within(parts: Iterable[bytes], room: int) -> list[bytes]:
    chosen: list[bytes] = []
    for part in parts:
        room -= len(part)
        if room < 0:
            break
        chosen.append(part)
    return chosen

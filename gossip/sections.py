"""Sections: versioned payloads of nodes. Publishing our own, taking others', pulling what gossip missed, serving pulls.

A row names the versions of its node's sections. Who learns of one that it does not hold waits for gossip to bring it,
then asks whoever named it, then another holder, then the owner.
"""

from __future__ import annotations

from . import items, wire
from .core import Core
from .effects import Change, Outcome, Purpose, Token
from .errors import SectionTooLarge
from .limits import Allowance
from .member import SECTION_LIMIT, Section
from .messages import Head, Pull, Pulled, SectionItem, Want
from .spread import Spread
from .suspicion import spread_time
from .table import Entry

_MOST_ASKS = 4  # pulls of this node in flight
_MOST_WANTS = 64  # of one pull
# A node that pulls in vain this often stops: the next sync with a holder tells it again. What is too big for a packet
# spreads by pulls alone, doubling its holders each time: those that ask last ask in vain some times.
_MOST_TRIES = 12
_SERVED_A_SECOND = 32
_ASK_SECONDS = 5.0


class _Wanted:
    """One section that is known of and not held."""

    __slots__ = ("asked", "due", "tries", "version", "via")

    def __init__(self, version: tuple[int, int], via: bytes, due: float) -> None:
        self.version = version
        """Generation and version of the newest that is known of."""
        self.via = via
        self.due = due
        self.tries = 0
        self.asked = False


class Sections:
    """All that happens to sections."""

    def __init__(self, core: Core, spread: Spread) -> None:
        self._core = core
        self._spread = spread
        self._wanted: dict[tuple[bytes, int], _Wanted] = {}
        self._asks: dict[int, list[tuple[bytes, int]]] = {}
        self._next_ask = 0
        self._served = Allowance(_SERVED_A_SECOND)
        self.held_back = False
        """Whether a join is under way: its sync will bring most of what is missing."""

    def publish(self, kind: int, payload: bytes, now: float) -> bool:
        """Set our own section; False when it is what it was. Raises SectionTooLarge."""
        if len(payload) > SECTION_LIMIT:
            raise SectionTooLarge(kind, len(payload), SECTION_LIMIT)
        me = self._core.me
        held = me.sections.get(kind)
        if held is not None and held.payload == payload:
            return False
        version = 1 if held is None else held.version + 1
        section = Section(me.claim.generation, version, items.digest_of(payload), payload)
        me.sections = {**me.sections, kind: section}
        heads = {head.kind: head for head in me.row.heads}
        heads[kind] = Head(kind, version, section.digest)
        me.row = me.row._replace(heads=tuple(heads[known] for known in sorted(heads)))
        self._core.table.touch(me, now)
        self._core.changed(me.node_id, Change.SECTION, kind)
        self._spread.row(me.node_id, now, first=True)
        self._spread.section(me.node_id, kind, now)
        return True

    def noticed(self, entry: Entry, via: bytes, now: float) -> None:
        """The row names versions; want those that are newer than what is held."""
        generation = entry.claim.generation
        for head in entry.row.heads:
            held = entry.sections.get(head.kind)
            if held is not None and (held.generation, held.version) >= (generation, head.version):
                continue
            if held is not None and held.digest == head.digest:
                # The same bytes under a new version, as after a restart: nothing to fetch.
                self._hold(entry, head.kind, Section(generation, head.version, head.digest, held.payload), now)
                continue
            self._want((entry.node_id, head.kind), (generation, head.version), via, now)

    def take(self, item: SectionItem, now: float, *, relay: bool) -> bool:
        """Hold a section that arrived, if it is newer. `relay`: it came by gossip, so it goes on by gossip."""
        entry = self._core.table.get(item.node_id)
        if entry is None or entry is self._core.me or entry.reaped:
            return False
        section = item.section
        held = entry.sections.get(item.kind)
        if section.generation > entry.claim.generation:
            return False
        if held is not None and held[:3] >= section[:3]:
            return False
        self._hold(self._core.table.edit(item.node_id), item.kind, section, now)
        self._wanted.pop((item.node_id, item.kind), None)
        if relay:
            self._spread.section(item.node_id, item.kind, now)
        return True

    def _hold(self, entry: Entry, kind: int, section: Section, now: float) -> None:
        """Put a section in the place of an older one, and tell it where anybody is shown its node."""
        held = entry.sections.get(kind)
        entry.sections = {**entry.sections, kind: section}
        self._core.table.touch(entry, now)
        again = held is not None and held.payload == section.payload
        if entry.ghost or (again and held is not None and held.generation == section.generation):
            return
        self._core.changed(entry.node_id, Change.SECTION, kind, again=again)

    def missing(self, node_ids: list[bytes]) -> list[Want]:
        """What of these nodes is known of and not held: to be pulled from someone who is known to hold it."""
        return [want for node_id in node_ids for want in self._lacking(node_id)]

    def _lacking(self, node_id: bytes) -> list[Want]:
        entry = self._core.table.get(node_id)
        if entry is None or entry.reaped:
            return []
        generation = entry.claim.generation
        found: list[Want] = []
        for head in entry.row.heads:
            held = entry.sections.get(head.kind)
            if held is None or (held.generation, held.version) < (generation, head.version):
                found.append(Want(node_id, generation, head.kind, head.version))
        return found

    def _want(self, key: tuple[bytes, int], version: tuple[int, int], via: bytes, now: float) -> None:
        held = self._wanted.get(key)
        if held is not None and held.version == version:
            return  # news of another section of that node: this one waits, or is asked for, as before
        wait = spread_time(self._core.settings, self._core.table.size) * (1 + self._core.chance.random())
        self._wanted[key] = _Wanted(version, via, now + wait)
        self._core.wake(Purpose.PULL, wait)

    def pull_due(self, now: float) -> None:
        """A timer fired: ask for everything whose time has come, one ask for each holder."""
        if self.held_back:
            if self._wanted:
                self._core.wake(Purpose.PULL, spread_time(self._core.settings, self._core.table.size))
            return
        batches: dict[bytes, list[tuple[bytes, int]]] = {}
        for key, wanted in list(self._wanted.items()):
            if wanted.asked or wanted.due > now + 0.001:
                continue
            source = self._source(key[0], wanted)
            if source is None or not self._lacking(key[0]):
                del self._wanted[key]
            else:
                batches.setdefault(source, []).append(key)
        for source, keys in batches.items():
            if len(self._asks) >= _MOST_ASKS:
                return
            self._pull(source, keys[:_MOST_WANTS])

    def _source(self, owner: bytes, wanted: _Wanted) -> bytes | None:
        """First who named it, then anybody, then the owner; None when all of that was in vain."""
        if wanted.tries >= _MOST_TRIES:
            return None
        turn = wanted.tries % 3
        if turn == 0 and wanted.via in self._core.table.live:
            return wanted.via
        if turn == 1:
            return next(iter(self._core.table.live.sample(self._core.chance, 1)), None)
        return owner

    def _pull(self, source: bytes, keys: list[tuple[bytes, int]]) -> None:
        wants = [want for node_id, kind in keys for want in self._lacking(node_id) if want.kind == kind]
        for key in keys:
            self._wanted[key].tries += 1
            self._wanted[key].asked = True
        self.ask(source, wants, keys)

    def ask(self, source: bytes, wants: list[Want], keys: list[tuple[bytes, int]] | None = None) -> None:
        """Pull from a member over TCP."""
        entry = self._core.table.get(source)
        address = None if entry is None else entry.claim.address
        self._next_ask += 1
        self._asks[self._next_ask] = keys or []
        if address is None or not wants:
            self._finish(self._next_ask, 0.0)
            return
        payload = wire.message(wire.PULL, self._core.speaker, map(items.pack_want, wants))
        token = Token(Purpose.PULL, number=self._next_ask)
        self._core.ask(token, address, payload, _ASK_SECONDS)

    def answered(self, number: int, outcome: Outcome, now: float) -> None:
        """The reply of a pull."""
        reply = self._core.reply(outcome)
        if isinstance(reply, Pulled):
            for item in reply.items.sections:
                # What gossip missed others missed too, if a sync had to tell of it.
                self.take(item, now, relay=not self._asks.get(number))
        self._finish(number, now)

    def _finish(self, number: int, now: float) -> None:
        """Whatever of that pull is still wanted becomes due again soon: gossip had its time before the first."""
        wait = self._core.settings.gossip_tick * (1 + self._core.chance.random())
        for key in self._asks.pop(number, []):
            wanted = self._wanted.get(key)
            if wanted is not None:
                wanted.asked = False
                wanted.due = now + wait
        if self._wanted:
            self._core.wake(Purpose.PULL, wait)

    def serve(self, message: Pull, now: float) -> bytes:
        """The sections asked for, as far as they are held and fit; busy beyond the limit a second."""
        core = self._core
        if not self._served.take(now):
            core.count("pulls refused busy")
            return wire.message(wire.BUSY, core.speaker)
        room = wire.STREAM_BYTES // 2
        body: list[bytes] = []
        for want in message.items.wants[:_MOST_WANTS]:
            entry = core.table.get(want.node_id)
            held = None if entry is None else entry.sections.get(want.kind)
            if held is None or (held.generation, held.version) < (want.generation, want.version):
                continue
            data = items.pack_section(want.node_id, want.kind, held)
            room -= len(data)
            if room < 0:
                break
            body.append(data)
        return wire.message(wire.PULLED, core.speaker, body)

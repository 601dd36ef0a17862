"""What is claimed about others becomes what is shown of them: merging, suspicion, death, leaving, tombstones.

    claim alive           shown alive at once
    claim suspect         shown suspect until `since + timeout(confirmations)`, then dead
    claim dead, from others about a node shown alive or suspect:
                          shown suspect at most until `since + shortest`: everyone gets a chance to refute
    claim left            shown left at once

`since` is when this version of the claim first stopped being shown alive here; hearing it again changes nothing.
"""

from __future__ import annotations

import enum

from . import wire
from .core import Core
from .effects import Change, Purpose
from .items import pack_row
from .limits import Allowance
from .member import ACCUSER_BYTES, NO_SECTIONS, Address, Claim, Rank, State
from .messages import Head, Row, Speaker
from .precedence import capped, join, outdated, same_version
from .sections import Sections
from .selfrules import SelfRules
from .spread import Spread
from .suspicion import most_unconfirmed, shortest, timeout
from .table import Entry

# A timer may come this much early by the rounding of floats.
_ROUNDING = 0.001
# How often the accused of second-hand deaths are told, all together: a forger must not make us a cannon.
_WARNINGS_A_SECOND = 50
# Of all members, about so many ping a fresh suspect next: a dead one is soon confirmed, a living one soon refutes. Left
# to the rounds, the time that two more accusers take is the tail of every detection.
_SECOND_OPINIONS = 5
_EVENT = {State.SUSPECT: Change.SUSPECTED, State.DEAD: Change.FAILED, State.LEFT: Change.LEFT}


class Verdict(enum.Enum):
    """What became of a row."""

    NEWER = "taught something"
    KNOWN = "known"
    OUTDATED = "about an older version than the one held"
    IGNORED = "not believed from this sender"


class Liveness:
    """Merges rows into the table and moves what is shown."""

    def __init__(self, core: Core, spread: Spread, sections: Sections, selfrules: SelfRules) -> None:
        self._core = core
        self._spread = spread
        self._sections = sections
        self._selfrules = selfrules
        self._warnings = Allowance(_WARNINGS_A_SECOND)

    def hear(self, speaker: Speaker, address: Address | None, now: float) -> Verdict:
        """The sender of a packet speaks for itself. `address`: where it can be reached, None when that is not known."""
        entry = self._core.table.get(speaker.node_id)
        if entry is None:
            if address is None:
                return Verdict.IGNORED
            verdict = self.accept(Row(Claim(*speaker, Rank.ALIVE, address)), speaker.node_id, now)
        else:
            claim = entry.row.claim
            if claim.generation == speaker.generation and claim.incarnation == speaker.incarnation:
                verdict = Verdict.KNOWN if claim.rank is Rank.ALIVE else Verdict.OUTDATED
            elif address is None and speaker[1:] > (claim.generation, claim.incarnation):
                # A new version may come with a new address: its own row will tell.
                return Verdict.IGNORED
            else:
                row = Row(Claim(*speaker, Rank.ALIVE, address or claim.address))
                verdict = self.accept(row, speaker.node_id, now)
        entry = self._core.table.edit(speaker.node_id)
        entry.heard_at = now
        entry.hearsay = False
        self._core.heard_from(speaker.node_id)
        return verdict

    def accept(self, row: Row, via: bytes, now: float, age: int | None = None) -> Verdict:
        """Merge one row heard from `via`. `age`: seconds since the end, for the dead and left."""
        claim = row.claim
        if claim.node_id == self._core.identity.node_id:
            behind = outdated(claim, self._core.me.claim)
            # Whoever accuses us is answered at once; so is whoever holds what we were before.
            return Verdict.OUTDATED if self._selfrules.about_me(claim, now) or behind else Verdict.KNOWN
        entry = self._core.table.get(claim.node_id)
        if entry is None:
            return self._admit(row, via, now, age or 0)
        if row == entry.row:
            self._date(entry, now, age)
            verdict = Verdict.KNOWN
        else:
            verdict = self._merge(entry, row, via, now, age)
        if entry.hearsay:
            self._core.table.edit(claim.node_id).hearsay = False
        return verdict

    def _admit(self, row: Row, via: bytes, now: float, age: int) -> Verdict:
        core = self._core
        if age > core.settings.forget_after:
            return Verdict.IGNORED
        claim = capped(row.claim, core.settings.most_accusers)
        ended = claim.rank in {Rank.DEAD, Rank.LEFT}
        shown = State.ALIVE if not ended else State.DEAD if claim.rank is Rank.DEAD else State.LEFT
        entry = Entry(Row(claim, row.heads), shown, now)
        entry.ghost = ended
        entry.ended_at = now - age
        entry.reaped = ended and age > core.settings.reap_after
        core.table.add(entry, now)
        if ended:
            core.table.gone.add(claim.node_id)
        else:
            core.table.live.add(claim.node_id)
            core.table.grown_at = now
            core.changed(claim.node_id, Change.JOINED)
            if claim.rank is Rank.SUSPECT:
                entry.deadline = float("inf")
                self._suspect(entry, now)
                self._tell(entry, State.ALIVE)
            self._sections.noticed(entry, via, now)
        self._spread.row(claim.node_id, now)
        return Verdict.NEWER

    def _merge(self, entry: Entry, row: Row, via: bytes, now: float, age: int | None) -> Verdict:
        core = self._core
        held = entry.row
        claim = join(held.claim, row.claim, core.settings.most_accusers)
        heads = _newest(held, row, claim.generation)
        if claim is held.claim and heads == held.heads:
            self._date(entry, now, age)
            return Verdict.OUTDATED if outdated(row.claim, held.claim) else Verdict.KNOWN
        entry = core.table.edit(entry.node_id)
        was_reaped = entry.reaped
        entry.row = Row(claim, heads)
        if claim is not held.claim:
            self._settle(entry, held.claim, now, age)
        core.table.touch(entry, now)
        if heads != held.heads or claim.generation != held.claim.generation or was_reaped > entry.reaped:
            self._sections.noticed(entry, via, now)
        if entry.pending:
            self._warn(entry, now)
        else:
            # A refutation goes before everything else: each moment of it spares somebody a wrong death.
            self._spread.row(entry.node_id, now, first=claim.rank is Rank.ALIVE)
        return Verdict.NEWER

    def _settle(self, entry: Entry, before: Claim, now: float, age: int | None) -> None:
        """Move what is shown after the claim changed."""
        claim = entry.row.claim
        renewed = claim.generation > before.generation
        if renewed:
            entry.udp_broken = False
            if not entry.ghost:
                self._core.changed(entry.node_id, Change.REPLACED)
        if claim.address != before.address:
            entry.validated = None
            entry.rtt = None
            if not entry.ghost:
                self._core.changed(entry.node_id, Change.ADDRESS)
        if entry.shown is State.ALIVE or not same_version(claim, before):
            entry.since = now
            entry.deadline = float("inf")
        was = entry.shown
        if claim.rank is Rank.ALIVE:
            self._show(entry, State.ALIVE, now)
        elif claim.rank is Rank.LEFT:
            self._show(entry, State.LEFT, now)
        elif claim.rank is Rank.SUSPECT or (entry.live and not entry.hearsay):
            self._suspect(entry, now)
        else:
            # Also while we were away: it had its time to refute, and some have forgotten it by now.
            self._show(entry, State.DEAD, now)
        self._tell(entry, was, renewed=renewed)
        self._date(entry, now, age)

    def _suspect(self, entry: Entry, now: float) -> None:
        """Show it suspect and set its deadline; a second-hand death gives the shortest one."""
        settings, size = self._core.settings, self._core.table.size
        if entry.shown is State.ALIVE and self._core.chance.random() < _SECOND_OPINIONS / size:
            self._core.table.live.hasten(entry.node_id)
        self._show(entry, State.SUSPECT, now)
        if entry.row.claim.rank is Rank.DEAD:
            patience = shortest(settings, size)
        else:
            patience = timeout(settings, size, max(0, len(entry.row.claim.accusers) - 1))
        deadline = entry.since + patience
        if deadline < entry.deadline:
            entry.deadline = deadline
            self._core.wake(Purpose.SUSPICION, deadline - now, key=entry.node_id)

    def _show(self, entry: Entry, state: State, now: float) -> None:
        if state is entry.shown:
            return
        table, node_id = self._core.table, entry.node_id
        entry.shown = state
        entry.shown_at = now
        (table.suspects.add if state is State.SUSPECT else table.suspects.discard)(node_id)
        if entry.live:
            table.gone.discard(node_id)
            if node_id not in table.live:
                table.live.add(node_id)
                table.grown_at = now
            entry.reaped = False
        else:
            table.live.discard(node_id)
            table.gone.add(node_id)
            entry.ended_at = now

    def _tell(self, entry: Entry, was: State, *, renewed: bool = False) -> None:
        """One event for what watchers see; none for a tombstone that was never shown."""
        if entry.ghost:
            if not entry.live:
                return
            entry.ghost = False
            self._core.changed(entry.node_id, Change.JOINED)
        elif entry.shown is State.ALIVE and was is not State.ALIVE and not renewed:
            self._core.changed(entry.node_id, Change.REFUTED)
        if entry.shown is not was and entry.shown in _EVENT:
            self._core.changed(entry.node_id, _EVENT[entry.shown])

    def _date(self, entry: Entry, now: float, age: int | None) -> None:
        """Ages of the dead merge by maximum, so that a tombstone is not kept for ever by hearsay."""
        if age is not None and not entry.live:
            entry.ended_at = min(entry.ended_at, now - age)
            if age >= self._core.settings.reap_after and not entry.reaped:
                self._reap(entry, entry.ended_at, now)

    def _warn(self, entry: Entry, now: float) -> None:
        """Tell the accused of a second-hand death at once what is said of it."""
        place = entry.row.claim.address
        if place is not None and self._warnings.take(now):
            core = self._core
            accusation = core.message(wire.GOSSIP, (pack_row(entry.row),))
            core.send(accusation, place)

    def accuse(self, node_id: bytes, now: float) -> None:
        """Our own probe of it failed, and we may say so."""
        entry = self._core.table.get(node_id)
        if entry is None or not entry.live:
            return
        claim = entry.row.claim
        mine = self._core.identity.node_id[:ACCUSER_BYTES]
        self.accept(entry.row._replace(claim=claim._replace(rank=Rank.SUSPECT, accusers=(mine,))), node_id, now)
        self._spread.burst(self._core.settings.fanout, now)

    def may_accuse_unconfirmed(self) -> bool:
        """Within the budget of open suspicions that nobody else confirmed."""
        table = self._core.table
        mine = (self._core.identity.node_id[:ACCUSER_BYTES],)
        alone = 0
        for node_id in table.suspects:
            entry = table.get(node_id)
            alone += entry is not None and entry.row.claim.accusers == mine
        return alone < most_unconfirmed(table.size)

    def expire(self, node_id: bytes, now: float) -> None:
        """A suspicion's timer fired; state and deadline are what they are by now."""
        entry = self._core.table.get(node_id)
        if entry is None or entry.shown is not State.SUSPECT or now < entry.deadline - _ROUNDING:
            return
        entry = self._core.table.edit(node_id)
        entry.row = entry.row._replace(claim=entry.row.claim._replace(rank=Rank.DEAD, accusers=()))
        self._show(entry, State.DEAD, now)
        self._tell(entry, State.SUSPECT)
        self._core.table.touch(entry, now)
        self._spread.row(node_id, now)

    def restart_suspicions(self, now: float) -> None:
        """After a gap: whatever was suspected gets its full time again."""
        for node_id in list(self._core.table.suspects):
            entry = self._core.table.edit(node_id)
            entry.since = now
            entry.deadline = float("inf")
            self._suspect(entry, now)

    def forget(self, entry: Entry, now: float) -> None:
        """An operator's word: gone for good, as if long ago. If it lives, it will outdo that."""
        core = self._core
        entry = core.table.edit(entry.node_id)
        was = entry.shown
        entry.row = entry.row._replace(claim=entry.row.claim._replace(rank=Rank.LEFT, accusers=()))
        self._show(entry, State.LEFT, now)
        if was is not State.LEFT:
            self._tell(entry, was)
        self._reap(entry, now - core.settings.reap_after, now)
        self._spread.row(entry.node_id, now, first=True)

    def reap(self, now: float) -> None:
        """Drop what is long dead: first its sections, much later the tombstone."""
        settings = self._core.settings
        for node_id in list(self._core.table.gone):
            entry = self._core.table.edit(node_id)
            age = now - entry.ended_at
            if age >= settings.reap_after and not entry.reaped:
                self._reap(entry, entry.ended_at, now)
            if age >= settings.forget_after:
                self._core.table.remove(node_id, now)
                self._spread.rows.discard(node_id)

    def _reap(self, entry: Entry, ended_at: float, now: float) -> None:
        entry.ended_at = min(entry.ended_at, ended_at)
        entry.reaped = True
        entry.sections = NO_SECTIONS
        entry.vitals = None
        if not entry.ghost:
            entry.ghost = True
            self._core.changed(entry.node_id, Change.FORGOTTEN)
        self._core.table.touch(entry, now)


def _newest(held: Row, offered: Row, generation: int) -> tuple[Head, ...]:
    """The section versions to hold with a claim of that generation: the greatest of each kind."""
    mine = held.heads if held.claim.generation == generation else ()
    theirs = offered.heads if offered.claim.generation == generation else ()
    if mine == theirs or not theirs:
        return mine
    best = {head.kind: head for head in mine}
    for head in theirs:
        if head.kind not in best or head > best[head.kind]:
            best[head.kind] = head
    return tuple(best[kind] for kind in sorted(best))

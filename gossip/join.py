"""Joining: every seed is asked for a sync, resolved again at each try, with a jittered back-off, for ever.

A busy seed names members to ask instead. Addresses remembered from an earlier run are asked like seeds, so that a
whole cluster that went down comes up again without any; those at which nobody was found are looked for further on, as
the dead are, because whoever lives there may have come up apart from us.
"""

from __future__ import annotations

from collections.abc import Iterable

from .address import text
from .core import Core
from .effects import Outcome, Purpose, ResolveSeeds, TimedOut, Token
from .member import Address, State
from .messages import Busy, Flag, Synced
from .pages import Ending, Session
from .spread import Spread
from .strangers import Strangers
from .sync import Syncer

_AT_ONCE = 3  # seeds asked in parallel
_MOST_REMEMBERED = 3  # remembered addresses of one try
_ASK_SECONDS = 5.0
_BUSY_PAUSE = (0.05, 0.15)
_REDIRECT = -1  # number of the timer of that pause
# A first vain try is usual where all start at once; with the longest pause of lan this is about once a minute.
_NOTED_TRIES = 6
_FIRST_PAUSE = 0.5  # doubles at each vain try, up to the retry interval
# Addresses of lost members kept for the next start where fewer live: enough to find the rest of a cluster, few enough
# that a start which asks some of all finds a living one soon.
_FEWEST_LOST = 8


class Joiner:
    """Finds the cluster and stays in touch with its seeds."""

    def __init__(self, core: Core, spread: Spread, syncer: Syncer, strangers: Strangers) -> None:
        self._core = core
        self._spread = spread
        self._syncer = syncer
        self._strangers = strangers
        self.remembered: list[Address] = []
        self.seeds: list[Address] = []
        self.joined = False
        self._asked: dict[int, tuple[Address, int]] = {}
        self._waiting: list[Address] = []
        self._redirected: list[Address] = []
        self._number = 0
        self._tries = 0
        self._retry: int | None = None
        """Number of the armed retry timer."""
        self._seeded = False
        """Whether seeds were ever asked for: the shell knows their names, we only their addresses."""
        self._healing = False
        self._remembered_at: float | None = None
        self._paging: list[Session] = []

    def join(self) -> None:
        """Ask all seeds, whether joined or not."""
        self._healing = False
        self._seeded = True
        self._syncer.sections.held_back = not self.joined
        self._core.emit(ResolveSeeds())

    def resolved(self, addresses: Iterable[Address], now: float) -> None:
        """The seeds' addresses at this moment."""
        core = self._core
        found = list(dict.fromkeys(addresses))
        self.seeds = [address for address in found if address != core.address]
        if self._healing:
            self._healing = False
            unreached = self.unreached()
            if unreached:
                self._strangers.ping(core.chance.choice(unreached), now)
            return
        if found and not self.seeds:
            self.met()
        self._waiting = core.chance.sample(self.seeds, len(self.seeds))
        if not self.joined:
            self._waiting = list(dict.fromkeys(self._waiting + self._others()))
        self._ask_next()

    def _others(self) -> list[Address]:
        """Whom to ask beside the seeds: some that an earlier run knew; after a vain try, whoever found us meanwhile."""
        core = self._core
        known = core.chance.sample(self.remembered, min(_MOST_REMEMBERED, len(self.remembered)))
        met = [core.table.get(node_id) for node_id in core.table.live.sample(core.chance, 1 if self._tries else 0)]
        return known + [each.claim.address for each in met if each is not None and each.claim.address is not None]

    def unreached(self) -> list[Address]:
        """Seeds at whose address no live member is known, and remembered addresses at which nobody ever was."""
        there = {entry.claim.address for entry in self._core.table if entry.live}
        return list(dict.fromkeys([address for address in self.seeds if address not in there] + self._unheard_of()))

    def _unheard_of(self) -> list[Address]:
        """Remembered addresses of no member that is known; the dead are looked for by themselves."""
        if not self.remembered:
            return []
        known = {entry.claim.address for entry in self._core.table}
        return [address for address in self.remembered if address not in known]

    def sought(self) -> int:
        """How many places there are to look at again: the unreached, and at any time what the seeds' names stand for.

        A name that could not be looked up, or that another machine has by now, shows in no address of ours.
        """
        return max(len(self.unreached()), int(self._seeded))

    def snapshot(self) -> tuple[Address, ...]:
        """What the next run is to ask: where members live, and where the lost were, which may live apart from us."""
        table = self._core.table
        entries = [entry for entry in map(table.get, table.live) if entry is not None]
        gone = [entry for entry in map(table.get, table.gone) if entry is not None]
        dead = [entry for entry in gone if entry.shown is State.DEAD]
        dead.sort(key=lambda entry: -entry.ended_at)
        lost = [*(entry.claim.address for entry in dead), *self._unheard_of()]
        lost = lost[: max(_FEWEST_LOST, len(entries))]
        places = dict.fromkeys([*(entry.claim.address for entry in entries), *lost])
        return tuple(address for address in places if address is not None)

    def reap(self, now: float) -> None:
        """Where nobody was found for as long as the dead are looked for, nobody is looked for any longer."""
        if self._remembered_at is None:
            self._remembered_at = now
        lost = now - self._remembered_at >= self._core.settings.forget_after
        self.remembered = [] if lost else self._unheard_of()

    def heal_seed(self) -> None:
        """Look up the seeds again and ping an address that was not reached."""
        self._healing = True
        self._core.emit(ResolveSeeds())

    def met(self) -> None:
        """We are part of something: a sync went through, in either direction, or we are the only seed."""
        self.joined = True
        self._tries = 0
        self._syncer.sections.held_back = False

    def retry(self, number: int) -> None:
        """A pause is over."""
        if number == _REDIRECT:
            self._waiting += self._redirected
            self._redirected = []
            self._ask_next()
        elif number == self._retry:
            self._retry = None
            if not self.joined:
                self._core.emit(ResolveSeeds())

    def _ask_next(self) -> None:
        while self._waiting and len(self._asked) < _AT_ONCE:
            address = self._waiting.pop(0)
            if address != self._core.address and not (self.joined and self.is_member(address)):
                self._ask(address, 0)
        busy = self._asked or self._waiting or self._redirected
        if not busy and not self.joined and self._retry is None:
            self._tries += 1
            if self._tries % _NOTED_TRIES == 2:
                tried = ", ".join(map(text, self.seeds)) or "none with an address"
                self._core.note(
                    "join.failed", tries=self._tries, seeds=tried, hint="same cluster and key, address, firewall?"
                )
            pause = min(self._core.settings.retry_interval, _FIRST_PAUSE * 2 ** min(self._tries, 16))
            self._number += 1
            self._retry = self._number
            self._core.wake(Purpose.JOIN, pause * (0.5 + self._core.chance.random()), number=self._number)

    def is_member(self, address: Address) -> bool:
        """Whether a live member is known there."""
        return any(entry.claim.address == address and entry.live for entry in self._core.table)

    def _ask(self, address: Address, cursor: int) -> None:
        self._number += 1
        self._asked[self._number] = (address, cursor)
        request = self._syncer.request(joining=not self._core.table.live, cursor=cursor)
        self._core.ask(Token(Purpose.JOIN, number=self._number), address, request, _ASK_SECONDS)

    def answered(self, number: int, outcome: Outcome, now: float) -> None:
        """A seed's reply."""
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        address, cursor = asked
        reply = self._core.reply(outcome)
        if isinstance(reply, Synced):
            self._take(reply, address, cursor, now)
        elif isinstance(reply, Busy):
            self._redirect([row.claim.address for row in reply.items.rows])
        elif not self.joined and (isinstance(outcome, TimedOut) or self._tries):
            self._page(address, now)
        self._ask_next()

    def _page(self, address: Address, now: float) -> None:
        """TCP does not go through to that seed: perhaps datagrams do. Meanwhile the streams are tried again."""
        session = self._syncer.pager.begin(address, joining=not self._core.table.live, now=now)
        if session is not None:
            self._paging.append(session)

    def paged(self, ended: Session, now: float) -> None:
        """An exchange by pages ended, perhaps ours."""
        if ended not in self._paging:
            return
        self._paging.remove(ended)
        if ended.ending is Ending.COMPLETE:
            self._complete(now, stale=ended.stale)
        elif ended.ending is Ending.BUSY:
            self._redirect(ended.busy)

    def _take(self, reply: Synced, address: Address, cursor: int, now: float) -> None:
        # What a first join teaches is known to all the others: it is not news to pass on.
        self._spread.muted = not self.joined
        self._syncer.absorb(reply, cursor, now)
        self._spread.muted = False
        if reply.items.cursor:
            self._ask(address, reply.items.cursor)
            return
        self._complete(now, stale=bool(reply.flags & Flag.STALE))

    def _complete(self, now: float, *, stale: bool) -> None:
        """A sync with a seed went through."""
        first = not self.joined
        self.met()
        self._syncer.informed(now, stale=stale)
        if first:
            core = self._core
            self._spread.row(core.me.node_id, now, first=True)
            self._spread.burst(core.settings.fanout, now)
            core.wake(Purpose.EXTRA, core.settings.extra_sync_after * (0.8 + 0.4 * core.chance.random()))

    def _redirect(self, named: Iterable[Address | None]) -> None:
        """Ask one of the members that it named, after a moment and without back-off."""
        core = self._core
        offered = [address for address in named if address is not None and address != core.address]
        if offered or self.seeds:
            self._redirected.append(core.chance.choice(offered or self.seeds))
            low, high = _BUSY_PAUSE
            core.wake(Purpose.JOIN, low + (high - low) * core.chance.random(), number=_REDIRECT)

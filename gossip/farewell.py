"""Leaving: saying goodbye, and staying for a while to answer pings with it.

It is said again until the end. Where many leave at once, the first goodbyes go mostly to others that leave: they have
said their own by the last one, so that it goes to those who stay.
"""

from __future__ import annotations

from . import wire
from .core import Core
from .effects import Change, Left, Purpose
from .member import Rank, State
from .spread import Spread

_SECONDS = 2.0  # pings are answered as left for this long
_TIMES = 4  # it is said in this time
_BURSTS = 3  # fanouts to which it is told each time


class Farewell:
    """The end of a node's life in the cluster."""

    def __init__(self, core: Core, spread: Spread) -> None:
        self._core = core
        self._spread = spread

    def begin(self, now: float) -> None:
        """Say goodbye; `Left` follows. Once is enough."""
        core = self._core
        if core.leaving:
            return
        core.leaving = True
        core.me.row = core.me.row._replace(claim=core.me.claim._replace(rank=Rank.LEFT))
        core.me.shown, core.me.shown_at = State.LEFT, now
        core.changed(core.me.node_id, Change.LEFT)
        core.table.touch(core.me, now)
        self._spread.row(core.me.node_id, now, first=True)
        self._spread.burst(_BURSTS * core.settings.fanout, now)
        if core.table.live:
            core.wake(Purpose.LEAVE, _SECONDS / _TIMES, number=_TIMES - 1)
        else:
            core.wake(Purpose.LEAVE, 0.0)

    def again(self, left: int) -> None:
        """Another part of the time is over; so many are left."""
        core = self._core
        if not left:
            core.emit(Left())
            return
        core.wake(Purpose.LEAVE, _SECONDS / _TIMES, number=left - 1)
        if core.paused:
            return
        goodbye = core.message(wire.GOSSIP, (core.table.packed(core.me),))
        for node_id in core.table.live.sample(core.chance, _BURSTS * core.settings.fanout):
            entry = core.table.get(node_id)
            if entry is not None and entry.claim.address is not None:
                core.send(goodbye, entry.claim.address)

"""What a node does that was away: suspended, stopped, late, or cut off.

After any gap it accuses nobody until a sync has told what happened meanwhile; if none succeeds, for one sync interval.
After an hour it is also `stale`: it teaches nothing but itself, and its rows are addresses to ask until a sync with a
node that is not stale. What that one does not confirm is dropped: it may have been buried and forgotten long ago.
"""

from __future__ import annotations

from collections.abc import Iterable

from .core import Core
from .effects import Change
from .items import BUCKETS
from .table import NEVER, bucket_of, differing_buckets

STALE_SECONDS = 3600.0


class Absence:
    """Gaps, and how they end."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._in_contact_since: float | None = None

    def begin(self, seconds: float, now: float) -> None:
        """This node was away for so long."""
        core = self._core
        if core.table.live:
            core.accuse_after = now + core.settings.sync_interval
        if seconds >= STALE_SECONDS:
            self._doubt_everything()

    def _doubt_everything(self) -> None:
        core = self._core
        self._in_contact_since = None
        if core.stale or len(core.table) == 1:
            return
        core.stale = True
        core.note("rows.doubted", members=len(core.table) - 1)
        for node_id in [entry.node_id for entry in core.table if entry is not core.me]:
            core.table.edit(node_id).hearsay = True

    def tick(self, now: float) -> bool:
        """Once an interval: notice a long silence. True while somebody is to be asked what we missed."""
        core = self._core
        if core.health.silence(now) >= STALE_SECONDS:
            self._doubt_everything()
        if core.stale:
            self._wait(now)
        return core.stale or now < core.accuse_after

    def _wait(self, now: float) -> None:
        """Where everybody is stale, as after a night of all machines, our rows are as good as any."""
        core = self._core
        if core.health.isolated or not core.table.live:
            self._in_contact_since = None
        elif self._in_contact_since is None:
            self._in_contact_since = now
        elif now - self._in_contact_since >= core.settings.sync_interval:
            self._trust(drop=False, now=now)

    def confirmed(self, hashes: Iterable[int], *, start: int = 0, stop: int = BUCKETS) -> None:
        """A reply that covers these buckets was taken in, from a node that is not stale: equal ones need no doubt."""
        core = self._core
        if not core.stale:
            return
        unequal = differing_buckets(core.table.buckets, hashes)
        for entry in core.table:
            if entry.hearsay and bucket_of(entry.node_id) not in unequal and start <= bucket_of(entry.node_id) < stop:
                core.table.edit(entry.node_id).hearsay = False

    def informed(self, now: float, *, stale: bool) -> None:
        """A sync is complete; `stale`: with a node that was away itself."""
        self._core.accuse_after = NEVER
        if self._core.stale and not stale:
            self._trust(drop=True, now=now)

    def _trust(self, *, drop: bool, now: float) -> None:
        core = self._core
        core.stale = False
        for node_id in [entry.node_id for entry in core.table if entry.hearsay]:
            entry = core.table.edit(node_id)
            entry.hearsay = False
            if drop:
                core.table.remove(node_id, now)
                if not entry.ghost:
                    core.changed(node_id, Change.FORGOTTEN)

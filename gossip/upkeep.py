"""What is done once an interval: the next probe, the judgement of silence, healing, and the reaping of the dead."""

from __future__ import annotations

from .core import Core
from .effects import Isolation, Purpose
from .join import Joiner
from .liveness import Liveness
from .member import State
from .probe import Prober
from .suspicion import shortest
from .sync import Syncer
from .table import NEVER

_REAP_PAUSE = 60.0  # seconds between looks at the tombstones
# Of the looks for the lost, so many are for those lost for more than a day: where machines come and go they are many
# and do not come back, and must not keep us from a part of the cluster that was cut off today.
_LONG_GONE_SHARE = 0.25


class Upkeep:
    """The periodic part of a node: one timer for all of it."""

    def __init__(self, core: Core, liveness: Liveness, prober: Prober, joiner: Joiner, syncer: Syncer) -> None:
        self._core = core
        self._liveness = liveness
        self._prober = prober
        self._joiner = joiner
        self._syncer = syncer
        self._heal_at = NEVER
        self._reaped_at = NEVER

    def tick(self, now: float) -> None:
        core = self._core
        if core.leaving:
            return
        core.wake(Purpose.PROBE, core.settings.probe_interval * core.health.stretch)
        # Where nobody is left to be heard, silence tells nothing: the last peer may have left politely.
        if core.table.live and core.health.listen(now, shortest(core.settings, core.table.size)):
            core.emit(Isolation(isolated=True))
        if self._syncer.absence.tick(now):
            self._syncer.with_anyone()
        if not core.paused:
            self._prober.tick(now)
        if now >= self._heal_at:
            self._heal(now)
        if now - self._reaped_at >= _REAP_PAUSE:
            self._reaped_at = now
            self._liveness.reap(now)
            self._joiner.reap(now)

    def _heal(self, now: float) -> None:
        """Now and then one dead member, unreached seed or unfound address is pinged, for ever: partitions end."""
        core = self._core
        first = self._heal_at == NEVER
        self._heal_at = now + core.settings.retry_interval * (0.8 + 0.4 * core.chance.random())
        if first:
            return
        entries = [core.table.get(node_id) for node_id in core.table.gone]
        dead = [entry for entry in entries if entry is not None and entry.shown is State.DEAD and not entry.reaped]
        long_gone = [entry for entry in entries if entry is not None and entry.shown is State.DEAD and entry.reaped]
        sought = self._joiner.sought() if self._joiner.joined else 0
        if long_gone and (not (dead or sought) or core.chance.random() < _LONG_GONE_SHARE):
            dead, sought = long_gone, 0
        lost = len(dead) + sought
        if not lost or core.chance.random() >= lost / core.table.size:
            return
        chosen = core.chance.randrange(lost)
        if chosen < len(dead):
            self._prober.heal(dead[chosen], now)
        else:
            self._joiner.heal_seed()

"""What callers of this agent learned of nodes: kept on disk, told to the cluster, and joined with what others learned.

Each node publishes only what it recorded itself. A failure that another node recorded is lifted by publishing the same
record overridden: of two that hold equally long the overridden one counts, and a later failure holds longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

import attrs
import structlog
import trio

from ..placement.failures import FailureRecord, Failures, FailureScope
from ..placement.history import History, HistoryRefused, history_from_plain, history_to_plain, joined
from ..placement.observations import Observation
from ..placement.state import NO_STATE, ClusterState
from .errors import StateUnusable
from .payloads import HistoryPayload
from .state import StateDirectory

log = structlog.get_logger("shoal.agent")

_HISTORY = "history"
# A busy runtime records many runs a second; disk and cluster hear of them together. The first after a pause goes out
# at once.
TELL_SECONDS = 2.0
# Joining the histories of a big cluster takes some milliseconds: what others learned counts at the latest after this
# long. What was recorded here counts at once.
JOIN_SECONDS = 1.0


@attrs.frozen
class _Joined:
    """The histories of all nodes as one; `others` are those that it was made of beside our own, `at` says when."""

    others: Mapping[str, History]
    state: ClusterState
    at: float


class Histories:
    """This node's history, and the state that placements use. `others` gives the histories of the other nodes.

    That mapping is never changed: a new one takes its place. Recording and lifting belong to trio's thread; `state`
    may be asked in any. Times are Unix seconds, whole ones, as they travel.
    """

    def __init__(
        self,
        state: StateDirectory | None,
        publish: Callable[[bytes], None],
        others: Callable[[], Mapping[str, History]],
    ) -> None:
        self._state = state
        self._publish = publish
        self._others = others
        self._lock = threading.Lock()
        self._own = _stored(state)
        self._pending: list[Observation] = []
        self._joined: _Joined | None = None
        self._untold = trio.Event()
        self._told: bytes | None = None

    @property
    def own(self) -> History:
        """What was recorded here."""
        with self._lock:
            return self._folded()

    def state(self, now: float, unix: float) -> ClusterState:
        """What the whole cluster remembers, for a placement at `now` (the view's clock), which is `unix`.

        Own records count at once, those of others at most `JOIN_SECONDS` late.
        """
        return attrs.evolve(self._all(now), epoch=unix - now)

    def observe(self, seen: Observation) -> None:
        """Remember a run; one that went well clears what is held against exactly its node and class of work."""
        with self._lock:
            self._pending.append(attrs.evolve(seen.normalised(), observed_at=float(int(seen.observed_at))))
        if seen.success:
            self._succeeded(
                FailureScope(node=seen.scope.node, workload_class=seen.scope.workload_class), seen.observed_at
            )
        self._untold.set()

    def fail(self, scope: FailureScope, failure_class: str, unix: float) -> FailureRecord | None:
        """Remember a failure; answers what is held against the scope now, by all nodes together."""
        failures = self.own.failures.recorded(scope, failure_class, float(int(unix)))
        self._record(failures, failures.get(scope))
        return self.failures.get(scope)

    def lift(self, scope: FailureScope) -> None:
        """Set aside what is held of exactly this scope, whoever recorded it."""
        held = self.failures.get(scope)
        if held is not None:
            overridden = attrs.evolve(held, overridden=True)
            self._record(self.own.failures.succeeded(scope).merged([overridden]), overridden)

    @property
    def failures(self) -> Failures:
        """What all nodes hold against nodes."""
        return self._all(None).failures

    def tell(self) -> None:
        """Publish what is remembered, when it is something, or was."""
        own = self.own
        payload = HistoryPayload(own).encode()
        if payload != self._told and (self._told is not None or own.observations or own.failures):
            self._told = payload
            self._publish(payload)

    def close(self) -> None:
        """Store what `run` has not stored yet."""
        if self._untold.is_set():
            self.save()

    def save(self) -> None:
        """Store it all. A disk that refuses is reported: what is remembered still counts until the stop."""
        if self._state is not None:
            try:
                self._state.save(_HISTORY, history_to_plain(self.own))
            except StateUnusable as error:
                log.warning("history.not_saved", error=error.message)

    async def run(self) -> None:
        """Tell and store what is recorded, together for `TELL_SECONDS`."""
        while True:
            await self._untold.wait()
            self._untold = trio.Event()
            with self._lock:
                self._own = _pruned(self._folded(), time.time())
            self.tell()
            if self._state is not None:
                await trio.to_thread.run_sync(self.save)
            await trio.sleep(TELL_SECONDS)

    def _folded(self) -> History:
        """Our own history with the runs since merged in. Only under the lock."""
        if self._pending:
            runs, self._pending = self._pending, []
            self._own = attrs.evolve(self._own, observations=self._own.observations.merged(runs))
            if self._joined is not None:
                state = self._joined.state
                state = attrs.evolve(state, observations=state.observations.merged(runs))
                self._joined = attrs.evolve(self._joined, state=state)
        return self._own

    def _record(self, failures: Failures, new: FailureRecord | None) -> None:
        """Take these failures for our own; `new` is the one that was not among them, None when some went away."""
        with self._lock:
            self._own = attrs.evolve(self._folded(), failures=failures)
            joined = self._joined
            if joined is not None and new is not None:
                state = attrs.evolve(joined.state, failures=joined.state.failures.merged((new,)))
                self._joined = attrs.evolve(joined, state=state)
            else:
                self._joined = None
        self._untold.set()

    def _all(self, now: float | None) -> ClusterState:
        """Everything joined; without a `now` the last word of others too."""
        others = self._others()
        with self._lock:
            own, held = self._folded(), self._joined
        if held is not None and (held.others is others or (now is not None and now - held.at < JOIN_SECONDS)):
            return held.state
        made = _Joined(others, _state_of([*others.values(), own]), float("-inf") if now is None else now)
        with self._lock:
            # Joining takes a while: what was recorded meanwhile is not in it, and is by the next time.
            if self._folded() is own:
                self._joined = made
        return made.state

    def _succeeded(self, scope: FailureScope, unix: float) -> None:
        own = self._own.failures.get(scope)
        others = [history.failures.get(scope) for history in self._others().values() if history.failures]
        if any(record is not None and record.is_active(unix) for record in others):
            self.lift(scope)
        elif own is not None:
            self._record(self._own.failures.succeeded(scope), None)


def _state_of(histories: Iterable[History]) -> ClusterState:
    everything = joined(history for history in histories if history.observations or history.failures)
    if not everything.observations and not everything.failures:
        return NO_STATE
    return ClusterState(observations=everything.observations, failures=everything.failures)


def _pruned(history: History, unix: float) -> History:
    """Without what is too old to count. Overridden failures stay until they would have ended by themselves."""
    return History(
        observations=history.observations.pruned(unix),
        failures=Failures(record for record in history.failures if record.expires_at > unix),
    )


def _stored(state: StateDirectory | None) -> History:
    value = state.load(_HISTORY) if state is not None else None
    if state is None or value is None:
        return History()
    try:
        return _pruned(history_from_plain(value), time.time())
    except HistoryRefused as error:
        state.set_aside(_HISTORY, str(error))
        return History()

"""What went wrong lately, and where it must not be tried again soon.

A record's scope names what it is about: a node, a class of work, a tool, ...; the narrowest active record decides.
Records of equal narrowness are ordered by severity, then count, then key, so that the same call always answers the
same. Times are seconds of the clock that `ClusterState.epoch` relates to `now`. All values are immutable.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import attrs

from .text import folded

_DAY = 24 * 3600.0
_LONGEST = 7 * _DAY

# An agent remembers this many scopes; the first to expire goes first.
MAX_FAILURES = 1024


class FailureClass(enum.StrEnum):
    """Why a run failed. The first four block the node for the scope, the others only cost fit score."""

    EXEC_CRASH = "exec-crash"
    THERMAL = "thermal-failure"
    BATTERY = "battery-failure"
    BACKEND_MISFIT = "backend-misfit"
    TOOL_MISSING = "tool-missing"
    RESOURCE_EXHAUSTION = "resource-exhaustion"
    NETWORK = "network-failure"
    TIMEOUT = "timeout"
    OPERATOR_ABORT = "operator-abort"
    UNKNOWN = "unknown"


BLOCKING = frozenset((FailureClass.EXEC_CRASH, FailureClass.THERMAL, FailureClass.BATTERY, FailureClass.BACKEND_MISFIT))
_SEVERE = 100
_MIDDLING = 50
_MILD = 10


def severity(failure_class: str) -> int:
    if failure_class in BLOCKING:
        return _SEVERE
    return _MIDDLING if failure_class in (FailureClass.TIMEOUT, FailureClass.NETWORK) else _MILD


def backoff_seconds(count: int) -> float:
    """How long the count-th failure of a scope is held against it: 1, 2, 4, then 7 days."""
    # Three doublings already pass the longest; the bound keeps huge counts from huge powers.
    return min(_LONGEST, _DAY * 2.0 ** min(max(count - 1, 0), 3))


@attrs.frozen(kw_only=True)
class FailureScope:
    """What a failure is about; an empty field matches anything."""

    node: str = ""
    workload_class: str = ""
    tool: str = ""
    backend: str = ""
    surface: str = ""

    @property
    def fields(self) -> tuple[str, str, str, str, str]:
        return self.node, self.workload_class, self.tool, self.backend, self.surface

    @property
    def narrowness(self) -> int:
        return sum(1 for field in self.fields if field)

    def normalised(self) -> FailureScope:
        node, workload_class, tool, backend, surface = map(folded, self.fields)
        return FailureScope(node=node, workload_class=workload_class, tool=tool, backend=backend, surface=surface)

    def may_be_about(self, workload_class: str) -> bool:
        """Whether it matches some node and this class of work (lower-cased): what a placement looks for."""
        if self.tool or self.backend or self.surface:
            return False
        return not self.workload_class or self.workload_class.lower() == workload_class

    def matches(self, target: FailureScope) -> bool:
        """Whether every field that is given equals the target's; case does not matter, spaces do."""
        pairs = zip(self.fields, target.fields, strict=True)
        return all(not mine or mine.lower() == other.lower() for mine, other in pairs)


@attrs.frozen(kw_only=True)
class FailureRecord:
    """One remembered scope: the worst class seen, how often, and until when it counts."""

    scope: FailureScope
    failure_class: str = attrs.field(converter=str)
    count: int = 1
    expires_at: float = 0.0
    overridden: bool = False

    @property
    def is_blocking(self) -> bool:
        return self.failure_class in BLOCKING

    def is_active(self, now: float) -> bool:
        return not self.overridden and self.expires_at > now

    def order(self) -> tuple[int, int, int, tuple[str, ...]]:
        """Sorts the record that decides first."""
        return -self.scope.narrowness, -severity(self.failure_class), -self.count, self.scope.fields


class Failures:
    """Every remembered failure, immutable. Truth is "holds something"."""

    __slots__ = ("_by_scope", "_records")

    def __init__(self, records: Iterable[FailureRecord] = ()) -> None:
        held = tuple(records)
        if len(held) > MAX_FAILURES:
            held = tuple(sorted(held, key=lambda record: record.expires_at)[-MAX_FAILURES:])
        self._records = held
        self._by_scope: dict[FailureScope, FailureRecord] | None = None

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[FailureRecord]:
        return iter(self._records)

    def get(self, scope: FailureScope) -> FailureRecord | None:
        """The record of exactly this scope."""
        return self._scopes().get(scope.normalised())

    def recorded(self, scope: FailureScope, failure_class: str, now: float) -> Failures:
        """These and one more failure; a milder class does not replace a worse one."""
        held = self.get(scope)
        count, worst = 1, failure_class
        if held is not None:
            count = held.count + 1
            worst = failure_class if severity(failure_class) >= severity(held.failure_class) else held.failure_class
        record = FailureRecord(
            scope=scope.normalised(), failure_class=worst, count=count, expires_at=now + backoff_seconds(count)
        )
        return Failures((*self._without(scope), record))

    def succeeded(self, scope: FailureScope) -> Failures:
        """Without the record of exactly this scope: it works again."""
        return Failures(self._without(scope))

    def overridden(self, scope: FailureScope, now: float) -> Failures:
        """With the record of this scope set aside by an operator; it stays visible until it is pruned."""
        held = self.get(scope)
        if held is None:
            return self
        return Failures((*self._without(scope), attrs.evolve(held, overridden=True, expires_at=now)))

    def pruned(self, now: float) -> Failures:
        return Failures(record for record in self._records if record.is_active(now))

    def narrowest(self, target: FailureScope, now: float) -> FailureRecord | None:
        """The active record that decides for the target; a narrow mild one hides a broad blocking one."""
        active = (record for record in self._records if record.is_active(now) and record.scope.matches(target))
        return min(active, key=FailureRecord.order, default=None)

    def deciding(self, workload_class: str, now: float) -> Deciding:
        """The same question for many nodes and one class of work."""
        return Deciding(self._records, workload_class, now)

    def merged(self, other: Iterable[FailureRecord]) -> Failures:
        """Both together, per scope the one that holds longer; merging again changes nothing."""
        by_scope = self._scopes().copy()
        for record in other:
            key = record.scope.normalised()
            held = by_scope.get(key)
            if held is None or _holds(record) > _holds(held):
                by_scope[key] = record
        return Failures(by_scope.values())

    def _scopes(self) -> dict[FailureScope, FailureRecord]:
        """The records by what they are about, worked out when first asked for."""
        if self._by_scope is None:
            self._by_scope = {}
            for record in self._records:
                self._by_scope.setdefault(record.scope.normalised(), record)
        return self._by_scope

    def _without(self, scope: FailureScope) -> tuple[FailureRecord, ...]:
        key = scope.normalised()
        return tuple(record for record in self._records if record.scope.normalised() != key)


def _holds(record: FailureRecord) -> tuple[float, bool, int, int, str]:
    return (
        record.expires_at,
        record.overridden,
        record.count,
        severity(record.failure_class),
        record.failure_class,
    )


class Deciding:
    """Which failure record decides for a node, prepared once for a class of work."""

    __slots__ = ("_anywhere", "_by_node")

    def __init__(self, records: Iterable[FailureRecord], workload_class: str, now: float) -> None:
        self._by_node: dict[str, FailureRecord] = {}
        wanted = workload_class.lower()
        matching = (record for record in records if record.scope.may_be_about(wanted) and record.is_active(now))
        for record in sorted(matching, key=FailureRecord.order):
            self._by_node.setdefault(record.scope.node.lower(), record)
        self._anywhere = self._by_node.pop("", None)

    def __bool__(self) -> bool:
        return bool(self._by_node) or self._anywhere is not None

    @property
    def anywhere(self) -> FailureRecord | None:
        """The record about every node, if there is one."""
        return self._anywhere

    @property
    def nodes(self) -> Iterable[tuple[str, FailureRecord]]:
        """Lower-cased node -> the record that names it."""
        return self._by_node.items()

    def of(self, node: str) -> FailureRecord | None:
        named = self._by_node.get(node.lower())
        if named is None or self._anywhere is None:
            return named or self._anywhere
        return min(named, self._anywhere, key=FailureRecord.order)

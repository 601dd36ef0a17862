"""What a node remembers of its own runs, as plain lists: for its state directory and for gossip.

A gossiped section holds the newest of it within a byte budget. Each node publishes only what it recorded itself;
readers join the histories of all nodes, so nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from ..capabilities.errors import shown
from .errors import PlacementError
from .failures import FailureRecord, Failures, FailureScope
from .observations import Observation, Observations, ObservationScope

VERSION = 1

# A section of gossip may have 16 KiB; most of a packet should stay for others.
GOSSIP_BYTES = 8 << 10
_OBSERVATION_FIELDS = 11
_FAILURE_FIELDS = 9
# What a row's numbers and frames take at most, beside its texts.
_ROW_BYTES = 48


class HistoryRefused(PlacementError):
    """Bytes of a state file or another node that are no history."""


@attrs.frozen(kw_only=True)
class History:
    """Observations and failures together, immutable."""

    observations: Observations = attrs.field(factory=Observations)
    failures: Failures = attrs.field(factory=Failures)

    def pruned(self, now: float) -> History:
        """Only what still counts, at a time of the histories' clock."""
        return History(observations=self.observations.pruned(now), failures=self.failures.pruned(now))


def joined(histories: Iterable[History]) -> History:
    """What all nodes remember: runs of one scope added up, of failures the one that holds longest."""
    all_of_them = tuple(histories)
    return History(
        observations=Observations(seen for history in all_of_them for seen in history.observations),
        failures=Failures().merged(record for history in all_of_them for record in history.failures),
    )


def history_to_plain(history: History, most_bytes: int | None = None) -> list[object]:
    """Plain lists for msgpack or JSON; with `most_bytes` the failures that hold longest, then the newest runs."""
    failures = sorted(history.failures, key=lambda record: (-record.expires_at, record.scope.fields))
    runs = history.observations.newest(len(history.observations))
    left = most_bytes if most_bytes is not None else 1 << 60
    failure_rows: list[list[object]] = []
    for record in failures:
        scope = record.scope
        row: list[object] = [
            *scope.fields,
            record.failure_class,
            record.count,
            int(record.expires_at),
            record.overridden,
        ]
        left -= _size(row)
        if left < 0:
            break
        failure_rows.append(row)
    run_rows: list[list[object]] = []
    for run in runs:
        row = [*_scope(run.scope), int(run.observed_at), run.success, *_figures(run)]
        left -= _size(row)
        if left < 0:
            break
        run_rows.append(row)
    return [VERSION, run_rows, failure_rows]


def _scope(scope: ObservationScope) -> list[object]:
    return [scope.node, scope.workload_class, scope.backend, scope.tool, scope.model_name]


def _figures(run: Observation) -> tuple[int, ...]:
    return run.wall_ms, run.peak_ram_mb, run.peak_vram_mb, run.samples


def _size(row: Iterable[object]) -> int:
    return _ROW_BYTES + sum(len(item.encode("utf-8", "replace")) for item in row if isinstance(item, str))


def history_from_plain(value: object) -> History:
    """The history that `history_to_plain` wrote; raises `HistoryRefused` for anything else."""
    version, runs, failures = _list(value, 3)
    if version != VERSION:
        raise HistoryRefused(f"history of version {shown(version)}, this is {VERSION}")
    return History(
        observations=Observations(_observation(_list(row, _OBSERVATION_FIELDS)) for row in _list(runs)),
        failures=Failures(_failure(_list(row, _FAILURE_FIELDS)) for row in _list(failures)),
    )


def _observation(row: list[object]) -> Observation:
    node, workload_class, backend, tool, model = map(_str, row[:5])
    at, success, *figures = row[5:]
    wall, ram, vram, samples = map(_int, figures)
    return Observation(
        scope=ObservationScope(node=node, workload_class=workload_class, backend=backend, tool=tool, model_name=model),
        observed_at=float(_int(at)),
        success=_bool(success),
        wall_ms=wall,
        peak_ram_mb=ram,
        peak_vram_mb=vram,
        samples=samples,
    ).normalised()


def _failure(row: list[object]) -> FailureRecord:
    node, workload_class, tool, backend, surface, failure_class = map(_str, row[:6])
    count, expires_at, overridden = row[6:]
    return FailureRecord(
        scope=FailureScope(node=node, workload_class=workload_class, tool=tool, backend=backend, surface=surface),
        failure_class=failure_class,
        count=max(1, _int(count)),
        expires_at=float(_int(expires_at)),
        overridden=_bool(overridden),
    )


def _list(value: object, length: int | None = None) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise HistoryRefused(f"a list was expected, not {type(value).__name__}")
    items: list[Any] = [*value]  # pyright: ignore[reportUnknownArgumentType]
    if length is not None and len(items) != length:
        raise HistoryRefused(f"a list of {length} was expected, not of {len(items)}")
    return items


def _str(value: object) -> str:
    if type(value) is not str:
        raise HistoryRefused(f"a text was expected, not {type(value).__name__}")
    return value


def _int(value: object) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise HistoryRefused(f"a whole number of 64 bits was expected, not {type(value).__name__}")
    return value


def _bool(value: object) -> bool:
    if type(value) is not bool:
        raise HistoryRefused(f"true or false was expected, not {type(value).__name__}")
    return value

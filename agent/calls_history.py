"""Calls about experience with nodes: observe a run, record a failure, lift failures, list all of it.

Placements of this and of all other nodes read what is recorded here: see `histories`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from ..placement.failures import FailureClass, FailureRecord, FailureScope
from ..placement.observations import Observation, ObservationScope
from ..placement.replies import failure_map, observation_map
from ..placement.requests import observation_from_map
from ..placement.task import Task
from ..placement.view import View
from . import task_arguments as checks
from .api import Answer, Call, Command, Pages, Query, Request
from .arguments import Argument, Check, flag, integer, one_of, refuse, text
from .peer import Level
from .rows import NODE, in_pages, resolve
from .task_arguments import refusals

# A scope is kept, told to every node and compared by each placement: longer names are data, not names.
_NAME_BYTES = 128
_MEASURES = ("success", "wall_ms", "peak_ram_mb", "peak_vram_mb", "samples")
_NO_TASK = Task()


async def observe(request: Request) -> Answer:
    """Record how a run of a task on a node went; a success clears the failures of that node and class of work."""
    arguments, backend = request.arguments, request.backend
    node = resolve(backend.view, arguments["node"])
    measures = {name: arguments[name] for name in _MEASURES if arguments[name] is not None}
    with refusals(""):
        seen = observation_from_map(measures, node.node_id, arguments["task"], backend.unix())
    _short(seen.scope)
    backend.histories.observe(seen)
    merged = backend.histories.state(backend.now(), backend.unix()).observations.get(seen.scope)
    return {"observation": _run(merged or seen, backend.view, backend.unix())}


async def fail(request: Request) -> Answer:
    """Record that a node failed at a class of work; the answer says until when that counts.

    Placements look for node and class. A tool, backend or surface is remembered beside that.
    """
    arguments, backend = request.arguments, request.backend
    node, unix = resolve(backend.view, arguments["node"]), backend.unix()
    broad = FailureScope(node=node.node_id, workload_class=arguments["task"].workload_class)
    narrow = attrs.evolve(broad, tool=arguments["tool"], backend=arguments["backend"], surface=arguments["surface"])
    _short(narrow)
    if narrow != broad:
        backend.histories.fail(narrow, arguments["failure"], unix)
    held = backend.histories.fail(broad, arguments["failure"], unix)
    return {"failure": None if held is None else _failure(held, backend.view, unix)}


async def override(request: Request) -> Answer:
    """Set aside what is held against a node, for one class of work or all; answers what was held."""
    arguments, backend = request.arguments, request.backend
    node, unix = resolve(backend.view, arguments["node"]), backend.unix()
    asked: Task | None = arguments["task"]
    held = (record for record in backend.histories.failures if record.scope.node == node.node_id)
    lifted = [
        record
        for record in held
        if record.is_active(unix) and (asked is None or asked.workload_class == record.scope.workload_class)
    ]
    for record in lifted:
        backend.histories.lift(record.scope)
    return {"lifted": [_failure(record, backend.view, unix) for record in lifted]}


def history(request: Request) -> Pages:
    """What counts now of all that all nodes remember: failures first, then runs, the latest first."""
    backend = request.backend
    view, unix, wanted = backend.view, backend.unix(), request.arguments["node"]
    node = None if wanted is None else resolve(view, wanted).node_id
    state = backend.histories.state(backend.now(), unix)
    failures = sorted(
        (record for record in state.failures if record.expires_at > unix and node in (None, record.scope.node)),
        key=lambda record: (record.scope.fields, record.failure_class),
    )
    runs = (seen for seen in state.observations.newest(len(state.observations)) if seen.is_fresh(unix))
    rows = _rows(failures, (seen for seen in runs if node in (None, seen.scope.node)), view, unix)
    return in_pages(rows, {}, name="history")


def _rows(
    failures: Iterable[FailureRecord], runs: Iterable[Observation], view: View, unix: float
) -> Iterator[dict[str, Any]]:
    for record in failures:
        yield {"what": "failure", **_failure(record, view, unix)}
    for seen in runs:
        yield {"what": "run", **_run(seen, view, unix)}


def _failure(record: FailureRecord, view: View, unix: float) -> dict[str, Any]:
    return {
        **failure_map(record),
        "name": _name(view, record.scope.node),
        "active": record.is_active(unix),
        "for_s": max(0, int(record.expires_at - unix)),
    }


def _run(seen: Observation, view: View, unix: float) -> dict[str, Any]:
    return {
        **observation_map(seen),
        "name": _name(view, seen.scope.node),
        "age_s": max(0, int(unix - seen.observed_at)),
    }


def _name(view: View, node: str) -> str:
    record = view.get(node)
    return "" if record is None else record.name


def _short(scope: ObservationScope | FailureScope) -> None:
    for name, value in attrs.asdict(scope).items():
        if len(value.encode("utf-8", "replace")) > _NAME_BYTES:
            raise refuse(name, f"expected at most {_NAME_BYTES} bytes, for this is kept and told to every node")


def _amount(value: object, _path: str) -> object:
    """Checked with the other measures, where an amount may bring its unit."""
    return value


_NODE = Argument("node", NODE)
_TEXT: Check = text(_NAME_BYTES, empty=True)

CALLS: tuple[Call, ...] = (
    Command(
        name="observe",
        level=Level.WRITE,
        run=observe,
        arguments=(
            _NODE,
            Argument("task", checks.task),
            Argument("success", flag, default=True),
            Argument("wall_ms", integer(0, 1 << 40), default=None),
            Argument("peak_ram_mb", _amount, default=None),
            Argument("peak_vram_mb", _amount, default=None),
            Argument("samples", integer(1, 1 << 20), default=None),
        ),
    ),
    Command(
        name="fail",
        level=Level.WRITE,
        run=fail,
        arguments=(
            _NODE,
            Argument("failure", one_of(*FailureClass)),
            Argument("task", checks.task, default=_NO_TASK),
            Argument("tool", _TEXT, default=""),
            Argument("backend", _TEXT, default=""),
            Argument("surface", _TEXT, default=""),
        ),
    ),
    Command(
        name="override",
        level=Level.WRITE,
        run=override,
        arguments=(_NODE, Argument("task", checks.task, default=None)),
    ),
    Query(name="history", answer=history, arguments=(Argument("node", NODE, default=None),)),
)

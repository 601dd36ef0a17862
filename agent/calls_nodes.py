"""Calls that read the view: hello, version, status, members, show, wait."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable

from ..capabilities.requirement import PlacementRequirement
from ..placement.nodes import NodeState
from ..placement.view import View
from . import __version__
from .api import PROTOCOL, Answer, Call, Command, Pages, Query, Request
from .arguments import Argument, integer, list_of, one_of, text
from .peer import Level
from .rows import LABELS, NODE, by_name, in_pages, node_row, resolve, whole_row
from .task_arguments import REQUIREMENT_BYTES, parse

# What a client may rely on beside the calls themselves; a word once given keeps its meaning.
FEATURES = ("pages", "credit", "cancel", "deadline", "resync")
# More nodes than any cluster of this protocol has.
_MANY = 1_000_000

_STATES = tuple(state.value for state in NodeState)


def greeting(node_id: str, level: Level, calls: Iterable[str]) -> Answer:
    """What the agent says of itself, first on every connection."""
    return {
        "protocol": list(PROTOCOL),
        "features": list(FEATURES),
        "version": __version__,
        "node_id": node_id,
        "level": level.name.lower(),
        "calls": list(calls),
    }


def hello(request: Request) -> Answer:
    return greeting(request.backend.node_id, request.level, request.api.names)


def version(_request: Request) -> Answer:
    return {"version": __version__, "protocol": list(PROTOCOL), "python": platform.python_version()}


def status(request: Request) -> Answer:
    """The backend's facts, with how many nodes are in which state and what the API served."""
    view = request.backend.view
    states = Counter(record.state.value for record in view)
    return {
        **request.backend.status(),
        "node_id": request.backend.node_id,
        "version": __version__,
        "isolated": view.isolated,
        "members": {state: states[state] for state in _STATES},
        "watchers": len(request.backend.watchers),
        "calls": dict(request.api.counters),
    }


def members(request: Request) -> Pages:
    """All nodes by name, of the states asked for."""
    view, labels, now = request.backend.view, request.arguments["labels"], request.backend.now()
    states = request.arguments["states"]
    chosen = by_name(record for record in view if not states or record.state.value in states)
    rows = (node_row(record, labels=labels, now=now, here=view.here) for record in chosen)
    return in_pages(rows, {"isolated": view.isolated})


def show(request: Request) -> Answer:
    """One node; only its own agent knows its warnings."""
    view = request.backend.view
    row = whole_row(resolve(view, request.arguments["node"]), now=request.backend.now(), here=view.here)
    if row.get("here"):
        row["warnings"] = list(request.backend.warnings)
    return {"node": row}


async def wait(request: Request) -> Answer:
    """Answer as soon as so many nodes are alive, and satisfy the requirement if there is one."""
    wanted = parse(request.arguments["requirement"])
    with request.backend.watchers.subscribe() as subscription:
        while (alive := _alive(request.backend.view, wanted)) < request.arguments["members"]:
            await subscription.next_change()
    return {"alive": alive, "known": len(request.backend.view)}


def _alive(view: View, wanted: PlacementRequirement) -> int:
    return sum(record.state is NodeState.ALIVE and wanted.satisfied_by(record.capabilities) for record in view)


_REQUIREMENT = Argument("requirement", text(REQUIREMENT_BYTES, empty=True), default="")

CALLS: tuple[Call, ...] = (
    Query(name="hello", answer=hello),
    Query(name="version", answer=version),
    Query(name="status", answer=status),
    Query(
        name="members",
        answer=members,
        arguments=(LABELS, Argument("states", list_of(one_of(*_STATES), most=len(_STATES)), default=())),
    ),
    Query(name="show", answer=show, arguments=(Argument("node", NODE),)),
    Command(
        name="wait",
        level=Level.READ,
        run=wait,
        arguments=(Argument("members", integer(1, _MANY)), _REQUIREMENT),
    ),
)

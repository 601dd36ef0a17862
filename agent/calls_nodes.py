"""Calls that read the view: hello, version, status, members, show, find, wait."""

from __future__ import annotations

import functools
import platform
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..capabilities.errors import CapabilityError, RequirementSyntaxError
from ..capabilities.requirement import PlacementRequirement
from ..capabilities.review import review
from ..capabilities.text import parse_requirement
from ..placement.find import find_suitable_nodes
from ..placement.nodes import NodeRecord, NodeState, Schedulable
from ..placement.options import Options
from ..placement.view import View
from . import __version__
from .api import PROTOCOL, Answer, Call, Command, Pages, Query, Request
from .arguments import Argument, flag, integer, list_of, one_of, text
from .errors import BadRequirement
from .peer import Level
from .rows import LABELS, NODE, by_name, in_pages, node_row, resolve, whole_row

# What a client may rely on beside the calls themselves; a word once given keeps its meaning.
FEATURES = ("pages", "credit", "cancel", "deadline", "resync")
# A requirement of this size takes well under a millisecond to parse.
REQUIREMENT_BYTES = 16 << 10
# Programs ask the same few requirements again and again; parsing costs more than the query.
_PARSED = 256
# Counting failing terms takes some microseconds a node, and the loop waits: beyond this many the rest is not looked at.
_EXAMINED = 2000
# More nodes than any cluster of this protocol has.
_MANY = 1_000_000

_STATES = tuple(state.value for state in NodeState)
_LIVING = (NodeState.ALIVE, NodeState.SUSPECT)


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
    view = request.backend.view
    return {"node": whole_row(resolve(view, request.arguments["node"]), now=request.backend.now(), here=view.here)}


def find(request: Request) -> Pages:
    """Matching nodes, best first. When there are none: how many nodes fail at each term.

    Likely slips of the requirement (`warnings`) are looked for when there are none, or when `review` asks for it.
    """
    wanted = parse(request.arguments["requirement"])
    view, labels, now = request.backend.view, request.arguments["labels"], request.backend.now()
    found = find_suitable_nodes(
        view, wanted, request.arguments["limit"], now=now, options=Options(strict=request.arguments["strict"])
    )
    head: Answer = {"total": found.matching, "known": len(view), "isolated": view.isolated}
    if not found.matching:
        head["why"] = why_none(view, wanted, strict=request.arguments["strict"])
    if not found.matching or request.arguments["review"]:
        head["warnings"] = _warnings(view, wanted)
    return in_pages((node_row(record, labels=labels, now=now, here=view.here) for record in found.nodes), head)


async def wait(request: Request) -> Answer:
    """Answer as soon as so many nodes are alive, and satisfy the requirement if there is one."""
    wanted = parse(request.arguments["requirement"])
    with request.backend.watchers.subscribe() as subscription:
        while (alive := _alive(request.backend.view, wanted)) < request.arguments["members"]:
            await subscription.next_change()
    return {"alive": alive, "known": len(request.backend.view)}


@functools.lru_cache(_PARSED)
def parse(requirement: str) -> PlacementRequirement:
    """The requirement that the text stands for.

    Raises:
        BadRequirement: with the column where it is known.
    """
    try:
        parsed = parse_requirement(requirement)
        parsed.validate()
    except RequirementSyntaxError as error:
        raise BadRequirement(error.problem, hint=error.hint or None, column=error.column) from error
    except CapabilityError as error:
        raise BadRequirement(str(error)) from error
    return parsed


def _warnings(view: View, requirement: PlacementRequirement) -> list[str]:
    known = (record.capabilities for record in view.records[:_EXAMINED] if record.state in _LIVING)
    return [str(slip) for slip in review(requirement, (record for record in known if record is not None))]


def why_none(view: View, requirement: PlacementRequirement, *, strict: bool) -> Answer:
    """Why no node matches, in short: how many nodes each thing excludes, and each term, first term first."""
    excluded: Counter[str] = Counter()
    terms: dict[int, dict[str, Any]] = {}
    for record in view.records[:_EXAMINED]:
        if (reason := _unavailable(record, strict=strict)) is not None:
            excluded[reason] += 1
            continue
        if record.capabilities is None:
            excluded["without a record"] += 1
            continue
        for failing in requirement.check(record.capabilities):
            row = terms.setdefault(failing.term, {"text": failing.text, "key": failing.key, "nodes": 0, "kinds": {}})
            row["nodes"] += 1
            row["kinds"][failing.kind.value] = row["kinds"].get(failing.kind.value, 0) + 1
    return {
        "examined": min(len(view), _EXAMINED),
        "excluded": dict(excluded),
        "terms": [{"term": place, **terms[place]} for place in sorted(terms)],
    }


def _unavailable(record: NodeRecord, *, strict: bool) -> str | None:
    if record.state not in _LIVING or (strict and record.state is NodeState.SUSPECT):
        return record.state.value
    return None if record.schedulable is Schedulable.YES else record.schedulable.value


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
    Query(
        name="find",
        answer=find,
        arguments=(
            _REQUIREMENT,
            Argument("limit", integer(1, _MANY), default=None),
            Argument("strict", flag, default=False),
            Argument("review", flag, default=False),
            LABELS,
        ),
    ),
    Command(
        name="wait",
        level=Level.READ,
        run=wait,
        arguments=(Argument("members", integer(1, _MANY)), _REQUIREMENT),
    ),
)

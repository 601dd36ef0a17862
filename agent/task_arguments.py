"""Requirements, tasks, options and policies as arguments of calls: checked by placement, refused in the API's words."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Mapping
from typing import Any, cast

import attrs

from ..capabilities.errors import CapabilityError, RequirementSyntaxError, shown
from ..capabilities.requirement import PlacementRequirement
from ..capabilities.text import parse_requirement
from ..placement.errors import TaskRefused
from ..placement.options import NO_OPTIONS, Options
from ..placement.policy import Policy
from ..placement.requests import options_from_map, policy_from_map, task_from_map
from ..placement.task import Task
from .arguments import refuse, text
from .errors import BadRequirement

# A requirement of this size takes well under a millisecond to parse.
REQUIREMENT_BYTES = 16 << 10
# Programs ask the same few requirements again and again; parsing costs more than the query.
_PARSED = 256
# A query is ordered by load alone.
_NOT_OF_A_FIND = ("seed", "pick")
_CLOSE = "; did you mean "


@functools.lru_cache(_PARSED)
def parse(requirement: str) -> PlacementRequirement:
    """The requirement that the text stands for.

    Raises:
        BadRequirement: with the column where it is known.
    """
    try:
        parsed = parse_requirement(requirement)
        parsed.validate()
    except CapabilityError as error:
        raise _bad(error) from error
    return parsed


@attrs.frozen
class Asked:
    """The options of a call; `seeded` says whether they brought a seed."""

    options: Options = NO_OPTIONS
    seeded: bool = False


def task(value: object, path: str) -> Task:
    """A task as a map, or its description alone."""
    if type(value) is str:
        value = {"description": text(REQUIREMENT_BYTES, empty=True)(value, path)}
    with refusals(path):
        return task_from_map(value)


def options(value: object, path: str) -> Asked:
    with refusals(path):
        return Asked(options_from_map(value), seeded=_fields(value).get("seed") is not None)


def find_options(value: object, path: str) -> Options:
    for field in _NOT_OF_A_FIND:
        if _fields(value).get(field) is not None:
            raise refuse(f"{path}.{field}", "a query has one order: by load", "leave it out, or ask for a placement")
    return options(value, path).options


def policy(value: object, path: str) -> Policy:
    with refusals(path):
        return policy_from_map(value)


@contextlib.contextmanager
def refusals(path: str) -> Generator[None]:
    """Turn what placement refuses into the API's errors, with the whole path of the field."""
    try:
        yield
    except TaskRefused as error:
        inside = "" if error.field == "the argument" else error.field
        where = ".".join(part for part in (path, inside) if part)
        if isinstance(error.__cause__, CapabilityError) and "requirement" in error.wanted:
            raise _bad(error.__cause__, path=where) from error
        wanted, _, close = error.wanted.partition(_CLOSE)
        hint = f"did you mean {close}" if close else None
        raise refuse(where, f"expected {wanted}, got {shown(error.got)}", hint) from error


def _bad(error: CapabilityError, path: str = "requirement") -> BadRequirement:
    if isinstance(error, RequirementSyntaxError):
        return BadRequirement(error.problem, hint=error.hint or None, column=error.column, path=path)
    return BadRequirement(str(error), path=path)


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def task_map(asked: Task) -> dict[str, Any]:
    """What a task asks for, inferred or said, as plain values; what it does not ask for is absent."""
    fields = attrs.asdict(asked, filter=lambda field, value: field.init and field.name != "requirement" and bool(value))
    if asked.requirement is not None and not asked.requirement.is_empty():
        fields["requirement"] = str(asked.requirement)
    return fields

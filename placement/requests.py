"""Tasks, options and policies from plain maps: a socket's arguments, a TOML or JSON file.

Everything is checked here, once and completely. Unknown fields are refused, with the nearest known one, because a
misspelt option that is silently ignored places work where it must not go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import attrs

from ..capabilities.amounts import read_int
from ..capabilities.errors import CapabilityError, ValueRefused
from ..capabilities.labels import Form
from ..capabilities.requirement import PlacementRequirement
from ..capabilities.text import parse_requirement
from ..capabilities.values import check_key
from .errors import OptionRefused, TaskRefused
from .failures import FailureClass, FailureScope
from .observations import Observation, recording_scope
from .options import AntiAffinity, Options, Pick, PickWay, Preference, Spread
from .policy import FilterPolicy, Policy, RankPolicy, ScorePolicy
from .task import Task
from .workload import infer_requirements

T = TypeVar("T")
Check = Callable[[object, str], T]

# A task is written by a person or a small program; the bounds keep one request from holding up the others.
MAX_TEXT = 16 << 10
MAX_LIST = 64
MAX_NAME = 1024
_MAX_MB = 1 << 40
_MAX_TOKENS = 1 << 32


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise TaskRefused(field, f"a text of at most {MAX_TEXT} characters", value)
    return value


def _name(value: object, field: str) -> str:
    """Of a tool, a backend or a node: an empty one is hardly meant, and nothing has it."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME:
        raise TaskRefused(field, f"a name of at most {MAX_NAME} characters", value)
    return value


def _label(value: object, field: str) -> str:
    try:
        return check_key(value)
    except ValueRefused as error:
        raise TaskRefused(field, error.wanted, value) from error


def _flag(value: object, field: str) -> bool:
    if type(value) is not bool:
        raise TaskRefused(field, "true or false", value)
    return value


def _whole(low: int, high: int) -> Check[int]:
    def check(value: object, field: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise TaskRefused(field, f"a whole number from {low} to {high}", value)
        return value

    return check


def _amount(value: object, field: str) -> int:
    """MiB, as a number or with a unit: `4GiB`."""
    if isinstance(value, str):
        try:
            value = read_int(field, value, Form.MEBIBYTES)
        except CapabilityError as error:
            raise TaskRefused(field, "an amount such as 4096 (MiB) or 4GiB", value) from error
    return _whole(0, _MAX_MB)(value, field)


def _items(value: object) -> list[object] | None:
    return [*cast("Sequence[object]", value)] if isinstance(value, list | tuple) else None


def _list_of(check: Check[T], most: int = MAX_LIST) -> Check[tuple[T, ...]]:
    def checked(value: object, field: str) -> tuple[T, ...]:
        items = _items(value)
        if items is None or len(items) > most:
            raise TaskRefused(field, f"a list of at most {most}", value)
        return tuple(check(item, f"{field}[{at}]") for at, item in enumerate(items))

    return checked


def _map(value: object, field: str, fields: Mapping[str, Check[Any]]) -> dict[str, Any]:
    """The checked fields that are there; None is the same as absent."""
    if not isinstance(value, Mapping):
        raise TaskRefused(field or "the argument", "a map", value)
    given = dict(cast("Mapping[object, object]", value))
    checked: dict[str, Any] = {}
    for key, item in given.items():
        path = f"{field}.{key}" if field else str(key)
        check = fields.get(key) if isinstance(key, str) else None
        if check is None:
            close = get_close_matches(str(key), fields, n=1)
            raise TaskRefused(
                path, f"a known field; did you mean {close[0]}?" if close else f"one of {', '.join(fields)}", key
            )
        if item is not None:
            checked[str(key)] = check(item, path)
    return checked


def requirement_of(value: object, field: str = "requirement") -> PlacementRequirement:
    """A requirement from its text form, or from the lists of its wire form."""
    try:
        if isinstance(value, str):
            asked = parse_requirement(_text(value, field))
            asked.validate()
            return asked
        return PlacementRequirement.from_wire(value)
    except CapabilityError as error:
        raise TaskRefused(field, f"a requirement ({error})", value) from error


_TASK: Mapping[str, Check[Any]] = {
    "description": _text,
    "workload_class": _text,
    "required_tools": _list_of(_name),
    "min_free_ram_mb": _amount,
    "memory_request_mb": _amount,
    "context_tokens": _whole(0, _MAX_TOKENS),
    "prefers_turboquant": _flag,
    "preferred_backends": _list_of(_name),
    "requirement": requirement_of,
    "infer": _flag,
}


def task_from_map(value: object) -> Task:
    """The task that the map describes.

    What a description asks for is inferred from it and added to what the map says outright: tools and backends are
    joined, the higher floor counts, and a class that is given wins. `infer` false takes the description as it is.

    Raises:
        TaskRefused: naming the field.
    """
    given = _map(value, "", _TASK)
    infer = given.pop("infer", True)
    task = Task(**given)
    if not infer or not task.description.strip():
        return task
    inferred = infer_requirements(task.description, lambda _: task.workload_class).task
    return attrs.evolve(
        task,
        workload_class=inferred.workload_class,
        required_tools=_joined(task.required_tools, inferred.required_tools),
        min_free_ram_mb=max(task.min_free_ram_mb, inferred.min_free_ram_mb),
        context_tokens=max(task.context_tokens, inferred.context_tokens),
        prefers_turboquant=task.prefers_turboquant or inferred.prefers_turboquant,
        preferred_backends=_joined(task.preferred_backends, inferred.preferred_backends),
    )


def _joined(first: tuple[str, ...], then: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *then)))


def _spread(value: object, field: str) -> Spread:
    fields = {"label": _label, "max_skew": _whole(1, MAX_LIST), "placed": _list_of(_name, 1024)}
    return Spread(**_needing(_map(value, field, fields), field, "label"))


def _anti_affinity(value: object, field: str) -> AntiAffinity:
    fields: Mapping[str, Check[Any]] = {"label": _label, "apart_from": _list_of(_name, 1024)}
    return AntiAffinity(**_needing(_map(value, field, fields), field, "label"))


def _preference(value: object, field: str) -> Preference:
    fields: Mapping[str, Check[Any]] = {"requirement": requirement_of, "weight": _whole(-1000, 1000)}
    return Preference(**_needing(_map(value, field, fields), field, "requirement"))


def _pick(value: object, field: str) -> Pick:
    """`best`, `two_choices`, `spread`, or `sticky:KEY`."""
    way, _, key = _text(value, field).partition(":")
    if way not in tuple(PickWay):
        raise OptionRefused(field, "best, two_choices, spread or sticky:KEY", value)
    return Pick(way=PickWay(way), key=key)


def _needing(checked: dict[str, Any], field: str, needed: str) -> dict[str, Any]:
    if needed not in checked:
        raise TaskRefused(f"{field}.{needed}", "a value", None)
    return checked


_OPTIONS: Mapping[str, Check[Any]] = {
    "count": _whole(1, 1024),
    "strict": _flag,
    "avoid": _list_of(_name, 1024),
    "anti_affinity": _anti_affinity,
    "spread": _spread,
    "prefer": _list_of(_preference, 16),
    "prefer_local": _whole(0, 1000),
    "fallbacks": _list_of(requirement_of, 8),
    "seed": _whole(0, (1 << 64) - 1),
    "pick": _pick,
}


def options_from_map(value: object) -> Options:
    """The options that the map gives; raises `TaskRefused` or `OptionRefused`, naming the field."""
    return Options(**_map(value, "", _OPTIONS))


_RANKS = {"exact": RankPolicy.exact, "banded": RankPolicy.banded}
_SCORES = {"documented": ScorePolicy.documented, "weighted": ScorePolicy.weighted}


def policy_from_map(value: object) -> Policy:
    """A policy: `rank` exact or banded, `score` documented or weighted, and `without`, switches to turn off."""
    given = _map(value, "", {"rank": _one_of(_RANKS), "score": _one_of(_SCORES), "without": _list_of(_text)})
    policy = Policy(
        rank=given.get("rank", Policy.agent.rank), score=given.get("score", Policy.agent.score), filter=FilterPolicy()
    )
    for at, switch in enumerate(given.get("without", ())):
        policy = _without(policy, switch, f"without[{at}]")
    return policy


def _one_of(known: Mapping[str, T]) -> Check[T]:
    def check(value: object, field: str) -> T:
        found = known.get(_text(value, field))
        if found is None:
            raise TaskRefused(field, " or ".join(known), value)
        return found

    return check


def _switches(part: type[FilterPolicy | ScorePolicy | RankPolicy]) -> list[str]:
    return [known.name for known in attrs.fields(part) if known.type in (bool, "bool")]


def _without(policy: Policy, switch: str, field: str) -> Policy:
    off: dict[str, Any] = {switch: False}
    if switch in _switches(FilterPolicy):
        return attrs.evolve(policy, filter=attrs.evolve(policy.filter, **off))
    if switch in _switches(ScorePolicy):
        return attrs.evolve(policy, score=attrs.evolve(policy.score, **off))
    if switch in _switches(RankPolicy):
        return attrs.evolve(policy, rank=attrs.evolve(policy.rank, **off))
    names = [*_switches(FilterPolicy), *_switches(ScorePolicy), *_switches(RankPolicy)]
    close = get_close_matches(switch, names, n=1)
    raise TaskRefused(field, f"a switch; did you mean {close[0]}?" if close else ", ".join(names), switch)


_RUN: Mapping[str, Check[Any]] = {
    "success": _flag,
    "wall_ms": _whole(0, 1 << 40),
    "peak_ram_mb": _amount,
    "peak_vram_mb": _amount,
    "samples": _whole(1, 1 << 20),
}


def observation_from_map(value: object, node: str, task: Task, at: float) -> Observation:
    """How a run of the task on the node (its id) went, at a time of the observations' clock."""
    return Observation(scope=recording_scope(node, task), observed_at=at, **_map(value, "", _RUN))


_FAILURE: Mapping[str, Check[Any]] = {
    "workload_class": _text,
    "tool": _text,
    "backend": _text,
    "surface": _text,
}


def failure_scope_from_map(value: object, node: str) -> FailureScope:
    """What a failure on the node (its id) is about."""
    return FailureScope(node=node, **_map(value, "", _FAILURE))


def failure_class_of(value: object) -> FailureClass:
    """The class of a failure by its name; raises `TaskRefused`."""
    name = _text(value, "failure_class")
    try:
        return FailureClass(name)
    except ValueError as error:
        close = get_close_matches(name, tuple(FailureClass), n=1)
        wanted = f"a failure class; did you mean {close[0]}?" if close else ", ".join(FailureClass)
        raise TaskRefused("failure_class", wanted, name) from error

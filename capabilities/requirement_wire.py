"""A requirement as plain lists, for the socket: `[["min_int", "ram_mb", 4096], ["any_of", [...], [...]]]`.

Each term is its builder method's name and its arguments. Decoding is total: any value gives a requirement or a
`RequirementError`. The bytes around it are the caller's, so the lists are already bounded by its request.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from .constraints import (
    MAX_DEPTH,
    AnyOf,
    Constraint,
    Devices,
    Equals,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
)
from .errors import RequirementError, RequirementWireError, ValueRefused, shown
from .failing import wanted
from .requirement import MAX_WEIGHT, PlacementRequirement

Made = TypeVar("Made")

_MAKERS: Mapping[str, tuple[Callable[..., Constraint], int]] = {
    "equals": (Equals, 2),
    "not_equals": (NotEquals, 2),
    "min_int": (MinInt, 2),
    "max_int": (MaxInt, 2),
    "min_version": (MinVersion, 2),
    "has": (HasLabel, 1),
    "lacks": (LacksLabel, 1),
    "is_true": (IsTrue, 1),
    "is_false": (IsFalse, 1),
}


def encode_requirement(requirement: PlacementRequirement) -> list[object]:
    return [_encode(term) for term in requirement.constraints]


def _encode(term: Constraint) -> list[object]:
    match term:
        case AnyOf():
            return [term.op, *([_encode(inside) for inside in terms] for terms in term.alternatives)]
        case Devices():
            return [term.op, term.kind, term.count, [_encode(inside) for inside in term.where], term.same]
        case OneOf():
            return [term.op, term.key, list(term.values)]
        case HasLabel() | LacksLabel() | IsTrue() | IsFalse():
            return [term.op, term.key]
        case _:
            return [term.op, term.key, wanted(term)]


def decode_requirement(value: object) -> PlacementRequirement:
    """The requirement in these lists. Raises `RequirementError`, and nothing else, when there is none."""
    return _guarded("requirement", lambda: PlacementRequirement(_terms(value, "requirement", depth=0)))


def _terms(value: object, path: str, *, depth: int) -> list[Constraint]:
    if depth > MAX_DEPTH + 1:  # brackets of devices are one level that parentheses do not count
        raise RequirementWireError(path=path, problem="nested too deep")
    return [_term(item, f"{path}[{at}]", depth=depth) for at, item in enumerate(_list(value, path))]


def _list(value: object, path: str) -> list[Any]:
    if type(value) is not list and type(value) is not tuple:
        raise RequirementWireError(path=path, problem=f"wanted a list, got {shown(value)}")
    items = cast("list[Any]", value)
    if len(items) > MAX_WEIGHT:
        raise RequirementWireError(path=path, problem=f"a list of {len(items)}; at most {MAX_WEIGHT}")
    return items


def _term(value: object, path: str, *, depth: int) -> Constraint:
    op, *arguments = _list(value, path) or [None]
    if op == AnyOf.op:
        alternatives = [_terms(item, f"{path}[{at}]", depth=depth + 1) for at, item in enumerate(arguments, start=1)]
        return _guarded(path, lambda: AnyOf(alternatives))
    if op == Devices.op:
        kind, count, where, same = _exactly(arguments, 4, path)
        terms = _terms(where, f"{path}[3]", depth=depth + 1)
        return _guarded(path, lambda: Devices(kind, count, terms, same))
    if op == OneOf.op:
        key, values = _exactly(arguments, 2, path)
        listed = _list(values, f"{path}[2]")
        return _guarded(path, lambda: OneOf(key, listed))
    maker, count = _MAKERS.get(op, (None, 0)) if type(op) is str else (None, 0)
    if maker is None:
        raise RequirementWireError(path=path, problem=f"unknown operator {shown(op)}")
    exact = _exactly(arguments, count, path)
    return _guarded(path, lambda: maker(*exact))


def _exactly(arguments: list[Any], count: int, path: str) -> list[Any]:
    if len(arguments) != count:
        raise RequirementWireError(path=path, problem=f"wanted {count} arguments, got {len(arguments)}")
    return arguments


def _guarded(path: str, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except ValueRefused as error:
        problem = f"wanted {error.wanted}, got {shown(error.got)}"
        raise RequirementWireError(path=f"{path}.{error.path}", problem=problem) from error
    except RequirementWireError:
        raise
    except RequirementError as error:
        raise RequirementWireError(path=path, problem=str(error)) from error

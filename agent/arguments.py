"""The arguments of a call: declared once, checked completely before the handler runs.

A check is a function `(value, path) -> typed value` that raises `BadArgument` with the path. Unlike unknown fields of a
request, which are ignored, an unknown argument is an error: a mistyped `limit` must not silently mean "no limit".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ..capabilities.errors import shown
from .errors import BadArgument
from .nearest import nearest

Check = Callable[[Any, str], Any]

# Longer than any name, address or label; a requirement has its own bound.
TEXT_BYTES = 1024


_REQUIRED: Any = object()


@attrs.frozen
class Argument:
    """One argument. It must be given unless it has a `default`; a default is not checked."""

    name: str
    check: Check
    default: Any = _REQUIRED


def check_arguments(declared: Sequence[Argument], given: object) -> dict[str, Any]:
    """Every declared argument with its checked value or default.

    Raises:
        BadArgument: one is missing, unknown, or not what its check wants.
    """
    found: Mapping[str, Any] = {} if given is None else _map(given, "args")
    checked: dict[str, Any] = {}
    used = 0
    for argument in declared:
        if argument.name in found:
            used += 1
            checked[argument.name] = argument.check(found[argument.name], argument.name)
        elif argument.default is _REQUIRED:
            raise refuse(argument.name, "it must be given")
        else:
            checked[argument.name] = argument.default
    if used != len(found):
        names = [argument.name for argument in declared]
        stranger = next(name for name in found if name not in names)
        raise _unknown(stranger, names)
    return checked


def refuse(path: str, problem: str, hint: str | None = None) -> BadArgument:
    return BadArgument(f"argument {path}: {problem}", hint=hint, path=path)


def flag(value: object, path: str) -> bool:
    if type(value) is bool:
        return value
    raise refuse(path, f"expected true or false, got {shown(value)}")


def integer(lowest: int, highest: int) -> Check:
    def check(value: object, path: str) -> int:
        if type(value) is int and lowest <= value <= highest:
            return value
        raise refuse(path, f"expected a whole number from {lowest} to {highest}, got {shown(value)}")

    return check


def text(longest: int = TEXT_BYTES, *, empty: bool = False) -> Check:
    def check(value: object, path: str) -> str:
        if type(value) is not str:
            raise refuse(path, f"expected text, got {shown(value)}")
        if not value and not empty:
            raise refuse(path, "expected text, got none")
        if len(value) > longest or len(value.encode("utf-8", "replace")) > longest:
            raise refuse(path, f"expected at most {longest} bytes of text, got {len(value)} characters")
        return value

    return check


def one_of(*choices: str) -> Check:
    def check(value: object, path: str) -> str:
        if type(value) is str and value in choices:
            return value
        close = nearest(value, choices) if type(value) is str else None
        hint = f"did you mean {close}?" if close else None
        raise refuse(path, f"expected one of {', '.join(choices)}, got {shown(value)}", hint)

    return check


def list_of(check_item: Check, *, most: int, least: int = 0) -> Check:
    def check(value: Any, path: str) -> tuple[Any, ...]:
        items = _list(value, path)
        if not least <= len(items) <= most:
            raise refuse(path, f"expected a list of {least} to {most} items, got {len(items)}")
        return tuple(check_item(item, f"{path}[{place}]") for place, item in enumerate(items))

    return check


def map_of(check_key: Check, check_value: Check, *, most: int, least: int = 0) -> Check:
    def check(value: Any, path: str) -> dict[str, Any]:
        pairs = _map(value, path)
        if not least <= len(pairs) <= most:
            raise refuse(path, f"expected a map of {least} to {most} entries, got {len(pairs)}")
        return {check_key(key, path): check_value(item, f"{path}.{key}") for key, item in pairs.items()}

    return check


def either(plain: Check, other: Check, when: type) -> Check:
    """`plain` for values of the type `when`, else `other`."""

    def check(value: object, path: str) -> Any:
        return plain(value, path) if type(value) is when else other(value, path)

    return check


def _unknown(name: str, names: Sequence[str]) -> BadArgument:
    close = nearest(name, names)
    known = f"known are {', '.join(names)}" if names else "this call takes no arguments"
    return refuse(name, "there is no such argument", f"did you mean {close}?" if close else known)


def _map(value: Any, path: str) -> Mapping[str, Any]:
    if (kind := type(value).__name__) != "dict":
        raise refuse(path, f"expected a map, got {kind}")
    for key in value:
        if type(key) is not str:
            raise refuse(path, f"expected text for a key, got {shown(key)}")
    return value


def _list(value: Any, path: str) -> Sequence[Any]:
    if (kind := type(value).__name__) != "list":
        raise refuse(path, f"expected a list, got {kind}")
    return value

"""What one configuration value may be: each kind takes what TOML gives, or the text of a flag or the environment.

A kind is a function `(value) -> typed value` that raises `UnfitValue` with what it expected; the caller adds where the
value came from. Those for one address are in `addresses`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..capabilities.errors import ValueRefused
from ..capabilities.values import CapValue, check_key, check_value
from ..gossip.member import Address
from .addresses import seed
from .nearest import nearest

# As long as the longest host name, and safe in file names, table columns and the requirement language.
_NAME_CHARACTERS = 253
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class UnfitValue(ValueError):
    """The text says what was expected instead."""


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise UnfitValue("expected true or false")


def text(value: object) -> str:
    if isinstance(value, str) and "\0" not in value:
        return value
    raise UnfitValue("expected a string")


def path(value: object) -> str:
    """A path; a leading `~` is the home of the user who runs the agent."""
    given = text(value)
    try:
        return str(Path(given).expanduser()) if given.startswith("~") else given
    except RuntimeError:
        raise UnfitValue(f"expected a path; the home of {given!r} is not known") from None


def absolute_paths(value: Any) -> tuple[str, ...]:
    if not _is_list(value):
        raise UnfitValue('expected a list of paths, such as ["/srv/models"]')
    found = tuple(path(item) for item in value)
    for item in found:
        if not item.startswith("/"):
            raise UnfitValue(f"expected paths that begin with /, not {item!r}")
    return found


def name(value: object) -> str:
    if isinstance(value, str) and len(value) > _NAME_CHARACTERS:
        raise UnfitValue(f"expected a name of at most {_NAME_CHARACTERS} characters, not {len(value)}")
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise UnfitValue("expected a name that begins with a letter or digit, then also dots, underscores and hyphens")


def name_or_empty(value: object) -> str:
    return "" if value == "" else name(value)


def one_of(*choices: str) -> Callable[[object], str]:
    def choose(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        close = nearest(value, choices) if isinstance(value, str) else None
        raise UnfitValue(f"expected one of {', '.join(choices)}" + (f"; did you mean {close}?" if close else ""))

    return choose


def seeds(value: Any) -> tuple[Address, ...]:
    """Host names or addresses of nodes to join; names are resolved again at every try."""
    if not _is_list(value):
        raise UnfitValue('expected a list of addresses, such as ["10.0.0.7:7931"]')
    return tuple(seed(item) for item in value)


def label(key: str, value: object) -> CapValue:
    """An operator label, by the rules that every record follows."""
    try:
        check_key(key, "the key")
        return check_value(value, "the value")
    except ValueRefused as error:
        raise UnfitValue(f"expected {error.wanted.removeprefix('a key of ')}, for {error.path}") from None


def boolean_from_text(given: str) -> object:
    folded = given.strip().lower()
    return True if folded in _TRUE else False if folded in _FALSE else given


def list_from_text(given: str) -> object:
    return [part.strip() for part in given.split(",") if part.strip()]


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))

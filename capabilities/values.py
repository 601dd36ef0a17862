"""Label values and keys: Bool, Int and Str, never one taken for another.

In Python `True == 1` and `hash(True) == hash(1)`, so every comparison in this package looks at the type first:
`same` compares, `typed` makes a key for equality, and all checks are `type(value) is int`, never `isinstance`.
"""

import enum
import re
from collections.abc import Iterable

from .errors import ValueRefused

CapValue = bool | int | str

# Signed 64 bit: what every language's Int and msgpack's integers hold alike.
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
# A label is a fact, not a document; a record of 60 labels has to fit a datagram.
STR_BYTES = 256
# Long enough for a DNS prefix and a name (`feature.node.example.org/cpu-model`).
KEY_CHARACTERS = 128

KEY_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]*")


class Kind(enum.Enum):
    """The type of a value, under the name that the contract and the messages use."""

    BOOL = "Bool"
    INT = "Int"
    STR = "Str"


_KINDS = {bool: Kind.BOOL, int: Kind.INT, str: Kind.STR}


def kind_of(value: CapValue) -> Kind:
    return _KINDS[type(value)]


def same(left: CapValue, right: CapValue) -> bool:
    """Equal in type and value: `True`, `1` and `"1"` are three values."""
    return type(left) is type(right) and left == right


def typed(value: CapValue) -> tuple[str, CapValue]:
    """A key under which values are equal only when `same` says so (for attrs `eq=` and for sets)."""
    return type(value).__name__, value


def typed_all(values: Iterable[CapValue]) -> tuple[tuple[str, CapValue], ...]:
    return tuple(typed(value) for value in values)


def check_key(key: object, path: str = "key") -> str:
    """Return `key` when it is a label key; raise `ValueRefused` otherwise."""
    if type(key) is not str or len(key) > KEY_CHARACTERS or KEY_PATTERN.fullmatch(key) is None:
        wanted = f"a key of at most {KEY_CHARACTERS} letters, digits, '_', '.', '-' or '/' that begins with a letter"
        raise ValueRefused(path=path, wanted=wanted, got=key)
    return key


def check_value(value: object, path: str = "value") -> CapValue:
    """Return `value` when it is a Bool, Int or Str within its limits; raise `ValueRefused` otherwise.

    Subclasses (an enum member, numpy's str) are refused too: they would not come back from the wire as they went.
    """
    if type(value) is bool:
        return value
    if type(value) is int:
        return check_int(value, path)
    return check_str(value, path, wanted="a Bool, an Int or a Str")


def check_int(value: object, path: str = "value", low: int = INT_MIN, high: int = INT_MAX) -> int:
    if type(value) is not int or not low <= value <= high:
        wanted = "an Int of 64 bits" if (low, high) == (INT_MIN, INT_MAX) else f"an Int from {low} to {high}"
        raise ValueRefused(path=path, wanted=wanted, got=value)
    return value


def check_bool(value: object, path: str = "value") -> bool:
    if type(value) is not bool:
        raise ValueRefused(path=path, wanted="a Bool", got=value)
    return value


def check_str(value: object, path: str = "value", wanted: str = "a Str") -> str:
    if type(value) is not str:
        raise ValueRefused(path=path, wanted=wanted, got=value)
    # A character takes at least one byte: the length test spares encoding a huge string.
    if len(value) > STR_BYTES or len(value.encode("utf-8", "surrogatepass")) > STR_BYTES:
        raise ValueRefused(path=path, wanted=f"a Str of at most {STR_BYTES} bytes of UTF-8", got=value)
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueRefused(path=path, wanted="a Str of valid Unicode", got=value)
    return value

"""Terms and values as they are written; `text.parse_requirement` reads exactly this back.

An Int is written in its label's own form (`cuda>=12.4`), a Str bare only where it cannot be read as anything else. An
Int asked of a label that is known as Str is written `int(5)`, because a bare number there is read as a Str.
"""

import re
from collections.abc import Iterable

from .constraints import (
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
from .devices import DEVICE_FIELDS
from .labels import Form, Label, form_for, lookup
from .values import CapValue, Kind

TRUE, FALSE = "true", "false"
SIGNS = {"equals": "=", "not_equals": "!=", "min_int": ">=", "max_int": "<="}

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/:+@]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def label_of(key: str, *, in_device: bool) -> Label | None:
    return DEVICE_FIELDS.get(key) if in_device else lookup(key)


def form_of(key: str, label: Label | None) -> Form:
    return label.form if label is not None else form_for(key)


def write_terms(terms: Iterable[Constraint], *, in_device: bool = False) -> str:
    return ", ".join(write_term(term, in_device=in_device) for term in terms)


def write_term(term: Constraint, *, in_device: bool = False) -> str:
    """The text of one term; `in_device` when it stands in the brackets of a device term."""
    match term:
        case IsTrue():
            return term.key
        case IsFalse():
            return "!" + term.key
        case HasLabel() | LacksLabel():
            return f"{term.op}({term.key})"
        case AnyOf():
            return "(" + " | ".join(write_terms(terms, in_device=in_device) for terms in term.alternatives) + ")"
        case Devices():
            return _write_devices(term)
        case MinVersion():
            return f"{term.key}>=v{term.version}"
        case MinInt() | MaxInt():
            return term.key + SIGNS[term.op] + write_value(term.key, term.bound, in_device=in_device)
        case Equals() | NotEquals():
            return term.key + SIGNS[term.op] + write_value(term.key, term.value, in_device=in_device)
        case OneOf():
            values = ", ".join(write_value(term.key, value, in_device=in_device) for value in term.values)
            return f"{term.key} in ({values})"


def _write_devices(term: Devices) -> str:
    inside = [write_term(where, in_device=True) for where in term.where]
    if term.same is not None:
        inside.append(f"same({term.same})")
    return f"{term.kind}[{', '.join(inside)}]" + (f"*{term.count}" if term.count > 1 else "")


def write_value(key: str, value: CapValue, *, in_device: bool = False) -> str:
    """The text of a value asked of this label."""
    if type(value) is bool:
        return TRUE if value else FALSE
    if type(value) is int:
        label = label_of(key, in_device=in_device)
        if label is not None and label.kind is Kind.STR:
            return f"int({value})"
        if form_of(key, label) is Form.HUNDREDS and value >= 0:
            return f"{value // 100}.{value % 100}"
        return str(value)
    text = str(value)
    return text if _BARE.fullmatch(text) and text not in (TRUE, FALSE) else quote(text)


def quote(text: str) -> str:
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"

"""What a bare value means for the label that it is asked of: numbers, amounts of memory, versions."""

import re

import attrs

from .errors import CapabilityError
from .labels import Form, lookup
from .values import CapValue, Kind
from .written import FALSE, TRUE, form_of, label_of

# Bytes; the names are case-sensitive, as the units are.
UNITS = {
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
}  # fmt: skip
MEBIBYTE = 2**20

# An Int of 64 bits has 19 digits and a sign; longer ones are refused before they are converted.
INT_CHARACTERS = 20

_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_AMOUNT = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?([A-Za-z]+)")
_TWO_NUMBERS = re.compile(r"([0-9]{1,17})\.([0-9]{1,2})")
_DOTTED = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_VERSION = re.compile(r"v[0-9]+(?:\.[0-9]+)*")


@attrs.define
class AmountError(CapabilityError):
    """A value that does not suit its label; the parser adds the column."""

    problem: str
    hint: str = ""


def read_value(key: str, raw: str, *, in_device: bool) -> CapValue:
    """The value of a bare word after `=`, `!=` or in a list."""
    if raw in (TRUE, FALSE):
        return raw == TRUE
    label = label_of(key, in_device=in_device)
    if label is not None and label.kind is Kind.STR:
        return raw
    number = read_int(key, raw, form_of(key, label))
    return raw if number is None else number


def read_bound(key: str, raw: str, operator: str, *, in_device: bool) -> int | str:
    """The Int bound, or the version text, of a bare word after `>=` or `<=`."""
    label = label_of(key, in_device=in_device)
    versions = operator == ">="
    if versions and _VERSION.fullmatch(raw):
        return raw
    if versions and label is not None and label.kind is Kind.STR and _DOTTED.fullmatch(raw):
        return raw
    form = form_of(key, label)
    number = read_int(key, raw, form)
    if number is not None:
        return number
    if versions and label is None and _DOTTED.fullmatch(raw):
        return raw
    raise _no_bound(key, raw, operator, form)


def read_int(key: str, raw: str, form: Form) -> int | None:
    """The Int that `raw` writes in this form; None when it is a word. Raises `AmountError` when it is neither."""
    if _INT.fullmatch(raw):
        if len(raw) > INT_CHARACTERS:
            raise AmountError(problem="a number of more than 64 bits")
        number = int(raw)
        # `cuda>=12` is CUDA 12.0; nobody means version 0.12, and 1204 is already in the label's form.
        return number * 100 if form is Form.HUNDREDS and 0 <= number < 100 else number
    if form is Form.PLAIN or not raw[:1].isdigit():
        return None
    if form is Form.HUNDREDS:
        found = _TWO_NUMBERS.fullmatch(raw)
        if found is None:
            raise AmountError(problem=f"{key} is a version of two numbers", hint=f"write {key}>=12.4")
        return int(found[1]) * 100 + int(found[2])
    return _mebibytes(key, raw)


def _mebibytes(key: str, raw: str) -> int:
    found = _AMOUNT.fullmatch(raw)
    if found is None:
        raise AmountError(problem=f"{key} is an amount of memory", hint=f"write a number of MiB or {key}>=24GB")
    whole, fraction, unit = found[1], found[2] or "", found[3]
    size = UNITS.get(unit)
    if size is None:
        raise AmountError(problem=f"unknown unit {unit}", hint=_nearest_unit(unit))
    return int(whole + fraction) * size // (10 ** len(fraction) * MEBIBYTE)


def _nearest_unit(unit: str) -> str:
    letter = unit[0].upper()
    if letter + "B" not in UNITS:
        return "units are MB, GB, TB (powers of ten) and MiB, GiB, TiB (powers of two)"
    return f"did you mean {letter}B (powers of ten) or {letter}iB (powers of two)?"


def _no_bound(key: str, raw: str, operator: str, form: Form) -> AmountError:
    if _AMOUNT.fullmatch(raw):
        memory = lookup(key + "_mb")
        hint = f"did you mean {memory.name}?" if memory else "units are for amounts of memory: keys that end in _mb"
        return AmountError(problem=f"{key} is no amount of memory", hint=hint)
    if operator == "<=":
        problem = f"{key}<= wants {form.value}"
        return AmountError(problem=problem, hint="versions have only a lower bound" if "." in raw else "")
    hint = f"write {key}={raw} for equality" if raw[:1].isalpha() else ""
    return AmountError(problem=f"{key}>= wants {form.value}, or a version such as v5.15", hint=hint)

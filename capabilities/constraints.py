"""The terms of a requirement: frozen values with public fields, each with the one test that decides it.

`fault(facts)` answers None when the term holds for these labels (or for the fields of one device), else why it does
not. It allocates nothing: a query runs it over ten thousand records. `Devices`, and an `AnyOf` that holds one, need the
devices of the record beside its labels; `matching.py` decides those.

`kind` and `type` are compared first everywhere: a Bool is no Int, `1` is not `"1"`.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeAlias

import attrs

from .devices import DEVICE_FIELDS, MAX_COUNT, check_kind
from .errors import RequirementError, ValueRefused
from .labels import nearest
from .values import CapValue, check_int, check_key, check_str, check_value, typed, typed_all

Facts: TypeAlias = Mapping[str, CapValue]

# Parentheses inside parentheses: nobody reads more, and every walk over a requirement may recurse.
MAX_DEPTH = 8

_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")


class FailKind(enum.StrEnum):
    """Why a term does not hold."""

    MISSING = "missing"
    FALSE = "false"
    TYPE = "type"
    VALUE = "value"
    VERSION = "version"
    DEVICE_COUNT = "device_count"
    ALTERNATIVES = "alternatives"


MISSING, FALSE, TYPE, VALUE = FailKind.MISSING, FailKind.FALSE, FailKind.TYPE, FailKind.VALUE


def parse_version(text: str) -> tuple[int, ...] | None:
    """The leading dotted numbers without trailing zeros, so that 5.15 equals 5.15.0; None when there are none.

    What follows the numbers is ignored: `5.15.153.1-microsoft-standard-WSL2` is 5.15.153.1, `1.21rc1` is 1.21.
    """
    found = _VERSION.match(text)
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _key(key: object) -> str:
    return check_key(key)


def _value(value: object) -> CapValue:
    return check_value(value)


def _int(value: object) -> int:
    return check_int(value)


@attrs.frozen
class Equals:
    """The label is of this type and has this value."""

    op: ClassVar[str] = "equals"
    key: str = attrs.field(converter=_key)
    value: CapValue = attrs.field(converter=_value, eq=typed)

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if actual is None:
            return MISSING
        if type(actual) is not type(self.value):
            return TYPE
        return None if actual == self.value else VALUE


@attrs.frozen
class NotEquals:
    """The label exists, is of this type, and has another value."""

    op: ClassVar[str] = "not_equals"
    key: str = attrs.field(converter=_key)
    value: CapValue = attrs.field(converter=_value, eq=typed)

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if actual is None:
            return MISSING
        if type(actual) is not type(self.value):
            return TYPE
        return None if actual != self.value else VALUE


@attrs.frozen
class MinInt:
    """The label is an Int and at least `bound`."""

    op: ClassVar[str] = "min_int"
    key: str = attrs.field(converter=_key)
    bound: int = attrs.field(converter=_int)

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if type(actual) is not int:
            return MISSING if actual is None else TYPE
        return None if actual >= self.bound else VALUE


@attrs.frozen
class MaxInt:
    """The label is an Int and at most `bound`."""

    op: ClassVar[str] = "max_int"
    key: str = attrs.field(converter=_key)
    bound: int = attrs.field(converter=_int)

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if type(actual) is not int:
            return MISSING if actual is None else TYPE
        return None if actual <= self.bound else VALUE


@attrs.frozen
class HasLabel:
    """The label exists, whatever its value: `gpu_nvidia` exists and is false where there is no NVIDIA GPU."""

    op: ClassVar[str] = "has"
    key: str = attrs.field(converter=_key)

    def fault(self, facts: Facts) -> FailKind | None:
        return None if self.key in facts else MISSING


@attrs.frozen
class LacksLabel:
    """The label does not exist, whatever its value would be."""

    op: ClassVar[str] = "lacks"
    key: str = attrs.field(converter=_key)

    def fault(self, facts: Facts) -> FailKind | None:
        return VALUE if self.key in facts else None


@attrs.frozen
class IsTrue:
    """The label is true, a non-zero Int or a non-empty Str."""

    op: ClassVar[str] = "is_true"
    key: str = attrs.field(converter=_key)

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if actual:
            return None
        return MISSING if actual is None else FALSE


@attrs.frozen
class IsFalse:
    """The exact negation of `IsTrue`: holds also where the label is missing."""

    op: ClassVar[str] = "is_false"
    key: str = attrs.field(converter=_key)

    def fault(self, facts: Facts) -> FailKind | None:
        return VALUE if facts.get(self.key) else None


def _values(values: Iterable[object]) -> tuple[CapValue, ...]:
    if isinstance(values, str):  # the likeliest slip: its letters would become the values
        raise ValueRefused(path="values", wanted="several values", got=values)
    unique = {typed(check_value(value)): None for value in values}
    if not unique:
        raise RequirementError("one_of needs at least one value")
    return tuple(value for _, value in unique)


@attrs.frozen
class OneOf:
    """The label equals any of `values`, in type and value."""

    op: ClassVar[str] = "one_of"
    key: str = attrs.field(converter=_key)
    values: tuple[CapValue, ...] = attrs.field(converter=_values, eq=typed_all)

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if actual is None:
            return MISSING
        kind = type(actual)
        failure = TYPE
        for value in self.values:
            if type(value) is kind:
                if value == actual:
                    return None
                failure = VALUE
        return failure


def _version_text(text: object) -> str:
    version = check_str(text, "version")
    if _VERSION.fullmatch(version) is None:
        raise ValueRefused(path="version", wanted="dotted numbers such as 1.21", got=text)
    return version.removeprefix("v")


@attrs.frozen
class MinVersion:
    """The label is a Str that begins with dotted numbers (after a `v` or not) which are at least `version`."""

    op: ClassVar[str] = "min_version"
    key: str = attrs.field(converter=_key)
    version: str = attrs.field(converter=_version_text)
    numbers: tuple[int, ...] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "numbers", parse_version(self.version))

    def fault(self, facts: Facts) -> FailKind | None:
        actual = facts.get(self.key)
        if type(actual) is not str:
            return MISSING if actual is None else TYPE
        numbers = parse_version(actual)
        return None if numbers is not None and numbers >= self.numbers else FailKind.VERSION


def _alternatives(alternatives: "Iterable[Iterable[Constraint]]") -> "tuple[tuple[Constraint, ...], ...]":
    result = tuple(tuple(alternative) for alternative in alternatives)
    if not result or not all(result):
        raise RequirementError("any_of needs at least one alternative, and each at least one term")
    return result


@attrs.frozen
class AnyOf:
    """At least one alternative holds; an alternative is a tuple of terms that must all hold."""

    op: ClassVar[str] = "any_of"
    key: ClassVar[str] = ""
    alternatives: "tuple[tuple[Constraint, ...], ...]" = attrs.field(converter=_alternatives)
    depth: int = attrs.field(init=False, eq=False, repr=False)
    weight: int = attrs.field(init=False, eq=False, repr=False)
    device_terms: int = attrs.field(init=False, eq=False, repr=False)
    """How many `Devices` terms are inside: with any, `fault` is not the judge, `matching.fits` is."""

    def __attrs_post_init__(self) -> None:
        inside = [term for terms in self.alternatives for term in terms]
        depth = 1 + max(term.depth if isinstance(term, AnyOf) else 0 for term in inside)
        if depth > MAX_DEPTH:
            raise RequirementError(f"alternatives nest deeper than {MAX_DEPTH}")
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "weight", 1 + sum(weight(term) for term in inside))
        object.__setattr__(self, "device_terms", sum(device_terms(term) for term in inside))

    def fault(self, facts: Facts) -> FailKind | None:
        for terms in self.alternatives:
            if all_hold(terms, facts):
                return None
        return FailKind.ALTERNATIVES


def _where(terms: "Iterable[Constraint]") -> "tuple[Term, ...]":
    return tuple(_check_where(term) for term in terms)


def _check_where(term: "Constraint") -> "Term":
    if isinstance(term, Devices):
        raise RequirementError("a devices term cannot stand inside another one")
    if isinstance(term, AnyOf):
        for alternative in term.alternatives:
            _where(alternative)
    elif term.key not in DEVICE_FIELDS:
        closest = nearest(term.key, DEVICE_FIELDS)
        hint = f"did you mean {closest}?" if closest else "a device has " + ", ".join(DEVICE_FIELDS)
        raise RequirementError(f"a device has no field {term.key}; {hint}")
    return term


def _same(field: object) -> str | None:
    if field is None or (type(field) is str and field in DEVICE_FIELDS):
        return field
    raise ValueRefused(path="same", wanted="one of " + ", ".join(DEVICE_FIELDS), got=field)


@attrs.frozen
class Devices:
    """At least `count` devices of `kind`, each satisfying every `where` term, that no other `Devices` term uses.

    With `same`, all of them agree on that field; a device whose field is unknown agrees with none. `where` reads the
    fields of `devices.DEVICE_FIELDS`.
    """

    op: ClassVar[str] = "devices"
    kind: str = attrs.field(converter=check_kind)
    count: int = attrs.field(default=1, converter=lambda count: check_int(count, "count", 1, MAX_COUNT))
    where: "tuple[Term, ...]" = attrs.field(default=(), converter=_where)
    same: str | None = attrs.field(default=None, converter=_same)

    @property
    def key(self) -> str:
        return self.kind


Scalar: TypeAlias = Equals | NotEquals | MinInt | MaxInt | HasLabel | LacksLabel | IsTrue | IsFalse | OneOf | MinVersion
Term: TypeAlias = Scalar | AnyOf
Constraint: TypeAlias = Term | Devices


def device_terms(term: Constraint) -> int:
    """How many `Devices` terms this one is or holds; with none, `fault` decides it."""
    if isinstance(term, Devices):
        return 1
    return term.device_terms if isinstance(term, AnyOf) else 0


def weight(term: Constraint) -> int:
    """What the term costs to hold and to test: itself, what is inside it, and each value of a `OneOf`."""
    if isinstance(term, OneOf):
        return 1 + len(term.values)
    if isinstance(term, AnyOf):
        return term.weight
    return 1 + sum(weight(inside) for inside in term.where) if isinstance(term, Devices) else 1


def all_hold(terms: Iterable[Constraint], facts: Facts) -> bool:
    """Whether every term holds for these facts; a `Devices` term never does for facts alone."""
    return all(not isinstance(term, Devices) and term.fault(facts) is None for term in terms)

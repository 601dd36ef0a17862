"""The terms that a record fails, each with what was wanted and what was found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from .constraints import (
    AnyOf,
    Constraint,
    Devices,
    Equals,
    FailKind,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
    device_terms,
)
from .matching import fits, most
from .values import CapValue

if TYPE_CHECKING:
    from .record import NodeCapabilities

Wanted = CapValue | tuple[CapValue, ...] | None


@attrs.frozen
class FailingTerm:
    """One term that does not hold. `term` is its place in the requirement (or alternative), from 0.

    `actual` is the value found, the number of devices that can be had, or None when there is nothing. For an `AnyOf`,
    `alternatives` holds the failing terms of each alternative.
    """

    term: int
    constraint: Constraint
    actual: CapValue | None
    kind: FailKind
    alternatives: "tuple[tuple[FailingTerm, ...], ...]" = ()

    @property
    def key(self) -> str:
        """The label, the kind of device, or "" for an `AnyOf`."""
        return self.constraint.key

    @property
    def op(self) -> str:
        """The builder method that makes such a term."""
        return self.constraint.op

    @property
    def wanted(self) -> Wanted:
        return wanted(self.constraint)

    @property
    def text(self) -> str:
        """The term as it is written."""
        from .written import write_term

        return write_term(self.constraint)

    def as_map(self) -> dict[str, object]:
        """A plain map for the socket and JSON."""
        plain: dict[str, object] = {
            "term": self.term,
            "key": self.key,
            "op": self.op,
            "wanted": list(self.wanted) if isinstance(self.wanted, tuple) else self.wanted,
            "actual": self.actual,
            "kind": self.kind.value,
            "text": self.text,
        }
        if self.alternatives:
            plain["alternatives"] = [[failing.as_map() for failing in terms] for terms in self.alternatives]
        return plain


def wanted(term: Constraint) -> Wanted:
    """The value, bound, version, values or count that the term asks for; None when it asks for none."""
    match term:
        case Equals() | NotEquals():
            return term.value
        case MinInt() | MaxInt():
            return term.bound
        case OneOf():
            return term.values
        case MinVersion():
            return term.version
        case Devices():
            return term.count
        case _:
            return None


def explain(
    constraints: Sequence[Constraint], record: "NodeCapabilities", kept: Sequence[Constraint] = ()
) -> tuple[FailingTerm, ...]:
    """All terms that do not hold; empty exactly when the record satisfies them beside the device terms `kept`.

    Device terms are added one by one, in order: one fails when it cannot be served beside those before it.
    """
    failing: list[FailingTerm] = []
    served = list(kept)
    joint = [term for term in constraints if device_terms(term)]
    together = not joint or fits([*served, *joint], record)
    for place, term in enumerate(constraints):
        if device_terms(term):
            if together or fits([*served, term], record):
                served.append(term)
            else:
                failing.append(_unserved(place, term, record, served))
        elif not isinstance(term, Devices):
            kind = term.fault(record.labels)
            if kind is not None:
                failing.append(_unheld(place, term, kind, record))
    return tuple(failing)


def _unheld(place: int, term: Constraint, kind: FailKind, record: "NodeCapabilities") -> FailingTerm:
    if isinstance(term, AnyOf):
        inside = tuple(explain(terms, record) for terms in term.alternatives)
        return FailingTerm(term=place, constraint=term, actual=None, kind=kind, alternatives=inside)
    return FailingTerm(term=place, constraint=term, actual=record.get(term.key), kind=kind)


def _unserved(place: int, term: Constraint, record: "NodeCapabilities", served: Sequence[Constraint]) -> FailingTerm:
    if isinstance(term, Devices):
        if not any(group.kind == term.kind for group in record.devices):
            return FailingTerm(term=place, constraint=term, actual=None, kind=FailKind.MISSING)
        spare = most(term, served, record)
        return FailingTerm(term=place, constraint=term, actual=spare, kind=FailKind.DEVICE_COUNT)
    alternatives = term.alternatives if isinstance(term, AnyOf) else ()
    inside = tuple(explain(terms, record, served) for terms in alternatives)
    return FailingTerm(term=place, constraint=term, actual=None, kind=FailKind.ALTERNATIVES, alternatives=inside)

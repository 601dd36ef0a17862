"""A requirement: terms that must all hold, built step by step, checked against a record."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from .constraints import (
    AnyOf,
    Constraint,
    Devices,
    Equals,
    FailKind,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
    Term,
    device_terms,
    weight,
)
from .errors import RequirementError
from .failing import FailingTerm, explain
from .matching import MAX_DEVICE_TERMS, fits
from .values import CapValue

if TYPE_CHECKING:
    from .record import NodeCapabilities

# Terms, alternatives' terms and listed values together. A requirement is written by a person or a small program; the
# bound keeps what one request can make every node test.
MAX_WEIGHT = 512


@attrs.frozen
class PlacementRequirement:
    """Terms that must all hold. Builder methods return a new requirement; `str()` is the text form.

    Raises `RequirementError` when there are too many terms, `ValueRefused` for an illegal key or value.
    """

    constraints: tuple[Constraint, ...] = attrs.field(default=(), converter=tuple[Constraint, ...])
    plain: tuple[Term, ...] = attrs.field(init=False, eq=False, repr=False)
    """The terms that labels alone decide."""
    joint: tuple[Constraint, ...] = attrs.field(init=False, eq=False, repr=False)
    """The terms that need devices: decided together, because they may not share any."""

    def __attrs_post_init__(self) -> None:
        total = sum(weight(term) for term in self.constraints)
        if total > MAX_WEIGHT:
            raise RequirementError(f"{total} terms and values; at most {MAX_WEIGHT}")
        if sum(device_terms(term) for term in self.constraints) > MAX_DEVICE_TERMS:
            raise RequirementError(f"more than {MAX_DEVICE_TERMS} device terms")
        plain = tuple(term for term in self.constraints if not isinstance(term, Devices) and not device_terms(term))
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "joint", tuple(term for term in self.constraints if device_terms(term)))

    def satisfied_by(self, record: "NodeCapabilities | None") -> bool:
        """Whether `check` would find nothing; a node without a record satisfies only an empty requirement."""
        if record is None:
            return not self.constraints
        facts = record.labels
        for term in self.plain:
            if term.fault(facts) is not None:
                return False
        return not self.joint or fits(self.joint, record)

    def check(self, record: "NodeCapabilities | None") -> tuple[FailingTerm, ...]:
        """All terms that do not hold, in order; empty exactly when the record satisfies the requirement."""
        if self.satisfied_by(record):
            return ()
        if record is None:
            missing = FailKind.MISSING
            return tuple(
                FailingTerm(term=place, constraint=term, actual=None, kind=missing)
                for place, term in enumerate(self.constraints)
            )
        return explain(self.constraints, record)

    def is_empty(self) -> bool:
        """Whether it matches every node, also one without a record."""
        return not self.constraints

    def with_terms(self, *terms: Constraint) -> "PlacementRequirement":
        return PlacementRequirement((*self.constraints, *terms))

    def equals(self, key: str, value: CapValue) -> "PlacementRequirement":
        return self.with_terms(Equals(key, value))

    def not_equals(self, key: str, value: CapValue) -> "PlacementRequirement":
        return self.with_terms(NotEquals(key, value))

    def min_int(self, key: str, bound: int) -> "PlacementRequirement":
        return self.with_terms(MinInt(key, bound))

    def max_int(self, key: str, bound: int) -> "PlacementRequirement":
        return self.with_terms(MaxInt(key, bound))

    def has(self, key: str) -> "PlacementRequirement":
        return self.with_terms(HasLabel(key))

    def lacks(self, key: str) -> "PlacementRequirement":
        return self.with_terms(LacksLabel(key))

    def is_true(self, key: str) -> "PlacementRequirement":
        return self.with_terms(IsTrue(key))

    def is_false(self, key: str) -> "PlacementRequirement":
        return self.with_terms(IsFalse(key))

    def one_of(self, key: str, values: Iterable[CapValue]) -> "PlacementRequirement":
        return self.with_terms(OneOf(key, values))

    def min_version(self, key: str, version: str) -> "PlacementRequirement":
        return self.with_terms(MinVersion(key, version))

    def any_of(self, *alternatives: "PlacementRequirement") -> "PlacementRequirement":
        return self.with_terms(AnyOf(alternative.constraints for alternative in alternatives))

    def devices(
        self, kind: str, count: int = 1, where: "PlacementRequirement | None" = None, same: str | None = None
    ) -> "PlacementRequirement":
        """At least `count` devices of `kind` that satisfy `where` and, with `same`, agree on that field."""
        terms = where.constraints if where is not None else ()
        return self.with_terms(Devices(kind, count, terms, same))

    def validate(self) -> None:
        """Raise `ContradictionError` when no record could ever satisfy it: called when it is submitted."""
        from .contradictions import refuse_contradictions

        refuse_contradictions(self)

    def to_wire(self) -> list[object]:
        """Plain lists of msgpack values: `[["min_int", "ram_mb", 4096], ...]`."""
        from .requirement_wire import encode_requirement

        return encode_requirement(self)

    @classmethod
    def from_wire(cls, value: object) -> "PlacementRequirement":
        """The requirement that `to_wire` wrote. Raises `RequirementError`, and nothing else, for anything else."""
        from .requirement_wire import decode_requirement

        return decode_requirement(value)

    def __str__(self) -> str:
        from .written import write_terms

        return write_terms(self.constraints)

"""Terms that no record can satisfy together, found by trying values.

Whether terms about one label can hold together is decided by the terms themselves: if any value satisfies them all,
one of a few candidates does (listed values, bounds and their neighbours, a falsy and a truthy value of each type, and
no value at all), because every other term rules out at most one neighbour.
"""

from collections.abc import Iterator, Sequence

import attrs

from .constraints import AnyOf, Constraint, Devices, Equals, MaxInt, MinInt, MinVersion, NotEquals, OneOf, Scalar
from .errors import ContradictionError
from .requirement import PlacementRequirement
from .values import INT_MAX, INT_MIN, CapValue, typed
from .written import write_term


@attrs.frozen
class _Conflict:
    """The fewest terms that clash; `own` when none of them stands outside the parentheses looked at."""

    terms: tuple[str, ...]
    own: bool = True


def refuse_contradictions(requirement: PlacementRequirement) -> None:
    """Raise `ContradictionError` when no record can satisfy the requirement, or one of its alternatives."""
    conflict = _conflict(requirement.constraints, (), in_device=False)
    if conflict is not None:
        raise ContradictionError(conflict.terms)


def _conflict(terms: Sequence[Constraint], around: Sequence[Scalar], *, in_device: bool) -> _Conflict | None:
    """The first clash among these terms, or of them with the terms around them."""
    own = [term for term in terms if not isinstance(term, (AnyOf, Devices))]
    for key in dict.fromkeys(term.key for term in own):
        inside = [term for term in own if term.key == key]
        outside = [term for term in around if term.key == key]
        for together in (inside, [*outside, *inside]):
            if not _possible(together):
                texts = tuple(write_term(term, in_device=in_device) for term in _core(together))
                return _Conflict(texts, own=together is inside)
    for term in terms:
        found = None
        if isinstance(term, Devices):
            found = _conflict(term.where, (), in_device=True)
        elif isinstance(term, AnyOf):
            found = _in_alternatives(term, [*around, *own], in_device=in_device)
        if found is not None:
            return found
    return None


def _in_alternatives(term: AnyOf, around: Sequence[Scalar], *, in_device: bool) -> _Conflict | None:
    """A clash inside one alternative, or one of every alternative with what stands around."""
    clashes = [_conflict(terms, around, in_device=in_device) for terms in term.alternatives]
    for clash in clashes:
        if clash is not None and clash.own:
            return clash
    if not all(clashes):
        return None
    involved = {text for clash in clashes if clash is not None for text in clash.terms}
    outside = dict.fromkeys(write_term(outer, in_device=in_device) for outer in around)
    named = [text for text in outside if text in involved]
    return _Conflict((*named, write_term(term, in_device=in_device)), own=False)


def _possible(terms: Sequence[Scalar]) -> bool:
    """Whether some value, or none, satisfies all these terms about one label."""
    if len(terms) < 2:
        return True
    excluded = {typed(term.value) for term in terms if isinstance(term, NotEquals)}
    key = terms[0].key
    for value in _candidates(terms):
        if value is not None and typed(value) in excluded:
            continue
        facts = {} if value is None else {key: value}
        if all(term.fault(facts) is None for term in terms):
            return True
    return False


def _core(terms: list[Scalar]) -> list[Scalar]:
    """The terms without those that the contradiction does not need."""
    core = list(terms)
    for term in terms:
        without = [other for other in core if other is not term]
        if not _possible(without):
            core = without
    return core


def _candidates(terms: Sequence[Scalar]) -> Iterator[CapValue | None]:
    yield None
    for term in terms:
        if isinstance(term, Equals):
            yield term.value
            return
        if isinstance(term, OneOf):
            yield from term.values
            return
    yield from (False, True, 0, "")
    yield from _ints(terms)
    versions = [term for term in terms if isinstance(term, MinVersion)]
    stem = max(versions, key=lambda term: term.numbers).version + "." if versions else "v"
    yield from (f"{stem}{number}" for number in range(len(terms) + 1))


def _ints(terms: Sequence[Scalar]) -> Iterator[int]:
    """As many neighbours of the bounds as the terms could rule out one by one, and one more."""
    lows = [term.bound for term in terms if isinstance(term, MinInt)]
    highs = [term.bound for term in terms if isinstance(term, MaxInt)]
    if lows or not highs:
        low = max(lows, default=1)
        yield from range(low, min(low + len(terms), INT_MAX) + 1)
    else:
        high = min(highs)
        yield from range(high, max(high - len(terms), INT_MIN) - 1, -1)

"""Whether the devices of a record can serve several `Devices` terms at once, no device serving two.

Devices of a group are interchangeable, so this is a flow from terms (wanting `count`) to groups (having `count`). By
Hall's theorem it exists exactly when every set of terms wants no more than the groups that serve any of them have;
with at most `MAX_DEVICE_TERMS` terms there are at most 255 sets, and no flow has to be computed. A `same` term is
served from one class of groups, and an `AnyOf` by one alternative: both are tried in turn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from .constraints import AnyOf, Constraint, Devices, all_hold, device_terms
from .devices import DeviceGroup
from .values import CapValue

if TYPE_CHECKING:
    from .record import NodeCapabilities

# 2^8 sets of terms is what one test looks at; nobody wants nine different kinds of accelerator on one node.
MAX_DEVICE_TERMS = 8
# `same` on different fields makes the search exponential in theory. Real machines end within some tens of tests; past
# this bound the answer is "does not fit", which never promises what is not there.
MAX_TESTS = 1024


def fits(terms: Sequence[Constraint], record: "NodeCapabilities") -> bool:
    """Whether all these terms, each a `Devices` or an `AnyOf` that holds one, can be served together."""
    demands = [term for term in terms if isinstance(term, Devices)]
    choices = [term for term in terms if isinstance(term, AnyOf)]
    return _choose(demands, choices, record)


def _choose(demands: list[Devices], choices: list[AnyOf], record: "NodeCapabilities") -> bool:
    if not choices:
        return serves(demands, record.devices)
    first, rest = choices[0], choices[1:]
    open_alternatives = [
        [term for term in terms if device_terms(term)]
        for terms in first.alternatives
        if all_hold([term for term in terms if not device_terms(term)], record.labels)
    ]
    if [] in open_alternatives:  # it holds without any device: nothing can be better
        return _choose(demands, rest, record)
    for terms in open_alternatives:
        more = [term for term in terms if isinstance(term, Devices)]
        nested = [term for term in terms if isinstance(term, AnyOf)]
        if _choose([*demands, *more], [*rest, *nested], record):
            return True
    return False


def eligible(term: Devices, group: DeviceGroup) -> bool:
    """Whether each device of the group could serve the term."""
    return (
        group.kind == term.kind
        and (term.same is None or term.same in group.facts)
        and all_hold(term.where, group.facts)
    )


def serves(demands: Sequence[Devices], groups: Sequence[DeviceGroup]) -> bool:
    """Whether disjoint devices of the groups can serve all demands."""
    if len(demands) == 1 and demands[0].same is None:
        return sum(group.count for group in groups if eligible(demands[0], group)) >= demands[0].count
    # Equal demands stand side by side, so that the search can skip their permutations.
    ordered = sorted(demands, key=lambda term: (term.same is None, repr(term)))
    return _Search(ordered, groups).run()


def most(term: Devices, kept: Sequence[Constraint], record: "NodeCapabilities") -> int:
    """The greatest count of the term that can be served beside the kept terms, below its own count."""
    low, high = 0, min(term.count, sum(group.count for group in record.devices if group.kind == term.kind) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits([*kept, attrs.evolve(term, count=middle)], record):
            low = middle
        else:
            high = middle
    return low


@attrs.define
class _Class:
    """Groups that agree on the field of a `same` term, as positions in the record."""

    value: CapValue
    members: set[int] = attrs.field(factory=set[int])


class _Search:
    """One question: bit i of `masks[g]` says that group g may serve demand i."""

    def __init__(self, demands: Sequence[Devices], groups: Sequence[DeviceGroup]) -> None:
        self.demands = demands
        self.groups = groups
        self.tests = 0
        sets = range(1 << len(demands))
        self.wanted = [sum(term.count for i, term in enumerate(demands) if chosen >> i & 1) for chosen in sets]

    def run(self) -> bool:
        masks = [sum(1 << i for i, term in enumerate(self.demands) if eligible(term, group)) for group in self.groups]
        together = [i for i, term in enumerate(self.demands) if term.same is not None]
        classes = {i: self._classes(i, masks) for i in together}
        return self._place(together, classes, masks, first=0)

    def _classes(self, demand: int, masks: list[int]) -> list[_Class]:
        field = self.demands[demand].same or ""
        found: dict[CapValue, _Class] = {}
        for position, (mask, group) in enumerate(zip(masks, self.groups, strict=True)):
            if mask >> demand & 1:
                value = group.facts[field]
                found.setdefault(value, _Class(value)).members.add(position)
        return list(found.values())

    def _place(self, pending: list[int], classes: dict[int, list[_Class]], masks: list[int], first: int) -> bool:
        """Fix a class for each pending `same` demand; `first` is where an equal demand before it stands."""
        if not self._enough(masks):
            return False
        if not pending:
            return True
        demand, rest = pending[0], pending[1:]
        equal = bool(rest) and self.demands[rest[0]] == self.demands[demand]
        for number in range(first, len(classes[demand])):
            members = classes[demand][number].members
            narrowed = [mask if at in members else mask & ~(1 << demand) for at, mask in enumerate(masks)]
            if self._place(rest, classes, narrowed, first=number if equal else 0):
                return True
        return False

    def _enough(self, masks: list[int]) -> bool:
        """Hall's condition for these masks; false also when the search has gone on for too long."""
        self.tests += 1
        if self.tests > MAX_TESTS:
            return False
        capacity: dict[int, int] = {}
        for mask, group in zip(masks, self.groups, strict=True):
            if mask:
                capacity[mask] = capacity.get(mask, 0) + group.count
        for chosen in range(1, len(self.wanted)):
            available = sum(count for mask, count in capacity.items() if mask & chosen)
            if available < self.wanted[chosen]:
                return False
        return True

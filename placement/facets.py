"""Which nodes satisfy a term, by label: one facet per label that was ever asked for.

A facet of few values keeps a bit set per value and lets the term itself judge each value; one of many values keeps
them in order, where ranges and equal values are quick. The capability evaluator stays the only judge of an answer:
a facet may only spare it nodes that it would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import attrs

from ..capabilities.constraints import (
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
    NotEquals,
    OneOf,
    Scalar,
)
from ..capabilities.devices import DeviceGroup
from ..capabilities.record import NodeCapabilities
from ..capabilities.requirement import PlacementRequirement
from ..capabilities.values import CapValue
from .bits import wide_mask
from .order import Order

Typed: TypeAlias = tuple[int, CapValue]
Labelled: TypeAlias = Iterable[tuple[int, NodeCapabilities]]

# Up to this many different values a label has a bit set for each; beyond, they would cost more than an order.
_FEW = 64
# Labels, and terms of one label, that are remembered: queries come from programs that repeat themselves, and a stranger
# who asks for ever new ones must not fill the memory.
_MAX_FACETS = 256
_MAX_MEMO = 64

_RANKS = {bool: 0, int: 1, str: 2}
_INT, _AFTER_INT = 1, 2
_FALSY: tuple[CapValue, ...] = (False, 0, "")


def _typed(value: CapValue) -> Typed:
    return _RANKS[type(value)], value


class Facet:
    """The values of one label over all nodes, immutable but for what it remembers of earlier questions."""

    __slots__ = ("_memo", "_order", "_values", "has", "key")

    def __init__(self, key: str, has: int, values: Mapping[Typed, int] | None, order: Order | None) -> None:
        self.key = key
        self.has = has
        """The slots that have the label."""
        self._values = values
        self._order = order
        self._memo: dict[Scalar, int] = {}

    @classmethod
    def of(cls, key: str, nodes: Labelled) -> Facet:
        slots: dict[Typed, list[int]] = {}
        size = 0
        for slot, record in nodes:
            size = max(size, slot + 1)
            value = record.labels.get(key)
            if value is not None:
                slots.setdefault(_typed(value), []).append(slot)
        has = wide_mask((slot for held in slots.values() for slot in held), size)
        if len(slots) <= _FEW:
            return cls(key, has, {value: wide_mask(held, size) for value, held in slots.items()}, None)
        return cls(key, has, None, Order.of((*value, slot) for value, held in slots.items() for slot in held))

    def moved(self, slot: int, old: CapValue | None, new: CapValue | None) -> Facet:
        """The facet after the node in the slot changed its value; None is no label."""
        if old is new or (type(old) is type(new) and old == new):
            return self
        bit = 1 << slot
        has = self.has | bit if new is not None else self.has & ~bit
        before = None if old is None else _typed(old)
        after = None if new is None else _typed(new)
        if self._values is not None:
            values = dict(self._values)
            if before is not None:
                values[before] &= ~bit
                if not values[before]:
                    del values[before]
            if after is not None:
                values[after] = values.get(after, 0) | bit
            # Twice as many before it is rebuilt by the next view, so that a label at the border does not flap.
            return Facet(self.key, has, values, None)
        order = (self._order or Order()).moved(
            None if before is None else (*before, slot), None if after is None else (*after, slot)
        )
        return Facet(self.key, has, None, order)

    @property
    def is_crowded(self) -> bool:
        """Whether it got far more values than a bit set each is good for: it should be built anew."""
        return self._values is not None and len(self._values) > 2 * _FEW

    def satisfying(self, term: Scalar, everyone: int) -> int:
        """The slots, of those with a record, whose label satisfies the term."""
        known = self._memo.get(term)
        if known is None:
            known = self._few(term) if self._values is not None else self._many(term)
            if len(self._memo) < _MAX_MEMO:
                self._memo[term] = known
        # A node without the label is judged like an empty record.
        return known | (everyone & ~self.has) if term.fault({}) is None else known

    def _few(self, term: Scalar) -> int:
        mask = 0
        for (_, value), slots in (self._values or {}).items():
            if term.fault({self.key: value}) is None:
                mask |= slots
        return mask

    def _many(self, term: Scalar) -> int:
        order = self._order or Order()
        match term:
            case Equals():
                return self._equal(term.value)
            case NotEquals():
                rank, _ = _typed(term.value)
                return order.between((rank,), (rank + 1,)) & ~self._equal(term.value)
            case OneOf():
                return self._any(term.values)
            case MinInt():
                return order.between((_INT, term.bound), (_AFTER_INT,))
            case MaxInt():
                return order.between((_INT,), (_INT, term.bound + 1))
            case HasLabel():
                return self.has
            case LacksLabel():
                return 0
            case IsTrue():
                return self.has & ~self._any(_FALSY)
            case IsFalse():
                return self._any(_FALSY)
            case _:
                return self._one_by_one(term)

    def _equal(self, value: CapValue) -> int:
        entry = _typed(value)
        # No slot is negative, and nothing is greater than infinity.
        return (self._order or Order()).between(entry, (*entry, float("inf")))

    def _any(self, values: Iterable[CapValue]) -> int:
        mask = 0
        for value in values:
            mask |= self._equal(value)
        return mask

    def _one_by_one(self, term: Scalar) -> int:
        held = [entry[2] for entry in self._order or () if term.fault({self.key: entry[1]}) is None]
        return wide_mask(held, self.has.bit_length())


@attrs.frozen
class DeviceFacet:
    """Which nodes have exactly these devices: machines come in few kinds, so each kind is judged once."""

    kinds: Mapping[tuple[DeviceGroup, ...], int]

    @classmethod
    def of(cls, nodes: Labelled) -> DeviceFacet:
        slots: dict[tuple[DeviceGroup, ...], list[int]] = {}
        size = 0
        for slot, record in nodes:
            size = max(size, slot + 1)
            slots.setdefault(record.devices, []).append(slot)
        return cls({devices: wide_mask(held, size) for devices, held in slots.items()})

    def moved(self, slot: int, old: tuple[DeviceGroup, ...] | None, new: tuple[DeviceGroup, ...] | None) -> DeviceFacet:
        if old == new:
            return self
        kinds, bit = dict(self.kinds), 1 << slot
        if old is not None:
            kinds[old] &= ~bit
            if not kinds[old]:
                del kinds[old]
        if new is not None:
            kinds[new] = kinds.get(new, 0) | bit
        return DeviceFacet(kinds)

    def satisfying(self, terms: tuple[Constraint, ...]) -> int:
        """The slots whose devices serve all these `Devices` terms together."""
        asked = PlacementRequirement(terms)
        mask = 0
        for devices, slots in self.kinds.items():
            if asked.satisfied_by(NodeCapabilities(devices=devices)):
                mask |= slots
        return mask


class Facets:
    """All facets of one set of records. They are built when first asked for and then carried along."""

    __slots__ = ("_by_key", "_devices", "_nodes", "everyone")

    def __init__(
        self,
        nodes: Callable[[], Labelled],
        everyone: int,
        by_key: dict[str, Facet] | None = None,
        devices: DeviceFacet | None = None,
    ) -> None:
        self._nodes = nodes
        self.everyone = everyone
        """The slots that have a record."""
        self._by_key = {} if by_key is None else by_key
        self._devices = devices

    def moved(
        self,
        nodes: Callable[[], Labelled],
        slot: int,
        old: NodeCapabilities | None,
        new: NodeCapabilities | None,
    ) -> Facets:
        """The facets after one node's record changed; `nodes` gives the records of the new view."""
        if old is new:
            return Facets(nodes, self.everyone, self._by_key, self._devices)
        bit = 1 << slot
        everyone = self.everyone & ~bit if new is None else self.everyone | bit
        by_key: dict[str, Facet] = {}
        for key, facet in tuple(self._by_key.items()):
            moved = facet.moved(slot, None if old is None else old.get(key), None if new is None else new.get(key))
            if not moved.is_crowded:
                by_key[key] = moved
        devices = None
        if self._devices is not None:
            devices = self._devices.moved(
                slot, None if old is None else old.devices, None if new is None else new.devices
            )
        return Facets(nodes, everyone, by_key, devices)

    def satisfying(self, requirement: PlacementRequirement) -> tuple[int, bool]:
        """The slots that may satisfy the requirement, and whether all of them do.

        Without the second, each still has to be judged: an alternative of both labels and devices is not resolved.
        """
        mask, exact = self.everyone, True
        for term in requirement.plain:
            mask &= self._term(term)
        devices = tuple(term for term in requirement.joint if isinstance(term, Devices))
        if len(devices) < len(requirement.joint):
            exact = False
        if devices and mask:
            if self._devices is None:
                self._devices = DeviceFacet.of(self._nodes())
            mask &= self._devices.satisfying(devices)
        return mask, exact

    def _term(self, term: Constraint) -> int:
        if isinstance(term, Devices):
            return self.everyone
        if not isinstance(term, AnyOf):
            return self._facet(term.key).satisfying(term, self.everyone)
        mask = 0
        for alternative in term.alternatives:
            held = self.everyone
            for inside in alternative:
                held &= self._term(inside)
            mask |= held
        return mask

    def _facet(self, key: str) -> Facet:
        facet = self._by_key.get(key)
        if facet is None:
            facet = Facet.of(key, self._nodes())
            if len(self._by_key) < _MAX_FACETS:
                self._by_key[key] = facet
        return facet

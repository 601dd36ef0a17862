"""What a placement preselects by: facts of every node, and sets of slots for the rules of the filter.

Like the index it belongs to, a fleet is never changed: an update gives a new one. It is built when the first task is
placed, and carried along from then on.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from ..capabilities.labels import tool_label
from .bits import wide_mask, with_bit
from .derive import facts_of
from .facts import MadeOf, NodeFacts
from .filter import guards_against
from .headroom import reduced_floor
from .nodes import NodeRecord
from .order import Entry, Order
from .policy import FilterPolicy, ScorePolicy
from .score import node_points
from .slots import Slots, in_slots
from .task import OLLAMA, Task

K = TypeVar("K")

_ANY_AMOUNT: Entry = (float("-inf"),)


@attrs.frozen(eq=False)
class Member:
    """The facts of a node in its slot, with what is read of them again and again."""

    slot: int
    facts: NodeFacts
    points: int
    """The part of the weighted fit score that depends on the node alone."""
    suffers: bool
    """Whether a guard keeps heavy tasks away from it."""

    @property
    def memory(self) -> Entry:
        return self.facts.allocatable_at_best_mb, self.slot


def _member(record: NodeRecord, here: str, slot: int) -> Member:
    facts = facts_of(record, here)
    have = facts.resources
    if have is None:
        return Member(slot, facts, 0, suffers=False)
    suffers = bool(guards_against(have, FilterPolicy.default))
    return Member(slot, facts, node_points(facts, have, ScorePolicy.weighted), suffers)


@attrs.frozen(kw_only=True, eq=False)
class Fleet:
    """Every node as placement sees it. Masks are sets of slots."""

    here: str
    members: Slots[Member]
    suffering: int = 0
    proved: int = 0
    """Nodes with verified TurboQuant: their floors are lower."""
    ollama: int = 0
    reserving: int = 0
    """Nodes on which something is reserved."""
    tools: Mapping[str, int]
    """Lower-case tool -> the nodes that list it."""
    kinds: Mapping[MadeOf, int]
    by_memory: Order

    @classmethod
    def of(cls, records: Iterable[tuple[int, NodeRecord]], size: int, here: str) -> Fleet:
        by_slot: list[Member | None] = [None] * size
        for slot, record in records:
            by_slot[slot] = _member(record, here, slot)
        held = [member for member in by_slot if member is not None]
        tools: dict[str, list[int]] = {}
        kinds: dict[MadeOf, list[int]] = {}
        for member in held:
            kinds.setdefault(member.facts.made_of, []).append(member.slot)
            for tool in member.facts.lower_tools:
                tools.setdefault(tool, []).append(member.slot)
        return cls(
            here=here,
            members=in_slots(by_slot),
            suffering=wide_mask((member.slot for member in held if member.suffers), size),
            proved=wide_mask((member.slot for member in held if member.facts.turboquant_verified), size),
            ollama=wide_mask((member.slot for member in held if member.facts.ollama_usable), size),
            reserving=wide_mask((member.slot for member in held if member.facts.reserved_mb), size),
            tools={tool: wide_mask(slots, size) for tool, slots in tools.items()},
            kinds={made_of: wide_mask(slots, size) for made_of, slots in kinds.items()},
            by_memory=Order.of(member.memory for member in held),
        )

    def moved(self, slot: int, record: NodeRecord | None) -> Fleet:
        """The fleet after one node changed; None is a node that is gone."""
        old = self.members[slot] if slot < self.members.size else None
        new = None if record is None else _member(record, self.here, slot)
        before = None if old is None else old.facts
        after = None if new is None else new.facts
        return Fleet(
            here=self.here,
            members=self.members.set(slot, new),
            suffering=with_bit(self.suffering, slot, on=new is not None and new.suffers),
            proved=with_bit(self.proved, slot, on=after is not None and after.turboquant_verified),
            ollama=with_bit(self.ollama, slot, on=after is not None and after.ollama_usable),
            reserving=with_bit(self.reserving, slot, on=after is not None and after.reserved_mb != 0),
            tools=_moved(self.tools, slot, _tools(before), _tools(after)),
            kinds=_moved(self.kinds, slot, _make(before), _make(after)),
            by_memory=self.by_memory.moved(None if old is None else old.memory, None if new is None else new.memory),
        )

    def by_name(self) -> tuple[NodeFacts, ...]:
        """All nodes in an order that tells nothing of when each came: the same for everyone who knows the same."""
        held = [member.facts for member in self.members if member is not None]
        return tuple(sorted(held, key=operator.attrgetter("name", "node_id")))

    def fitting(self, task: Task) -> int:
        """The nodes with the tools and the memory, and, for a heavy task, without a guard against them.

        Only what the facts of the node decide; the evaluator has the last word on the chosen ones.
        """
        mask = self._with_memory(task)
        for tool in task.lower_tools:
            mask &= self.ollama if tool == OLLAMA else self._having(tool)
        return mask & ~self.suffering if task.is_heavy else mask

    def _having(self, tool: str) -> int:
        return self.tools.get(tool, 0) | self.tools.get(tool_label(tool).removeprefix("tool_"), 0)

    def _with_memory(self, task: Task) -> int:
        floor = max(0, task.min_free_ram_mb)
        mask = self.at_least(floor)
        if floor and task.prefers_turboquant and self.proved:
            mask |= self.proved & self.at_least(reduced_floor(floor))
        if task.memory_request_mb > 0:
            mask &= self.at_least(task.memory_request_mb)
        return mask

    def at_least(self, amount_mb: int) -> int:
        """The nodes that may have so much allocatable memory."""
        return self.by_memory.between((amount_mb,) if amount_mb > 0 else _ANY_AMOUNT, (float("inf"),))


def _tools(facts: NodeFacts | None) -> frozenset[str]:
    return frozenset() if facts is None else facts.lower_tools


def _make(facts: NodeFacts | None) -> frozenset[MadeOf]:
    return frozenset() if facts is None else frozenset((facts.made_of,))


def _moved(sets: Mapping[K, int], slot: int, old: frozenset[K], new: frozenset[K]) -> Mapping[K, int]:
    """The sets after the slot left those of `old` and came into those of `new`; an empty set is dropped."""
    if old == new:
        return sets
    changed, bit = dict(sets), 1 << slot
    for key in old - new:
        changed[key] &= ~bit
        if not changed[key]:
            del changed[key]
    for key in new - old:
        changed[key] = changed.get(key, 0) | bit
    return changed

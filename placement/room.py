"""Where chosen nodes lie to each other: spread over a label, and apart from each other by a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from .facts import NodeFacts
from .nodes import NodeRecord
from .state import Situation, Value

# Spread and anti-affinity over labels that cross each other need a search; past this many tries the answer is no.
_MOST_TRIES = 20_000

Node = TypeVar("Node", NodeFacts, NodeRecord)


class Room:
    """How many of the chosen nodes lie where, and whether one more may.

    Every place that a candidate lies in counts for the skew, also while it is empty.
    """

    def __init__(self, candidates: Iterable[NodeFacts | NodeRecord], situation: Situation) -> None:
        self._spread, self._apart = situation.options.spread, situation.options.anti_affinity
        self._used: set[Value] = set()
        self._count: Counter[Value] = Counter()
        if self._spread is not None:
            self._count.update(dict.fromkeys((_value(node, self._spread.label) for node in candidates), 0))
            self._count.update(value for value in situation.placed_values if value in self._count)

    @property
    def is_free(self) -> bool:
        """Whether the options ask nothing: any nodes will do."""
        return self._spread is None and self._apart is None

    @property
    def crosses(self) -> bool:
        """Whether both options are given: then the first fitting nodes may block a better set."""
        return self._spread is not None and self._apart is not None

    def has(self, node: NodeFacts | NodeRecord) -> bool:
        if self._apart is not None and _value(node, self._apart.label) in self._used:
            return False
        if self._spread is None:
            return True
        after = self._count[_value(node, self._spread.label)] + 1
        return after - min(self._count.values()) <= self._spread.max_skew

    def enter(self, node: NodeFacts | NodeRecord) -> None:
        self._move(node, 1)

    def leave(self, node: NodeFacts | NodeRecord) -> None:
        self._move(node, -1)

    def _move(self, node: NodeFacts | NodeRecord, by: int) -> None:
        if self._spread is not None:
            self._count[_value(node, self._spread.label)] += by
        if self._apart is not None:
            value = _value(node, self._apart.label)
            if by > 0:
                self._used.add(value)
            else:
                self._used.discard(value)


def take(ordered: Sequence[Node], situation: Situation) -> tuple[Node, ...]:
    """The first nodes of the order that lie to each other as the options ask, as many as they ask for, or none."""
    count = situation.options.count
    room = Room(ordered, situation)
    if len(ordered) < count:
        return ()
    if room.is_free:
        return tuple(ordered[:count])
    taken = _greedy(ordered, room, count)
    if not taken and room.crosses:
        return _search(ordered, Room(ordered, situation), count)
    return taken


def _value(node: NodeFacts | NodeRecord, label: str) -> Value:
    record = node.capabilities
    value = None if record is None else record.get(label)
    return type(value), value


def _greedy(ordered: Sequence[Node], room: Room, count: int) -> tuple[Node, ...]:
    """Always the first node that may be taken.

    With only one of the two options this finds an answer if there is one: taking a node never closes a place that
    another choice would have left open.
    """
    left = list(ordered)
    taken: list[Node] = []
    while len(taken) < count:
        at = next((at for at, node in enumerate(left) if room.has(node)), None)
        if at is None:
            return ()
        taken.append(left.pop(at))
        room.enter(taken[-1])
    return tuple(taken)


def _search(ordered: Sequence[Node], room: Room, count: int) -> tuple[Node, ...]:
    """The first answer in depth-first order, within `_MOST_TRIES` tries."""
    taken: list[int] = []
    start, mask = 0, 0
    # What may follow depends on which nodes are taken, not on their order: a set is tried once.
    tried: set[int] = set()
    for _ in range(_MOST_TRIES):
        untried = (at for at in range(start, len(ordered)) if not mask >> at & 1 and mask | 1 << at not in tried)
        at = next((at for at in untried if room.has(ordered[at])), None)
        if at is not None:
            room.enter(ordered[at])
            taken.append(at)
            start, mask = 0, mask | 1 << at
            tried.add(mask)
            if len(taken) == count:
                return tuple(ordered[place] for place in taken)
        elif taken:
            start = taken.pop()
            room.leave(ordered[start])
            mask ^= 1 << start
            start += 1
        else:
            break
    return ()

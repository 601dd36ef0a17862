"""`find_suitable_nodes`: the nodes whose capabilities satisfy a requirement, least loaded first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import attrs

from ..capabilities.requirement import PlacementRequirement
from .errors import OptionRefused
from .filter import standing_against
from .index import Index, Row, load_eighths
from .nodes import NodeRecord
from .options import NO_OPTIONS, Options
from .order import Entry
from .room import take
from .state import Situation
from .task import Task
from .view import View

# Fetching and sorting a node costs this many times what stepping over one in the kept order does.
_SORT_COST = 6


@attrs.frozen(kw_only=True)
class Found:
    """The answer of a query: nodes in order, and what to know about the answer.

    `matching` counts the nodes that satisfy it before any limit. `fallback` is which fallback requirement was taken,
    from 0; None for the first requirement. An `isolated` view may know much too few nodes.
    """

    nodes: tuple[NodeRecord, ...]
    matching: int
    fallback: int | None = None
    isolated: bool = False


def find_suitable_nodes(
    view: View,
    requirement: PlacementRequirement,
    limit: int | None = None,
    *,
    now: float,
    options: Options = NO_OPTIONS,
) -> Found:
    """The nodes that can take new work and satisfy the requirement, best first.

    Order: tier, preferred weight, load in eighths of a usable CPU (unknown last), allocatable GiB descending, name,
    node id; no policy and no seed applies. A node without a record matches only an empty requirement. Dead, left,
    cordoned and draining nodes are never listed, suspects come last, or not at all with `strict`.

    With a `count` of two and more, or a spread, the answer is exactly `count` nodes that lie to each other as asked,
    or none; `limit` then has no effect.

    Raises:
        OptionRefused: the limit is no whole number from 1.
    """
    if limit is not None and (type(limit) is not int or limit < 1):
        raise OptionRefused("limit", "a whole number from 1, or none", limit)
    found = [0] * (1 + len(options.fallbacks))
    for place, asked in enumerate((requirement, *options.fallbacks)):
        situation = Situation(
            Task(requirement=asked), now=now, options=options, query=True, capabilities_of=view.capabilities_of
        )
        query = _Query(view, situation, asked)
        nodes, found[place] = query.set_of_nodes() if options.asks_for_a_set else query.first(limit)
        if nodes or (found[place] and not options.asks_for_a_set):
            taken = place - 1 if place else None
            return Found(nodes=nodes, matching=found[place], fallback=taken, isolated=view.isolated)
    return Found(nodes=(), matching=found[0], isolated=view.isolated)


def suitable_in_order(view: View, situation: Situation) -> tuple[NodeRecord, ...]:
    """All nodes that satisfy the query of this situation, best first, however many it wants together."""
    return _Query(view, situation, situation.task.requirement or PlacementRequirement()).first(None)[0]


class _Query:
    """One requirement against one view: a set of slots, put in order as far as somebody reads."""

    def __init__(self, view: View, situation: Situation, requirement: PlacementRequirement) -> None:
        self._index = view.index
        self._local = view.get(view.here)
        self._situation = situation
        self._mask = self._index.present & self._index.schedulable
        exact = True
        if not requirement.is_empty():
            satisfying, exact = self._index.facets.satisfying(requirement)
            self._mask &= satisfying
        if situation.options.strict:
            self._mask &= ~self._index.suspect
        # What the masks do not know is judged node by node before anything is counted.
        if not exact or situation.options.names_nodes:
            for row in self._index.rows.chosen(self._mask):
                if standing_against(row.record, situation):
                    self._mask &= ~(1 << row.load[-1])

    def first(self, limit: int | None) -> tuple[tuple[NodeRecord, ...], int]:
        """The best nodes, and how many there are."""
        count = self._mask.bit_count()
        wanted = count if limit is None else min(limit, count)
        return tuple(islice(self._ordered(wanted), wanted)), count

    def set_of_nodes(self) -> tuple[tuple[NodeRecord, ...], int]:
        """A whole set of nodes, or nothing."""
        count = self._mask.bit_count()
        return take(tuple(self._ordered(count)), self._situation), count

    def _ordered(self, wanted: int) -> Iterator[NodeRecord]:
        """All nodes of the mask, best first, each judged; cheap while about `wanted` are read."""
        ordered = self._by_preference() if self._situation.options.prefer else self._by_tier(wanted)
        judged = (record for record in ordered if not standing_against(record, self._situation))
        best = next(judged, None)
        if best is None:
            return
        first = self._local_over(best)
        yield first
        if first is not best:
            yield best
        for record in judged:
            if record is not first:
                yield record

    def _by_tier(self, wanted: int) -> Iterator[NodeRecord]:
        alive, fresh = self._mask & ~self._index.suspect, self._index.fresh(self._situation.now)
        for tier in (alive & fresh, alive & ~fresh, self._mask & self._index.suspect):
            yield from _by_load(self._index, tier, wanted)

    def _by_preference(self) -> Iterator[NodeRecord]:
        now = self._situation.now
        rows = self._index.rows.chosen(self._mask)
        rows.sort(key=lambda row: (row.record.tier(now), -self._points(row.record), row.load))
        return (row.record for row in rows)

    def _points(self, record: NodeRecord) -> int:
        wishes = self._situation.options.prefer
        return sum(wish.weight for wish in wishes if wish.requirement.satisfied_by(record.capabilities))

    def _local_over(self, best: NodeRecord) -> NodeRecord:
        """The deciding node, when it is preferred, fits, and is not much more loaded than the best."""
        margin, local, now = self._situation.options.prefer_local, self._local, self._situation.now
        if margin is None or local is None or not self._mask >> self._index.slot_of[local.node_id] & 1:
            return best
        near = local.tier(now) <= best.tier(now) and load_eighths(local) <= load_eighths(best) + margin
        return local if near and not standing_against(local, self._situation) else best


def _by_load(index: Index, mask: int, wanted: int) -> Iterator[NodeRecord]:
    """The nodes of the mask in load order: few are sorted, many are met while walking the kept order."""
    count, size = mask.bit_count(), index.rows.size
    if count * count * _SORT_COST < wanted * size:
        rows = index.rows.chosen(mask)
        rows.sort(key=_place)
        yield from (row.record for row in rows)
        return
    data = mask.to_bytes((size >> 3) + 1, "little")
    for block in index.by_load.blocks:
        for entry in block:
            slot = entry[-1]
            if data[slot >> 3] >> (slot & 7) & 1:
                row = index.rows[slot]
                if row is not None:
                    yield row.record


def _place(row: Row) -> Entry:
    return row.load

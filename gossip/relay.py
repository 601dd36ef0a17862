"""Vitals on the way: our own row in every ping and ack, others' passed on freshest first within a budget of bytes."""

from __future__ import annotations

from heapq import nlargest

import attrs

from . import items
from .core import Core
from .effects import Change
from .table import NEVER
from .vitals import PACKED_BYTES, Vitals, worth_telling

# Our row changes at most once in the first and is renewed at least once in the second, in seconds.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
_ITEM_BYTES = items.ITEM_HEADER + 26 + PACKED_BYTES
_MOST_FRESH = 64  # rows worth passing on; older ones are not fresh
_MOST_SENDS = 6
_OLDEST = 60.0  # seconds; whoever lacks it will hear a newer one first


class VitalsRelay:
    """Keeps and passes on vitals. The budget is a bucket of one second's bytes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._fresh: dict[bytes, int] = {}
        self._tokens = 0.0
        self._filled_at = NEVER

    def set_own(self, vitals: Vitals, now: float) -> bool:
        """Take a new sample of our own; True when it became the row that is sent."""
        me = self._core.me
        if me.vitals is not None:
            held = Vitals.unpack(me.vitals)
            pause = now - me.vitals_at
            if pause < SHORTEST_PAUSE or (pause < LONGEST_PAUSE and not worth_telling(held, vitals)):
                return False
            vitals = attrs.evolve(vitals, counter=held.counter + 1)
        else:
            vitals = attrs.evolve(vitals, counter=1)
        me.vitals = vitals.pack()
        me.vitals_at = now
        self._core.changed(me.node_id, Change.VITALS)
        return True

    def take(self, item: items.VitalsItem, now: float) -> None:
        """Hold vitals of another node, if they are newer."""
        core = self._core
        entry = core.table.get(item.node_id)
        if entry is None or entry is core.me or not entry.live:
            return
        at = now - item.age
        offered = (item.generation, item.packed[:4])
        held = (entry.vitals_generation, (entry.vitals or b"")[:4])
        if offered < held:
            return
        entry = core.table.edit(item.node_id)
        entry.vitals_at = max(entry.vitals_at, at)
        if offered == held:
            return
        entry.vitals_generation = item.generation
        entry.vitals = item.packed
        entry.vitals_at = at
        core.changed(item.node_id, Change.VITALS)
        self._fresh.pop(item.node_id, None)
        self._fresh[item.node_id] = 0
        if len(self._fresh) > _MOST_FRESH:
            del self._fresh[next(iter(self._fresh))]

    def fill(self, room: int, now: float) -> list[bytes]:
        """Items of others' vitals for a packet, within its room and the budget."""
        budget = self._core.settings.vitals_budget
        if not self._fresh or not budget:
            return []
        self._tokens = min(float(budget), self._tokens + (now - self._filled_at) * budget)
        self._filled_at = now
        count = int(min(room, self._tokens) // _ITEM_BYTES)
        if count <= 0:
            return []
        table, body = self._core.table, list[bytes]()
        for node_id in nlargest(count, self._fresh, key=self._true_at):
            entry = table.get(node_id)
            if entry is None or entry.vitals is None or now - entry.vitals_at > _OLDEST:
                del self._fresh[node_id]
                continue
            body.append(items.pack_vitals(node_id, entry.vitals_generation, now - entry.vitals_at, entry.vitals))
            self._fresh[node_id] += 1
            if self._fresh[node_id] >= _MOST_SENDS:
                del self._fresh[node_id]
        self._tokens -= len(body) * _ITEM_BYTES
        return body

    def _true_at(self, node_id: bytes) -> float:
        entry = self._core.table.get(node_id)
        return NEVER if entry is None else entry.vitals_at

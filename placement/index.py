"""What makes queries over many nodes quick: rows by slot, bit sets, and orders, kept up to date row by row.

An index is never changed while somebody reads it: an update gives a new one that shares nearly everything with the
old. What is remembered on the way (facets, prefixes) only makes later answers quicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from ..capabilities.record import NodeCapabilities
from . import memory
from .bits import wide_mask, with_bit
from .derive import total_mb, usable_milli
from .facets import Facets
from .fleet import Fleet
from .nodes import STALE_AFTER_SECONDS, NodeRecord, NodeState, Schedulable
from .order import Entry, Order
from .slots import Slots, in_slots

# After every known load: a node that does not say how busy it is comes last in its tier.
UNKNOWN_LOAD = 1 << 62
_MIB_PER_GIB = 1024


def load_eighths(record: NodeRecord) -> int:
    """Load over usable CPUs, in eighths, rounded down; `UNKNOWN_LOAD` when either is unknown."""
    load = None if record.vitals is None else record.vitals.load1_centi
    milli = usable_milli(record.capabilities)
    # 8 x (centi / 100) / (milli / 1000), in whole numbers.
    return UNKNOWN_LOAD if load is None or milli <= 0 else 80 * load // milli


def load_order(record: NodeRecord) -> tuple[int, int, str, str]:
    """What orders the nodes of one tier: least loaded, then most allocatable GiB, then name and id."""
    free = None if record.vitals is None else record.vitals.ram_available_mb
    allocatable = 0 if free is None else memory.allocatable(total_mb(record.capabilities), free, record.reserved)
    return load_eighths(record), -(allocatable // _MIB_PER_GIB), record.name, record.node_id


@attrs.frozen
class Row:
    """A record in its slot, with its places in the orders."""

    record: NodeRecord
    load: Entry
    age: Entry | None


def _row(record: NodeRecord, slot: int) -> Row:
    age = None if record.vitals_at is None else (record.vitals_at, slot)
    return Row(record, (*load_order(record), slot), age)


@attrs.frozen(kw_only=True, eq=False)
class Index:
    """Rows and everything that is kept of them. Masks are sets of slots."""

    rows: Slots[Row]
    slot_of: Mapping[str, int]
    unused: tuple[int, ...] = ()
    """Slots that were given up, to be used again."""
    present: int = 0
    """Nodes that are alive or suspect."""
    suspect: int = 0
    schedulable: int = 0
    timed: int = 0
    """Nodes that ever sent vitals."""
    by_load: Order
    by_age: Order
    facets: Facets
    _fleet: list[Fleet] = attrs.field(factory=list[Fleet], alias="fleet", repr=False)
    """The fleet, once somebody asked for it: at most one."""

    @classmethod
    def of(cls, records: Iterable[NodeRecord]) -> Index:
        rows = in_slots(_row(record, slot) for slot, record in enumerate({r.node_id: r for r in records}.values()))
        size = rows.size
        held = [(slot, row.record) for slot, row in enumerate(rows) if row is not None]
        gone = (NodeState.DEAD, NodeState.LEFT)
        everyone = wide_mask((slot for slot, record in held if record.capabilities is not None), size)
        return cls(
            rows=rows,
            slot_of=MappingProxyType({record.node_id: slot for slot, record in held}),
            present=wide_mask((slot for slot, record in held if record.state not in gone), size),
            suspect=wide_mask((slot for slot, record in held if record.state is NodeState.SUSPECT), size),
            schedulable=wide_mask((slot for slot, record in held if record.schedulable is Schedulable.YES), size),
            timed=wide_mask((slot for slot, record in held if record.vitals_at is not None), size),
            by_load=Order.of(row.load for row in rows if row is not None),
            by_age=Order.of(row.age for row in rows if row is not None and row.age is not None),
            facets=Facets(lambda: _labelled(rows), everyone),
        )

    def records(self) -> Iterator[NodeRecord]:
        return (row.record for row in self.rows if row is not None)

    def get(self, node_id: str) -> NodeRecord | None:
        slot = self.slot_of.get(node_id)
        row = None if slot is None else self.rows[slot]
        return None if row is None else row.record

    def fresh(self, now: float) -> int:
        """Nodes whose vitals are young enough: the alive ones of them are the first tier."""
        return self.timed & ~self.by_age.before((now - STALE_AFTER_SECONDS,))

    def fleet(self, here: str) -> Fleet:
        """What placements preselect by; built when first asked for, then kept up to date by every change."""
        if not self._fleet or self._fleet[0].here != here:
            held = ((slot, row.record) for slot, row in enumerate(self.rows) if row is not None)
            self._fleet[:] = [Fleet.of(held, self.rows.size, here)]
        return self._fleet[0]

    def replaced(self, record: NodeRecord) -> Index:
        """With this record in its node's row, or in a new one."""
        slot = self.slot_of.get(record.node_id)
        if slot is None:
            return self._added(record)
        old = self.rows[slot]
        return self._moved(slot, old, _row(record, slot), self.slot_of, self.unused)

    def removed(self, node_id: str) -> Index:
        """Without the node; the same index when it does not hold it."""
        slot = self.slot_of.get(node_id)
        if slot is None:
            return self
        slot_of = {key: at for key, at in self.slot_of.items() if at != slot}
        return self._moved(slot, self.rows[slot], None, slot_of, (*self.unused, slot))

    def _added(self, record: NodeRecord) -> Index:
        slot, unused = (self.unused[-1], self.unused[:-1]) if self.unused else (self.rows.size, ())
        slot_of = {**self.slot_of, record.node_id: slot}
        return self._moved(slot, None, _row(record, slot), slot_of, unused)

    def _moved(
        self, slot: int, old: Row | None, new: Row | None, slot_of: Mapping[str, int], unused: tuple[int, ...]
    ) -> Index:
        rows = self.rows.set(slot, new)
        record = None if new is None else new.record
        state = None if record is None else record.state
        return Index(
            rows=rows,
            slot_of=slot_of,
            unused=unused,
            present=with_bit(self.present, slot, on=state in (NodeState.ALIVE, NodeState.SUSPECT)),
            suspect=with_bit(self.suspect, slot, on=state is NodeState.SUSPECT),
            schedulable=with_bit(
                self.schedulable, slot, on=record is not None and record.schedulable is Schedulable.YES
            ),
            timed=with_bit(self.timed, slot, on=new is not None and new.age is not None),
            by_load=self.by_load.moved(None if old is None else old.load, None if new is None else new.load),
            by_age=self.by_age.moved(None if old is None else old.age, None if new is None else new.age),
            facets=self.facets.moved(
                lambda: _labelled(rows),
                slot,
                None if old is None else old.record.capabilities,
                None if record is None else record.capabilities,
            ),
            fleet=[fleet.moved(slot, record) for fleet in self._fleet],
        )


def _labelled(rows: Slots[Row]) -> Iterator[tuple[int, NodeCapabilities]]:
    for slot, row in enumerate(rows):
        if row is not None and row.record.capabilities is not None:
            yield slot, row.record.capabilities

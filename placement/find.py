"""`find_suitable_nodes`: the nodes whose capabilities satisfy a requirement, least loaded first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from . import memory
from .nodes import NodeRecord, NodeState, Schedulable, Tier
from .view import View

if TYPE_CHECKING:
    from ..capabilities.requirement import PlacementRequirement

# After every known load: a node that does not say how busy it is comes last in its tier.
UNKNOWN_LOAD = 1 << 62


@attrs.frozen(kw_only=True)
class Found:
    """The answer of a query: nodes in order, how many matched before the limit, and whether the view is cut off."""

    nodes: tuple[NodeRecord, ...]
    matching: int
    isolated: bool = False


def find_suitable_nodes(
    view: View, requirement: PlacementRequirement, limit: int | None = None, *, now: float, strict: bool = False
) -> Found:
    """The nodes that can take new work and satisfy the requirement.

    Order: tier, load in eighths of a CPU, allocatable GiB descending, name, node id. A node without a record matches
    only an empty requirement. `strict` leaves out suspects.
    """
    worst = Tier.STALE if strict else Tier.SUSPECT
    matching = [
        record
        for record in view
        if record.schedulable is Schedulable.YES
        and record.state in (NodeState.ALIVE, NodeState.SUSPECT)
        and record.tier(now) <= worst
        and requirement.satisfied_by(record.capabilities)
    ]
    matching.sort(key=lambda record: (record.tier(now), *order_key(record)))
    return Found(nodes=tuple(matching[:limit]), matching=len(matching), isolated=view.isolated)


def order_key(record: NodeRecord) -> tuple[int, int, str, str]:
    """What orders the nodes of one tier."""
    return _load(record), -_allocatable_gib(record), record.name, record.node_id


def _int(record: NodeRecord, label: str) -> int | None:
    value = None if record.capabilities is None else record.capabilities.get(label)
    return value if type(value) is int else None


def _load(record: NodeRecord) -> int:
    """Load over usable CPUs, in eighths, rounded down."""
    milli = _int(record, "cpu_usable_milli")
    if milli is None:
        milli = 1000 * (_int(record, "cpu_count") or 0)
    load = None if record.vitals is None else record.vitals.load1_centi
    if load is None or milli <= 0:
        return UNKNOWN_LOAD
    return 80 * load // milli


def _allocatable_gib(record: NodeRecord) -> int:
    total = _int(record, "ram_limit_mb")
    if total is None:
        total = _int(record, "ram_mb") or 0
    free = None if record.vitals is None else record.vitals.ram_available_mb
    return memory.allocatable(total, free or 0, record.reserved) // 1024

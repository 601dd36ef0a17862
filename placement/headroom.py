"""How much memory a node would have left, in MiB, and what a task needs at least."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .facts import NodeFacts
from .task import Task
from .workload import peak_hint

# Verified TurboQuant keeps long contexts in about a sixth of the memory, but never in less than this.
_TURBOQUANT_SHARE = 6
_TURBOQUANT_FLOOR_MB = 1024

# A node that already carries the whole cluster's reservations pays this many times the need.
_SHARE_PENALTY = 1.5

NOT_MET = -1
"""The headroom of a node that does not have what is needed at all. A fitting node can also come out negative."""


def min_free_ram_for_node(node: NodeFacts, task: Task) -> int:
    """The floor of free MiB for this node: the task's, reduced where verified TurboQuant does the work.

    Unlike the original, the adjustment never raises a floor.
    """
    floor = max(0, task.min_free_ram_mb)
    if floor and task.prefers_turboquant and node.turboquant_verified:
        return reduced_floor(floor)
    return floor


def reduced_floor(floor_mb: int) -> int:
    """What verified TurboQuant needs of a floor."""
    share = (floor_mb + _TURBOQUANT_SHARE - 1) // _TURBOQUANT_SHARE
    return min(floor_mb, max(_TURBOQUANT_FLOOR_MB, share))


def reserved_by_all(nodes: Iterable[NodeFacts]) -> int:
    """MiB reserved on the nodes together: what a node's share is taken of."""
    return sum(node.reserved_mb for node in nodes if node.reserved_mb > 0)


def headroom(node: NodeFacts, task: Task, reserved_total_mb: int) -> int:
    """Free MiB beyond the task's need, less a penalty for the node's share of all reservations.

    The need is the floor of the task, or the class's typical peak when there is none. `NOT_MET` when the node does not
    have it.
    """
    need = min_free_ram_for_node(node, task) or peak_hint(task.workload_class)
    free = node.free_mb
    if free < need:
        return NOT_MET
    penalty = 0
    if need > 0 and node.reserved_mb > 0 and reserved_total_mb > 0:
        share = node.reserved_mb / reserved_total_mb
        penalty = rounded(need * share * _SHARE_PENALTY)
    return max(0, free - penalty) - need


def rounded(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    whole = math.floor(abs(value))
    if abs(value) - whole >= 0.5:
        whole += 1
    return whole if value >= 0 else -whole

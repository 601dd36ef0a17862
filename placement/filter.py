"""The one evaluator: every reason why a node cannot take a task.

Filter, select, explain and why-not all ask `reasons_against`; an index may only spare them nodes that it would refuse.
Every rule is evaluated, all reasons are kept, in the documented order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from .facts import NodeFacts, Resources, Status
from .failures import FailureRecord
from .headroom import min_free_ram_for_node
from .nodes import NodeRecord, NodeState, Schedulable
from .policy import FilterPolicy
from .state import Situation
from .task import OLLAMA

if TYPE_CHECKING:
    from ..capabilities.failing import FailingTerm

# Percent of time that all work stood still for memory; above, a heavy task would finish off the node.
PSI_FULL_LIMIT = 70.0
# Percent of stall at which a Linux node takes no more heavy work.
STALL_LIMIT = 15.0
# Percent of battery under which heavy work is kept away.
BATTERY_FLOOR = 20.0

LINUX_PSI = "linux-psi"
DARWIN_PRESSURE = "darwin-vm-pressure"
_HOT = frozenset(("serious", "critical"))


class ReasonKind(enum.StrEnum):
    """Why a node is excluded, in the order in which reasons are given."""

    APPLE_FM_NOT_LOCAL = "apple_fm_not_local"
    APPLE_FM_NOT_READY = "apple_fm_not_ready"
    STATUS = "status"
    CORDONED = "cordoned"
    DRAINING = "draining"
    SUSPECT = "suspect"
    CONSTRAINT = "constraint"
    AVOIDED = "avoided"
    ANTI_AFFINITY = "anti_affinity"
    LABEL_NEEDED = "label_needed"
    PRESSURE_PSI_FULL = "pressure_psi_full"
    PRESSURE_LINUX_STALL = "pressure_linux_stall"
    PRESSURE_DARWIN_HIGH = "pressure_darwin_high"
    PRESSURE_OTHER = "pressure_other"
    BATTERY_LOW = "battery_low"
    THERMAL = "thermal"
    FAILURE_MEMORY = "failure_memory"
    MEMORY_REQUEST = "memory_request"
    MIN_FREE_RAM = "min_free_ram"
    EMPIRICAL_PEAK_RAM = "empirical_peak_ram"
    MISSING_TOOLS = "missing_tools"


Kind = ReasonKind


@attrs.frozen
class Reason:
    """One reason against one node: what was wanted and what is there, in the units of its kind.

    `terms` are the failing terms of the capability requirement, for `constraint`. `beside` is a lesser reason that this
    one stands for: the floor of free memory that is not met either when a memory request is not.
    """

    kind: ReasonKind
    wanted: int | float | str | tuple[str, ...] | None = None
    actual: int | float | str | FailureRecord | None = None
    terms: tuple[FailingTerm, ...] = ()
    beside: Reason | None = None


@attrs.frozen
class Filtered:
    """Both halves of the nodes, each in input order."""

    eligible: tuple[NodeFacts, ...]
    excluded: tuple[tuple[NodeFacts, tuple[Reason, ...]], ...]


def filter_candidates(nodes: Iterable[NodeFacts], situation: Situation) -> Filtered:
    """Which nodes can take the task, and for each of the others every reason why not."""
    eligible: list[NodeFacts] = []
    excluded: list[tuple[NodeFacts, tuple[Reason, ...]]] = []
    for node in nodes:
        reasons = reasons_against(node, situation)
        if reasons:
            excluded.append((node, reasons))
        else:
            eligible.append(node)
    return Filtered(tuple(eligible), tuple(excluded))


def reasons_against(node: NodeFacts, situation: Situation) -> tuple[Reason, ...]:
    """Every reason why the node cannot take the task; empty when it can."""
    task, policy = situation.task, situation.policy.filter
    reasons: list[Reason] = []
    if task.is_apple:
        reasons += _apple(node)
    reasons += _status(node, situation)
    reasons += standing_against(node, situation)
    resources = node.resources
    if resources is not None and task.is_heavy:
        reasons += guards_against(resources, policy)
    if policy.failure_memory and situation.deciding is not None:
        failure = situation.failure(node)
        if failure is not None and failure.is_blocking:
            reasons.append(Reason(Kind.FAILURE_MEMORY, None, failure))
    reasons += _amounts(node, situation)
    missing = tuple(tool for tool in task.required_tools if not provides(node, tool))
    if missing:
        reasons.append(Reason(Kind.MISSING_TOOLS, missing))
    return tuple(reasons)


def provides(node: NodeFacts, tool: str) -> bool:
    """Whether the node has the tool; ollama is judged by what is known of ollama, not by the tool list."""
    return node.ollama_usable if tool.lower() == OLLAMA else node.has_tool(tool)


def _apple(node: NodeFacts) -> list[Reason]:
    if not node.is_local:
        return [Reason(Kind.APPLE_FM_NOT_LOCAL)]
    return [] if node.apple_ready else [Reason(Kind.APPLE_FM_NOT_READY)]


def _status(node: NodeFacts, situation: Situation) -> list[Reason]:
    """The facts must be complete. Only an installed ollama may be started on the strength of incomplete ones.

    Unlike the original, that exception does not pass an unreachable node. A query asks for no more than a node that
    is there: whether its record suffices is for the requirement to say.
    """
    if node.status == Status.COMPLETE:
        return []
    reachable = node.status != Status.UNREACHABLE
    installed = node.ollama is not None and node.ollama.installed
    if reachable and (situation.query or (situation.task.bootstraps_ollama and installed)):
        return []
    return [Reason(Kind.STATUS, Status.COMPLETE.value, str(node.status))]


def standing_against(node: NodeRecord | NodeFacts, situation: Situation) -> list[Reason]:
    """The reasons that need no amounts: what the operator, the caller's options and the requirement say."""
    reasons: list[Reason] = []
    if node.schedulable is not Schedulable.YES:
        reasons.append(Reason(Kind.CORDONED if node.schedulable is Schedulable.CORDONED else Kind.DRAINING))
    if situation.options.strict and node.state is NodeState.SUSPECT:
        reasons.append(Reason(Kind.SUSPECT))
    requirement = situation.task.requirement
    record = node.capabilities
    if requirement is not None and not requirement.satisfied_by(record):
        reasons.append(Reason(Kind.CONSTRAINT, terms=requirement.check(record)))
    if situation.avoided and not situation.avoided.isdisjoint((node.node_id, node.name)):
        reasons.append(Reason(Kind.AVOIDED))
    for label in situation.options.labels_needed:
        value = None if record is None else record.get(label)
        if value is None:
            reasons.append(Reason(Kind.LABEL_NEEDED, label))
        elif (label, type(value), value) in situation.apart_values:
            reasons.append(Reason(Kind.ANTI_AFFINITY, label, value))
    return reasons


def guards_against(resources: Resources, policy: FilterPolicy) -> list[Reason]:
    """What keeps heavy tasks away from a node that suffers already: at most one of each guard."""
    reasons: list[Reason] = []
    if policy.pressure_guard:
        reasons += _pressure(resources)
    battery = resources.battery_percent
    if policy.battery_guard and battery is not None and battery < BATTERY_FLOOR and resources.power_source != "ac":
        reasons.append(Reason(Kind.BATTERY_LOW, BATTERY_FLOOR, battery))
    elif policy.thermal_guard and resources.thermal_state.lower() in _HOT:
        reasons.append(Reason(Kind.THERMAL, "below serious", resources.thermal_state))
    return reasons


def _pressure(resources: Resources) -> list[Reason]:
    """One reason at most. A source spelled in another case is guarded as well, and reported generically."""
    if resources.psi_full_avg10 > PSI_FULL_LIMIT:
        return [Reason(Kind.PRESSURE_PSI_FULL, PSI_FULL_LIMIT, resources.psi_full_avg10)]
    source = resources.pressure_source
    if source.lower() == LINUX_PSI and resources.stall_avg10 >= STALL_LIMIT:
        kind = Kind.PRESSURE_LINUX_STALL if source == LINUX_PSI else Kind.PRESSURE_OTHER
        return [Reason(kind, STALL_LIMIT, resources.stall_avg10)]
    if source.lower() == DARWIN_PRESSURE and resources.pressure.lower() == "high":
        kind = Kind.PRESSURE_DARWIN_HIGH if source == DARWIN_PRESSURE else Kind.PRESSURE_OTHER
        return [Reason(kind, "below high", resources.pressure)]
    return []


def _amounts(node: NodeFacts, situation: Situation) -> list[Reason]:
    """Memory: what the task asks for, else its floor; and what earlier runs peaked at."""
    task, available = situation.task, node.allocatable_at_best_mb
    reasons: list[Reason] = []
    floor = min_free_ram_for_node(node, task)
    short = floor > 0 and (node.resources is None or available < floor)
    below = Reason(Kind.MIN_FREE_RAM, floor, available) if short else None
    if task.memory_request_mb > 0 and available < task.memory_request_mb:
        reasons.append(Reason(Kind.MEMORY_REQUEST, task.memory_request_mb, available, beside=below))
    elif below is not None:
        reasons.append(below)
    if situation.observed and situation.policy.filter.empirical_peak:
        seen = situation.observation(node)
        if seen is not None and seen.peak_ram_mb > 0 and available < seen.peak_ram_mb:
            reasons.append(Reason(Kind.EMPIRICAL_PEAK_RAM, seen.peak_ram_mb, available))
    return reasons

"""When nothing fits: whether anything ever could, what is nearly there, and what to give up for it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import attrs

from ..capabilities.constraints import Devices, MaxInt, MinInt
from ..capabilities.failing import FailingTerm
from . import memory
from .facts import NodeFacts, Status
from .filter import Reason, ReasonKind
from .nodes import NodeState, Tier, tier_of
from .room import take
from .state import Situation
from .wording import reason_text, term_text

Excluded = tuple[NodeFacts, tuple[Reason, ...]]


class Verdict(enum.StrEnum):
    """What an answer comes to."""

    FITS = "fits"
    BUSY = "busy"
    """The inventory fits, its capacity does not now: waiting, or uncordoning, may help."""
    UNKNOWN = "unknown"
    """Records are missing or stale: some node may fit that cannot be judged."""
    INFEASIBLE = "infeasible"
    """No known node could ever take it."""


_NEVER = frozenset(
    (
        ReasonKind.APPLE_FM_NOT_LOCAL,
        ReasonKind.APPLE_FM_NOT_READY,
        ReasonKind.CONSTRAINT,
        ReasonKind.AVOIDED,
        ReasonKind.ANTI_AFFINITY,
        ReasonKind.LABEL_NEEDED,
        ReasonKind.MISSING_TOOLS,
    )
)
_AMOUNTS = frozenset((ReasonKind.MEMORY_REQUEST, ReasonKind.MIN_FREE_RAM, ReasonKind.EMPIRICAL_PEAK_RAM))


def verdict_of(
    chosen: Sequence[NodeFacts], eligible: Sequence[NodeFacts], excluded: Iterable[Excluded], situation: Situation
) -> Verdict:
    """The verdict on a whole answer. A set of nodes is feasible when the capable ones could make it up."""
    if chosen:
        return Verdict.FITS
    each = [(node, node_verdict(node, reasons, situation)) for node, reasons in excluded]
    capable = [*eligible, *(node for node, verdict in each if verdict is Verdict.BUSY)]
    if take(capable, situation):
        return Verdict.BUSY
    capable += (node for node, verdict in each if verdict is Verdict.UNKNOWN)
    # A node without a record may lie anywhere, so it is only counted.
    return Verdict.UNKNOWN if len(capable) >= situation.options.count and _adds(each) else Verdict.INFEASIBLE


def _adds(each: Iterable[tuple[NodeFacts, Verdict]]) -> bool:
    return any(verdict is Verdict.UNKNOWN for _, verdict in each)


def node_verdict(node: NodeFacts, reasons: Iterable[Reason], situation: Situation) -> Verdict:
    """Whether an excluded node could take the task some day."""
    if node.state in (NodeState.DEAD, NodeState.LEFT) or node.status == Status.UNREACHABLE:
        return Verdict.INFEASIBLE
    if node.status != Status.COMPLETE:
        return Verdict.UNKNOWN
    if any(reason.kind in _NEVER or _exceeds(node, reason) for reason in reasons):
        return Verdict.INFEASIBLE
    fresh = node.vitals_at is None or tier_of(node.state, node.vitals_at, situation.now) is not Tier.STALE
    return Verdict.BUSY if fresh else Verdict.UNKNOWN


def _exceeds(node: NodeFacts, reason: Reason) -> bool:
    """Whether more memory is wanted than the node has when it is empty."""
    if reason.kind not in _AMOUNTS or node.resources is None or not isinstance(reason.wanted, int):
        return False
    total = node.resources.ram_total_mb
    return total > 0 and reason.wanted > memory.reservable(total, total, node.system_reserve_mb)


@attrs.frozen(order=True)
class Item:
    """Something that can be asked for or not: a rule, or one term of the requirement (`term` from 0)."""

    kind: ReasonKind
    term: int = -1
    text: str = attrs.field(default="", eq=False, order=False)


def items_of(reasons: Iterable[Reason]) -> tuple[Item, ...]:
    """Every single thing that a node was excluded for."""
    items: list[Item] = []
    for reason in reasons:
        if reason.kind is ReasonKind.CONSTRAINT:
            items += [Item(reason.kind, term.term, term.text) for term in reason.terms]
        else:
            items.append(Item(reason.kind, text=_NAMES[reason.kind]))
    return tuple(items)


_NAMES = {
    ReasonKind.APPLE_FM_NOT_LOCAL: "the on-device model",
    ReasonKind.APPLE_FM_NOT_READY: "a ready on-device model",
    ReasonKind.STATUS: "complete facts",
    ReasonKind.CORDONED: "the cordon",
    ReasonKind.DRAINING: "the drain",
    ReasonKind.SUSPECT: "the strictness",
    ReasonKind.AVOIDED: "the avoidance",
    ReasonKind.ANTI_AFFINITY: "the anti-affinity",
    ReasonKind.LABEL_NEEDED: "the label to place by",
    ReasonKind.PRESSURE_PSI_FULL: "the pressure guard",
    ReasonKind.PRESSURE_LINUX_STALL: "the pressure guard",
    ReasonKind.PRESSURE_DARWIN_HIGH: "the pressure guard",
    ReasonKind.PRESSURE_OTHER: "the pressure guard",
    ReasonKind.BATTERY_LOW: "the battery guard",
    ReasonKind.THERMAL: "the thermal guard",
    ReasonKind.FAILURE_MEMORY: "the failure memory",
    ReasonKind.MEMORY_REQUEST: "the memory request",
    ReasonKind.MIN_FREE_RAM: "the floor of free memory",
    ReasonKind.EMPIRICAL_PEAK_RAM: "the peak of earlier runs",
    ReasonKind.MISSING_TOOLS: "the required tools",
}
"""What would have to be given up, as `without ...` goes on."""


@attrs.frozen
class NearMiss:
    """A node that fails one thing only, and by what share of the wanted amount (1 where there is no amount)."""

    node: NodeFacts
    item: Item
    text: str
    short: float


def near_misses(excluded: Iterable[Excluded]) -> list[NearMiss]:
    """Nodes that fail exactly one thing, the closest first. Nodes that are gone are not near."""
    misses: list[NearMiss] = []
    for node, reasons in excluded:
        items = items_of(reasons)
        if len(items) == 1 and node.status == Status.COMPLETE:
            text, short = _missed_by(reasons[0])
            misses.append(NearMiss(node, items[0], f"only {text}", short))
    return sorted(misses, key=lambda miss: (miss.short, miss.node.name, miss.node.node_id))


def _missed_by(reason: Reason) -> tuple[str, float]:
    if reason.kind is ReasonKind.CONSTRAINT:
        return _term_missed_by(reason.terms[0])
    return reason_text(reason), _short(reason.wanted, reason.actual)


def _term_missed_by(term: FailingTerm) -> tuple[str, float]:
    asked = term.constraint
    if isinstance(asked, MinInt | MaxInt) and type(term.actual) is int:
        sign = "<" if isinstance(asked, MinInt) else ">"
        return f"{asked.key} {term.actual} {sign} {asked.bound}", _short(asked.bound, term.actual)
    if isinstance(asked, Devices):
        return term_text(term), _short(asked.count, term.actual or 0)
    return term_text(term), 1.0


def _short(wanted: object, actual: object) -> float:
    if isinstance(wanted, int | float) and isinstance(actual, int | float) and wanted:
        return min(1.0, abs(wanted - actual) / abs(wanted))
    return 1.0


@attrs.frozen
class Relax:
    """What giving up one thing would bring."""

    item: Item
    nodes: int
    """Nodes that would be eligible without it, beside those that already are."""

    @property
    def text(self) -> str:
        what = f"term {self.item.term + 1} ({self.item.text})" if self.item.term >= 0 else self.item.text
        return f"without {what}: {self.nodes} more node{'' if self.nodes == 1 else 's'}"


def relax_hints(misses: Iterable[NearMiss]) -> tuple[Relax, ...]:
    """For each thing that some node fails alone, how many nodes that would add; the most helpful first."""
    counts: dict[Item, int] = {}
    for miss in misses:
        counts[miss.item] = counts.get(miss.item, 0) + 1
    return tuple(Relax(item, count) for item, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

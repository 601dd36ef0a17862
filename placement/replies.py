"""Answers as plain maps for the socket and JSON. Sizes are MiB, ages seconds; what is unknown is None."""

from __future__ import annotations

from typing import Any

from .explain import Eligible, Explanation, Total
from .facts import NodeFacts
from .failures import FailureRecord
from .filter import Reason
from .observations import Observation
from .report import decision_lines
from .select import Decision, Line
from .verdict import NearMiss, Relax
from .wording import reason_text

Plain = dict[str, Any]


def decision_map(decision: Decision) -> Plain:
    """The outcome of a placement in short: nothing that would have to look at every node.

    `decided_by` is the rank key that separates it from the `runner_up`. Whoever wants reasons asks for an explanation.
    """
    answer: Plain = {
        "ok": decision.ok,
        "nodes": [node_map(node) for node in decision.chosen],
        "eligible": len(decision.ranking.candidates),
        "seed": decision.seed,
        "fallback": decision.fallback,
    }
    if decision.ok:
        other = decision.runner_up
        answer |= {
            "fit_score": decision.fit_score,
            "is_local": decision.is_local,
            "tool": decision.tool,
            "runner_up": None if other is None else node_map(other),
            "decided_by": decision.decided_by,
        }
    return answer


def explanation_map(explanation: Explanation) -> Plain:
    """The whole explanation."""
    ages = explanation.ages
    why_not = explanation.why_not
    return {
        "verdict": explanation.verdict.value,
        "chosen": [node_map(node) for node in explanation.chosen],
        "lines": [_line(line) for line in explanation.lines],
        "eligible": [_eligible(node) for node in explanation.eligible],
        "eligible_count": explanation.eligible_count,
        "excluded": [
            {**node_map(node), "reasons": [reason_map(reason) for reason in reasons]}
            for node, reasons in explanation.excluded
        ],
        "excluded_count": explanation.excluded_count,
        "totals": [_total(total) for total in explanation.totals],
        "near_misses": [_near_miss(miss) for miss in explanation.near_misses],
        "would_fit": [node_map(node) for node in explanation.would_fit],
        "places": {
            label: [{"value": value, "nodes": count} for value, count in found]
            for label, found in explanation.places.items()
        },
        "relax": [_relax(hint) for hint in explanation.relax],
        "hints": list(explanation.hints),
        "ages": {
            "youngest_s": ages.youngest,
            "oldest_s": ages.oldest,
            "stale": ages.stale,
            "unknown": ages.unknown,
        },
        "seed": explanation.seed,
        "fallback": explanation.fallback,
        "isolated": explanation.isolated,
        "node": None
        if why_not is None
        else {
            **node_map(why_not.node),
            "rank": why_not.rank,
            "reasons": [reason_map(reason) for reason in why_not.reasons],
        },
    }


def node_map(node: NodeFacts) -> Plain:
    """Which node, and where it is."""
    where = {} if node.record is None else {"addr": node.record.addr, "state": node.record.state.value}
    return {"node_id": node.node_id, "name": node.name, **where}


def reason_map(reason: Reason) -> Plain:
    actual = reason.actual
    return {
        "kind": reason.kind.value,
        "text": reason_text(reason),
        "wanted": list(reason.wanted) if isinstance(reason.wanted, tuple) else reason.wanted,
        "actual": failure_map(actual) if isinstance(actual, FailureRecord) else actual,
        "terms": [term.as_map() for term in reason.terms],
    }


def failure_map(record: FailureRecord) -> Plain:
    scope = record.scope
    return {
        "node": scope.node,
        "workload_class": scope.workload_class,
        "tool": scope.tool,
        "backend": scope.backend,
        "surface": scope.surface,
        "failure_class": record.failure_class,
        "count": record.count,
        "expires_at": record.expires_at,
        "overridden": record.overridden,
        "blocking": record.is_blocking,
    }


def observation_map(observation: Observation) -> Plain:
    scope = observation.scope
    return {
        "node": scope.node,
        "workload_class": scope.workload_class,
        "backend": scope.backend,
        "tool": scope.tool,
        "model_name": scope.model_name,
        "observed_at": observation.observed_at,
        "success": observation.success,
        "wall_ms": observation.wall_ms,
        "peak_ram_mb": observation.peak_ram_mb,
        "peak_vram_mb": observation.peak_vram_mb,
        "samples": observation.samples,
    }


def lines_of(decision: Decision) -> list[Plain]:
    """What speaks for the decision, or against every node."""
    return [_line(line) for line in decision_lines(decision)]


def _line(line: Line) -> Plain:
    return {"kind": line.kind, "text": line.text}


def _eligible(held: Eligible) -> Plain:
    return {
        **node_map(held.node),
        "fit_score": held.fit_score,
        "is_local": held.node.is_local,
        "headroom_mb": held.headroom_mb,
        "tier": held.tier.name.lower(),
    }


def _total(total: Total) -> Plain:
    item = total.item
    return {
        "kind": item.kind.value,
        "term": item.term if item.term >= 0 else None,
        "text": item.text,
        "count": total.count,
        "names": list(total.names),
    }


def _near_miss(miss: NearMiss) -> Plain:
    return {**node_map(miss.node), "kind": miss.item.kind.value, "text": miss.text}


def _relax(hint: Relax) -> Plain:
    term = hint.item.term
    return {
        "kind": hint.item.kind.value,
        "term": term if term >= 0 else None,
        "nodes": hint.nodes,
        "text": hint.text,
    }

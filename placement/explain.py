"""Why this answer: what fits in order, what does not and for what, what is nearly there, and what to change.

Built from the same evaluator as the answer itself, on demand; lists are capped, counts never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from ..capabilities.requirement import PlacementRequirement
from ..capabilities.values import CapValue
from .ages import Ages, ages_of
from .derive import facts_of
from .facts import NodeFacts
from .filter import Filtered, Reason, ReasonKind, filter_candidates, reasons_against
from .find import find_suitable_nodes, suitable_in_order
from .headroom import headroom, reserved_by_all
from .nodes import NodeState, Tier, tier_of
from .options import NO_OPTIONS, Options
from .place import place
from .policy import Policy
from .report import decision_lines
from .score import Scorer
from .select import Decision, Line
from .slips import slips
from .state import NO_STATE, ClusterState, Situation
from .task import Task
from .verdict import Excluded, Item, NearMiss, Relax, Verdict, items_of, near_misses, relax_hints, verdict_of
from .view import View

# What a person reads, and what fits a reply, even when ten thousand nodes are excluded.
DEFAULT_CAP = 20
_NAMES_PER_TOTAL = 5


@attrs.frozen(kw_only=True)
class Eligible:
    """A node that fits, in its place."""

    node: NodeFacts
    fit_score: int | None
    """None in the explanation of a query, which does not score."""
    headroom_mb: int
    tier: Tier


@attrs.frozen
class Total:
    """How many nodes one thing excludes, and the first of them."""

    item: Item
    count: int
    names: tuple[str, ...]


@attrs.frozen(kw_only=True)
class WhyNot:
    """One node: its place among the eligible ones (from 1), or every reason against it."""

    node: NodeFacts
    rank: int | None
    reasons: tuple[Reason, ...]


@attrs.frozen(kw_only=True)
class Explanation:
    """The whole answer. `eligible` and `excluded` are capped, so is `chosen` of a query; the counts are of all nodes.

    `would_fit` are the dead nodes that lack nothing but life: bringing one back helps. `places` says for each label
    that the call places by how many eligible nodes have which value, most first.
    """

    verdict: Verdict
    chosen: tuple[NodeFacts, ...]
    lines: tuple[Line, ...]
    eligible: tuple[Eligible, ...]
    eligible_count: int
    excluded: tuple[tuple[NodeFacts, tuple[Reason, ...]], ...]
    excluded_count: int
    totals: tuple[Total, ...]
    near_misses: tuple[NearMiss, ...]
    would_fit: tuple[NodeFacts, ...]
    places: Mapping[str, tuple[tuple[CapValue, int], ...]]
    relax: tuple[Relax, ...]
    hints: tuple[str, ...]
    ages: Ages
    seed: int
    fallback: int | None = None
    isolated: bool = False
    why_not: WhyNot | None = None


def explain_placement(  # noqa: PLR0913 - the arguments of `place`, and how much to tell
    view: View,
    task: Task,
    state: ClusterState = NO_STATE,
    policy: Policy = Policy.agent,
    *,
    now: float,
    options: Options = NO_OPTIONS,
    node: str | None = None,
    cap: int = DEFAULT_CAP,
) -> Explanation:
    """Why `place` answers as it does with the same arguments; `node` (id or name) asks for one node in particular."""
    return explain_decision(place(view, task, state, policy, now=now, options=options), view, node=node, cap=cap)


def explain_decision(decision: Decision, view: View, *, node: str | None = None, cap: int = DEFAULT_CAP) -> Explanation:
    """The explanation of a decision that was made over this view."""
    answer = _Answer(
        situation=decision.situation,
        filtered=decision.filtered,
        ordered=decision.eligible,
        chosen=decision.chosen,
        fallback=decision.fallback,
        lines=decision_lines(decision),
    )
    return _told(answer, view, node, cap)


def explain_find(  # noqa: PLR0913 - the arguments of a find, and how much to tell
    view: View,
    requirement: PlacementRequirement,
    *,
    now: float,
    options: Options = NO_OPTIONS,
    node: str | None = None,
    cap: int = DEFAULT_CAP,
) -> Explanation:
    """Why `find_suitable_nodes` answers as it does about this requirement; fallbacks are not tried."""
    options = attrs.evolve(options, fallbacks=())
    situation = Situation(
        Task(requirement=requirement), now=now, options=options, query=True, capabilities_of=view.capabilities_of
    )
    facts = {node.node_id: node for node in view.index.fleet(view.here).by_name()}
    filtered = filter_candidates(facts.values(), situation)
    found = find_suitable_nodes(view, requirement, now=now, options=options)
    chosen = tuple(facts[record.node_id] for record in found.nodes)
    ordered = chosen
    if options.asks_for_a_set:
        ordered = tuple(facts[record.node_id] for record in suitable_in_order(view, situation))
    return _told(_Answer(situation=situation, filtered=filtered, ordered=ordered, chosen=chosen), view, node, cap)


@attrs.frozen(kw_only=True)
class _Answer:
    """What an explanation is made of, for a placement and for a query alike."""

    situation: Situation
    filtered: Filtered
    ordered: Sequence[NodeFacts]
    chosen: tuple[NodeFacts, ...]
    fallback: int | None = None
    lines: tuple[Line, ...] = ()


def _told(answer: _Answer, view: View, node: str | None, cap: int) -> Explanation:
    situation, excluded = answer.situation, answer.filtered.excluded
    # Who is gone for good explains nothing; it is counted with the others all the same.
    there = [(held, reasons) for held, reasons in excluded if held.state not in (NodeState.DEAD, NodeState.LEFT)]
    misses = near_misses(there)
    return Explanation(
        verdict=verdict_of(answer.chosen, answer.filtered.eligible, excluded, situation),
        chosen=answer.chosen[:cap] if situation.query else answer.chosen,
        lines=answer.lines[: 2 * cap],
        eligible=tuple(_eligible(answer, answer.ordered[:cap])),
        eligible_count=len(answer.filtered.eligible),
        excluded=tuple(sorted(there, key=lambda pair: len(pair[1]))[:cap]),
        excluded_count=len(excluded),
        totals=_totals(there),
        near_misses=tuple(misses[:cap]),
        would_fit=tuple(held for held, reasons in excluded if _lacks_only_life(held, reasons))[:cap],
        places={label: _places(answer.filtered.eligible, label)[:cap] for label in situation.options.labels_needed},
        relax=relax_hints(misses)[:cap],
        hints=slips(view, situation.task.requirement, situation.options, of_task=not situation.query),
        ages=ages_of(view, situation.now),
        seed=situation.options.seed,
        fallback=answer.fallback,
        isolated=view.isolated,
        why_not=None if node is None else _why_not(answer, view, node),
    )


def _places(eligible: Iterable[NodeFacts], label: str) -> tuple[tuple[CapValue, int], ...]:
    records = (node.capabilities for node in eligible)
    values = (None if record is None else record.get(label) for record in records)
    counts = Counter((type(value), value) for value in values if value is not None)
    return tuple(sorted(((value, count) for (_, value), count in counts.items()), key=lambda at: (-at[1], str(at[0]))))


def _lacks_only_life(node: NodeFacts, reasons: tuple[Reason, ...]) -> bool:
    """Whether a dead node has all that is asked for; of one whose record is gone that cannot be said."""
    return (
        node.state is NodeState.DEAD
        and node.capabilities is not None
        and [r.kind for r in reasons] == [ReasonKind.STATUS]
    )


def _eligible(answer: _Answer, nodes: Sequence[NodeFacts]) -> Iterator[Eligible]:
    situation = answer.situation
    scorer = Scorer(situation, situation.policy.score)
    judged = [*answer.filtered.eligible, *(node for node, _ in answer.filtered.excluded)]
    reserved = reserved_by_all(judged)
    for node in nodes:
        yield Eligible(
            node=node,
            fit_score=None if situation.query else scorer.score(node),
            headroom_mb=headroom(node, situation.task, reserved),
            tier=tier_of(node.state, node.vitals_at, situation.now),
        )


def _totals(excluded: Sequence[Excluded]) -> tuple[Total, ...]:
    """Per thing that was asked for, whom it excludes; a node counts for each of its reasons."""
    names: dict[Item, list[str]] = {}
    for node, reasons in excluded:
        for item in items_of(reasons):
            names.setdefault(item, []).append(node.name)
    return tuple(
        Total(item, len(held), tuple(held[:_NAMES_PER_TOTAL]))
        for item, held in sorted(names.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    )


def _why_not(answer: _Answer, view: View, node: str) -> WhyNot:
    record = view.named(node)
    place = next((at for at, held in enumerate(answer.ordered, 1) if held.node_id == record.node_id), None)
    facts = facts_of(record, view.here)
    return WhyNot(node=facts, rank=place, reasons=reasons_against(facts, answer.situation))

"""`place`: a placement over the live view, by its index.

The index preselects, the evaluator judges what comes out: the answer is the one of `select_best_node` over the facts
of all nodes, in time that hardly depends on how many they are. What the masks cannot decide (options that name nodes,
a policy with other guards, failures about every node) is left to the evaluator altogether.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

from .bits import mask_of
from .facts import NodeFacts
from .filter import filter_candidates, reasons_against
from .fleet import Fleet, Member
from .options import NO_OPTIONS, Options
from .policy import FilterPolicy, Policy, ScorePolicy
from .rank import Ranking
from .score import Scorer, clamped
from .select import Decision, decide
from .state import NO_STATE, ClusterState, Situation
from .task import Task
from .view import View

# Less than any sum of points.
_NO_POINTS = -(1 << 30)


def place(  # noqa: PLR0913 - what a placement is made of, each with a default
    view: View,
    task: Task,
    state: ClusterState = NO_STATE,
    policy: Policy = Policy.agent,
    *,
    now: float,
    options: Options = NO_OPTIONS,
) -> Decision:
    """The node, or nodes, for the task. A suspect node is eligible unless the call is strict; see `Decision`."""
    situation = Situation(task, state, policy, now=now, options=options, capabilities_of=view.capabilities_of)
    fleet = view.index.fleet(view.here)

    def everyone() -> Sequence[NodeFacts]:
        return fleet.by_name()

    def judged(asked: Situation) -> Decision:
        pool = Pool(view, fleet, asked)
        decision = Decision(asked, pool, everyone, leaders=pool)
        if any(reasons_against(node, asked) for node in decision.chosen):
            return Decision(asked, filter_candidates(pool, asked).eligible, everyone)
        return decision

    return decide(situation, judged)


class Pool(Sequence[NodeFacts]):
    """The eligible nodes of a view as a set of slots; facts are fetched when somebody reads them."""

    def __init__(self, view: View, fleet: Fleet, situation: Situation) -> None:
        self._index = view.index
        self._fleet = fleet
        self._situation = situation
        mask, exact = self._preselected()
        if not exact:
            eligible = filter_candidates((member.facts for member in fleet.members.chosen(mask)), situation).eligible
            mask = mask_of(self._index.slot_of[node.node_id] for node in eligible)
        self.mask = mask

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self._nodes)

    @overload
    def __getitem__(self, index: int) -> NodeFacts: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeFacts]: ...
    def __getitem__(self, index: int | slice) -> NodeFacts | Sequence[NodeFacts]:
        return self._nodes[index]

    @cached_property
    def _nodes(self) -> tuple[NodeFacts, ...]:
        return tuple(member.facts for member in self._fleet.members.chosen(self.mask))

    def _preselected(self) -> tuple[int, bool]:
        """The nodes that may be eligible, and whether all of them are."""
        index, asked = self._index, self._situation
        mask = index.present & index.schedulable & index.facets.everyone
        if asked.task.is_apple or asked.options.names_nodes or asked.policy.filter != FilterPolicy.default:
            return mask, False
        exact = True
        requirement = asked.task.requirement
        if requirement is not None and not requirement.is_empty():
            satisfying, exact = index.facets.satisfying(requirement)
            mask &= satisfying
        if asked.options.strict:
            mask &= ~index.suspect
        mask &= self._fleet.fitting(asked.task)
        if asked.deciding is not None and asked.deciding.anywhere is not None:
            return mask, False
        return mask & ~self._burnt() & ~self._too_small(), exact

    def _burnt(self) -> int:
        """Nodes on which this class of work failed badly of late."""
        deciding = self._situation.deciding
        if deciding is None:
            return 0
        return self._slots(node for node, record in deciding.nodes if record.is_blocking)

    def _too_small(self) -> int:
        """Nodes on which earlier runs needed more memory than there is now."""
        mask = 0
        for node, seen in self._situation.observed.items():
            if seen.peak_ram_mb > 0:
                mask |= self._slots((node,)) & ~self._fleet.at_least(seen.peak_ram_mb)
        return mask

    def _slots(self, nodes: Iterable[str]) -> int:
        slot_of = self._index.slot_of
        return mask_of(slot_of[node] for node in nodes if node in slot_of)

    def leading(self, ranking: Ranking, without: Sequence[NodeFacts]) -> tuple[Sequence[NodeFacts], int]:
        """The nodes that tie on the tier, and on the fit score where that is the next key."""
        tier = self._best_tier(self.mask & ~self._slots(node.node_id for node in without))
        options, policy = self._situation.options, self._situation.policy
        by_score = policy.rank.by_score and not options.prefer and policy.score == ScorePolicy.weighted
        if not by_score:
            return [member.facts for member in self._fleet.members.chosen(tier)], 1
        return self._best_scored(tier, ranking.scorer), 2

    def _best_tier(self, mask: int) -> int:
        alive, fresh = mask & ~self._index.suspect, self._index.fresh(self._situation.now)
        return alive & fresh or alive & ~fresh or mask

    def _best_scored(self, mask: int, scorer: Scorer) -> list[NodeFacts]:
        """The nodes with the highest fit score.

        It is made of the points that are kept of a node, what the task adds for its make, and what the state takes from
        the nodes that it tells apart.
        """
        members, special = self._fleet.members, self._remarkable()
        usual = scorer.unremarkable_points
        best, leaders = -1, list[Member]()
        for made_of, slots in self._fleet.kinds.items():
            held = slots & mask
            if not held:
                continue
            added = scorer.points_of(made_of)
            some, others = members.chosen(held & special), members.chosen(held & ~special)
            sums = [member.points + added + scorer.state_points(member.facts) for member in some]
            added += usual
            sums += [member.points + added for member in others]
            most = clamped(max(sums))
            if most > best:
                best, leaders = most, []
            if most == best:
                # At the ends of the scale different sums are the same score.
                least = best if best > 0 else _NO_POINTS
                leaders += [member for member, points in zip(some + others, sums, strict=True) if points >= least]
        return [member.facts for member in leaders]

    def _remarkable(self) -> int:
        """The nodes that the cluster's state tells apart."""
        state, deciding = self._situation.state, self._situation.deciding
        if not state.reservations and deciding is None:
            return 0
        mask = self._slots(state.reservations)
        if len(state.reservations) > 1:
            mask |= self._fleet.reserving
        if deciding is not None:
            if deciding.anywhere is not None:
                return self.mask
            mask |= self._slots(node for node, _ in deciding.nodes)
        return mask

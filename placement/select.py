"""Filter, rank, pick: the decision. What explains it is worked out when somebody asks, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import attrs

from .facts import NodeFacts
from .filter import Filtered, filter_candidates
from .headroom import headroom, reserved_by_all
from .pick import pick_nodes
from .rank import Leaders, Ranking
from .state import Situation
from .task import OLLAMA, Task


class Decision:
    """The chosen nodes, or none. Everything else is computed on first use, from the same view and situation."""

    def __init__(
        self,
        situation: Situation,
        eligible: Sequence[NodeFacts],
        everyone: Callable[[], Sequence[NodeFacts]],
        *,
        leaders: Leaders | None = None,
    ) -> None:
        self.situation = situation
        self.ranking = Ranking(eligible, situation, leaders)
        self.chosen: tuple[NodeFacts, ...] = pick_nodes(self.ranking)
        self.fallback: int | None = None
        """Which of the fallback requirements it took, from 0; None for the first requirement."""
        self._everyone = everyone

    @property
    def ok(self) -> bool:
        return bool(self.chosen)

    @property
    def node(self) -> NodeFacts | None:
        """The node, or the first of several."""
        return self.chosen[0] if self.chosen else None

    @property
    def seed(self) -> int:
        return self.situation.options.seed

    @cached_property
    def fit_score(self) -> int:
        return 0 if self.node is None else self.ranking.scorer.score(self.node)

    @property
    def is_local(self) -> bool:
        return self.node is not None and self.node.is_local

    @property
    def tool(self) -> str:
        """Which required tool to start, spelled as the node does; empty when the task names none."""
        return "" if self.node is None else selected_tool(self.node, self.situation.task)

    @cached_property
    def nodes(self) -> tuple[NodeFacts, ...]:
        """Every node that was judged."""
        return tuple(self._everyone())

    @cached_property
    def filtered(self) -> Filtered:
        """Eligible and excluded nodes with all reasons: the evaluator's word on every node."""
        return filter_candidates(self.nodes, self.situation)

    @cached_property
    def eligible(self) -> tuple[NodeFacts, ...]:
        """Eligible nodes in rank order."""
        return tuple(self.ranking.sorted())

    @cached_property
    def runner_up(self) -> NodeFacts | None:
        """The best eligible node that was not chosen."""
        return self.ranking.best_but(self.chosen) if self.chosen else None

    @cached_property
    def decided_by(self) -> str:
        """The first rank key in which the chosen node and the runner-up differ; empty without a runner-up.

        With other ways of picking than `best` it may speak for the runner-up.
        """
        if self.node is None or self.runner_up is None:
            return ""
        return self.ranking.deciding_key(self.node, self.runner_up)

    @cached_property
    def reserved_total_mb(self) -> int:
        """MiB reserved on all nodes, for the headroom that explanations show."""
        return reserved_by_all(self.nodes)

    def headroom(self, node: NodeFacts) -> int:
        """MiB beyond the need, with the node's share taken of all nodes, eligible or not."""
        return headroom(node, self.situation.task, self.reserved_total_mb)


def select_best_node(nodes: Iterable[NodeFacts], situation: Situation) -> Decision:
    """The node, or nodes, for the task, out of facts that the caller holds.

    When nothing fits, the fallback requirements are tried in order; if none does, the decision is about the first
    requirement.
    """
    everyone = tuple(nodes)
    return decide(
        situation, lambda asked: Decision(asked, filter_candidates(everyone, asked).eligible, lambda: everyone)
    )


def decide(situation: Situation, judged: Callable[[Situation], Decision]) -> Decision:
    """The decision for the first requirement, else for the first fallback that can be met."""
    first = judged(situation)
    if first.ok:
        return first
    for place, requirement in enumerate(situation.options.fallbacks):
        other = judged(situation.instead(requirement))
        if other.ok:
            other.fallback = place
            return other
    return first


def selected_tool(node: NodeFacts, task: Task) -> str:
    """The first required tool that the node lists, in the node's spelling; ollama needs no listing."""
    for tool in task.required_tools:
        listed = next((name for name in node.tools if name.lower() == tool.lower()), "")
        if listed:
            return listed
        if tool.lower() == OLLAMA:
            return OLLAMA
        if node.has_tool(tool):
            return tool
    return ""


@attrs.frozen
class Line:
    """One thing worth saying about a decision: a constant kind for programs, a sentence for people."""

    kind: str
    text: str

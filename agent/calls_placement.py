"""Calls that choose: find, place, explain. All read one view and one state, and say how old they are."""

from __future__ import annotations

from typing import Any

import attrs

from ..placement.ages import ages_of
from ..placement.explain import DEFAULT_CAP, explain_decision, explain_find
from ..placement.find import Found, find_suitable_nodes
from ..placement.options import NO_OPTIONS, Options
from ..placement.place import place as place_task
from ..placement.policy import Policy
from ..placement.replies import decision_map, explanation_map, node_map
from ..placement.select import Decision
from ..placement.slips import slips, unknown_nodes
from ..placement.state import ClusterState
from ..placement.task import Task
from ..placement.view import View
from . import task_arguments as checks
from .api import Answer, Call, Later, Pages, Query, Request
from .arguments import Argument, flag, integer, one_of, refuse, text
from .rows import LABELS, NODE, in_pages, node_row, resolve
from .task_arguments import REQUIREMENT_BYTES, Asked, parse

# More nodes than any cluster of this protocol has.
_MANY = 1_000_000
# Looking for slips takes some microseconds a record, and the loop waits: more records would tell nothing new.
_REVIEWED = 2000
# A placement over more nodes, with all that they remember, takes milliseconds: gossip must not wait for it.
_AT_ONCE = 200
# So does a query whose options make it look at each node instead of asking the index.
_AT_ONCE_EACH = 1000
# More rows of an explanation than anybody reads.
_CAP = 1000

NEVER, FAILURE, ALWAYS = "never", "failure", "always"


def find(request: Request) -> Pages | Later:
    """Matching nodes, least loaded first; with `explain` and none of them, why.

    Likely slips of the requirement (`warnings`) are looked for when `review` asks for it.
    """
    arguments, view, now = request.arguments, request.backend.view, request.backend.now()
    wanted, options = parse(arguments["requirement"]), arguments["options"]
    if arguments["strict"]:
        options = attrs.evolve(options, strict=True)

    def begun() -> tuple[Answer, Found]:
        found = find_suitable_nodes(view, wanted, arguments["limit"], now=now, options=options)
        head: Answer = {
            "total": found.matching,
            "known": len(view),
            "isolated": view.isolated,
            "fallback": found.fallback,
            "view": view_map(view, now),
        }
        return head, found

    def ended(head: Answer, found: Found) -> Answer | Pages:
        if not found.nodes and arguments["explain"]:
            told = explain_find(view, wanted, now=now, options=options)
            return {**head, "nodes": [], "explanation": explanation_map(told)}
        return listed(head, found)

    def listed(head: Answer, found: Found) -> Pages:
        if arguments["review"]:
            head["warnings"] = list(slips(view, wanted, options, most=_REVIEWED))
        labels = arguments["labels"]
        return in_pages((node_row(record, labels=labels, now=now, here=view.here) for record in found.nodes), head)

    each = options.names_nodes or options.prefer or options.asks_for_a_set or options.fallbacks
    if each and len(view) > _AT_ONCE_EACH:
        return Later(lambda: ended(*begun()))
    head, found = begun()
    return listed(head, found) if found.nodes or not arguments["explain"] else Later(lambda: ended(head, found))


def place(request: Request) -> Answer | Later:
    """The node, or nodes, for a task; with `explain`, why, or why none. With `review`, likely slips in `warnings`."""
    return _placed(request, request.arguments["task"], request.arguments["explain"])


def explain(request: Request) -> Answer | Later:
    """Why a find (of a `requirement`) or a placement (of a `task`) comes out as it does; `node` asks for one node."""
    arguments = request.arguments
    if arguments["task"] is not None:
        if arguments["requirement"]:
            raise refuse("requirement", "a task brings its own", "put it into the task")
        return _placed(request, arguments["task"], ALWAYS)
    backend = request.backend
    view, now, asked = backend.view, backend.now(), arguments["options"]
    if asked.seeded:
        raise refuse("options.seed", "a query has one order: by load", "leave it out, or explain a task")
    wanted, node = parse(arguments["requirement"]), _node_id(view, arguments["node"])

    def work() -> Answer:
        told = explain_find(view, wanted, now=now, options=asked.options, node=node, cap=arguments["limit"])
        return {"explanation": explanation_map(told), "view": view_map(view, now)}

    return Later(work)


@attrs.frozen(kw_only=True)
class _Placement:
    """One placement with all that it reads, so that any thread may work it out."""

    view: View
    task: Task
    state: ClusterState
    policy: Policy
    options: Options
    now: float
    review: bool

    def decide(self) -> Decision:
        return place_task(self.view, self.task, self.state, self.policy, now=self.now, options=self.options)

    def answer(self, decision: Decision) -> Answer:
        """The outcome, what was asked for, and how far it can be trusted."""
        answer: Answer = {
            **decision_map(decision),
            "nodes": [self._row(decision, place) for place in range(len(decision.chosen))],
            "task": checks.task_map(self.task),
            "view": view_map(self.view, self.now),
        }
        other = decision.runner_up
        if other is not None:
            answer["runner_up"]["fit_score"] = decision.ranking.scorer.score(other)
        if warnings := self._warnings():
            answer["warnings"] = warnings
        return answer

    def _warnings(self) -> list[str]:
        """Nodes that are named and not there are told in any case: they may have gone since."""
        if self.review:
            return list(slips(self.view, self.task.requirement, self.options, of_task=True, most=_REVIEWED))
        return list(unknown_nodes(self.view, self.options))

    def _row(self, decision: Decision, place: int) -> dict[str, Any]:
        node = decision.chosen[place]
        row = {**node_map(node), "fit_score": decision.ranking.scorer.score(node), "is_local": node.is_local}
        if node.record is not None:
            row["tier"] = node.record.tier(self.now).name.lower()
            row["age_s"] = _seconds(node.record.age(self.now))
        return row


def _placed(request: Request, task: Task, explain: str) -> Answer | Later:
    arguments, backend = request.arguments, request.backend
    view, now, unix, histories = backend.view, backend.now(), backend.unix(), backend.histories
    asked: Asked = arguments["options"]
    seed = asked.options.seed if asked.seeded else backend.next_seed()
    node, cap = _node_id(view, arguments.get("node")), arguments.get("limit", DEFAULT_CAP)

    def begun() -> tuple[_Placement, Decision]:
        placement = _Placement(
            view=view,
            task=task,
            state=histories.state(now, unix),
            policy=arguments["policy"],
            options=attrs.evolve(asked.options, seed=seed),
            now=now,
            review=arguments.get("review", False),
        )
        return placement, placement.decide()

    def ended(placement: _Placement, decision: Decision) -> Answer:
        answer = placement.answer(decision)
        if explain == ALWAYS or (explain == FAILURE and not decision.ok):
            answer["explanation"] = explanation_map(explain_decision(decision, view, node=node, cap=cap))
        return answer

    if len(view) > _AT_ONCE:
        return Later(lambda: ended(*begun()))
    placement, decision = begun()
    if explain == NEVER or (explain == FAILURE and decision.ok):
        return placement.answer(decision)
    return Later(lambda: ended(placement, decision))


def view_map(view: View, now: float) -> dict[str, Any]:
    """The picture that an answer was read from: how many nodes, how old, and whether this node hears the others."""
    ages = ages_of(view, now)
    return {
        "known": len(view),
        "isolated": view.isolated,
        "youngest_s": _seconds(ages.youngest),
        "oldest_s": _seconds(ages.oldest),
        "stale": ages.stale,
        "unknown": ages.unknown,
    }


def _seconds(age: float | None) -> float | None:
    return None if age is None else round(age, 3)


def _node_id(view: View, node: str | None) -> str | None:
    return None if node is None else resolve(view, node).node_id


_REQUIREMENT = Argument("requirement", text(REQUIREMENT_BYTES, empty=True), default="")
_OPTIONS = Argument("options", checks.options, default=Asked())
_POLICY = Argument("policy", checks.policy, default=Policy.agent)
_REVIEW = Argument("review", flag, default=False)
_ONE_NODE = Argument("node", NODE, default=None)
_LIMIT = Argument("limit", integer(1, _CAP), default=DEFAULT_CAP)

CALLS: tuple[Call, ...] = (
    Query(
        name="find",
        answer=find,
        arguments=(
            _REQUIREMENT,
            Argument("limit", integer(1, _MANY), default=None),
            Argument("strict", flag, default=False),
            Argument("options", checks.find_options, default=NO_OPTIONS),
            _REVIEW,
            Argument("explain", flag, default=False),
            LABELS,
        ),
    ),
    Query(
        name="place",
        answer=place,
        arguments=(
            Argument("task", checks.task),
            _OPTIONS,
            _POLICY,
            Argument("explain", one_of(NEVER, FAILURE, ALWAYS), default=NEVER),
            _REVIEW,
            _ONE_NODE,
            _LIMIT,
        ),
    ),
    Query(
        name="explain",
        answer=explain,
        arguments=(Argument("task", checks.task, default=None), _REQUIREMENT, _OPTIONS, _POLICY, _ONE_NODE, _LIMIT),
    ),
)

"""What the cluster remembers beside the nodes, and one call's question prepared against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from .facts import NodeFacts
from .failures import Deciding, FailureRecord, Failures
from .observations import Observation, Observations, observation_scope_for_requirements
from .options import NO_OPTIONS, Options
from .policy import Policy
from .task import Task
from .text import folded

if TYPE_CHECKING:
    from ..capabilities.record import NodeCapabilities

_NOTHING: Mapping[str, int] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class ClusterState:
    """Reservations in MiB per node (its `NodeFacts.key`), observations, and failures.

    `epoch` is what to add to a call's `now` to get the clock of observation and failure times: 0 when both are the
    same, wall time minus monotonic time in an agent, whose memory outlives a boot.
    """

    reservations: Mapping[str, int] = _NOTHING
    observations: Observations = attrs.field(factory=Observations)
    failures: Failures = attrs.field(factory=Failures)
    epoch: float = 0.0


NO_STATE = ClusterState()

CapabilitiesOf = Callable[[str], "NodeCapabilities | None"]


class Situation:
    """One call: a task, its options, the state and policy it is judged under, and the moment.

    What every node is compared with is looked up once, here; the rules then only read. `query` says that only the
    capabilities count: a node whose record is missing may then satisfy an empty requirement.

    `capabilities_of` gives the record of a node by id or name, for options that name other nodes.
    """

    __slots__ = (
        "apart_values",
        "avoided",
        "deciding",
        "now",
        "observed",
        "options",
        "policy",
        "query",
        "state",
        "task",
    )

    def __init__(  # noqa: PLR0913 - it is the one place that gathers what a call is made of
        self,
        task: Task,
        state: ClusterState = NO_STATE,
        policy: Policy = Policy.contract,
        *,
        now: float,
        options: Options = NO_OPTIONS,
        query: bool = False,
        capabilities_of: CapabilitiesOf | None = None,
    ) -> None:
        self.task = task
        self.state = state
        self.policy = policy
        self.now = now
        self.options = options
        self.query = query
        self.avoided = frozenset(options.avoid)
        self.apart_values = _apart_values(options, capabilities_of)
        self.observed: Mapping[str, Observation] = {}
        self.deciding: Deciding | None = None
        if query:
            return
        then = now + state.epoch
        if state.observations:
            shape = observation_scope_for_requirements("", task).shape
            self.observed = state.observations.fresh_by_node(shape, then)
        if state.failures:
            self.deciding = state.failures.deciding(task.workload_class, then) or None

    def observation(self, node: NodeFacts) -> Observation | None:
        """The fresh observation of this task's scope on the node."""
        return self.observed.get(folded(node.key)) if self.observed else None

    def failure(self, node: NodeFacts) -> FailureRecord | None:
        """The failure record that decides for this class of work on the node."""
        return None if self.deciding is None else self.deciding.of(node.key)


def _apart_values(options: Options, capabilities_of: CapabilitiesOf | None) -> frozenset[tuple[str, type, object]]:
    """Label, type and value that are taken by the nodes to keep apart from."""
    wanted = options.anti_affinity
    if wanted is None or capabilities_of is None:
        return frozenset()
    records = (capabilities_of(node) for node in wanted.apart_from)
    values = (record.get(wanted.label) for record in records if record is not None)
    return frozenset((wanted.label, type(value), value) for value in values if value is not None)

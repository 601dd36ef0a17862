"""What the cluster remembers beside the nodes, and one call's question prepared against it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    from ..capabilities.requirement import PlacementRequirement

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

Value = tuple[type, object]
CapabilitiesOf = Callable[[str], "NodeCapabilities | None"]


class Situation:
    """One call: a task, its options, the state and policy it is judged under, and the moment.

    What every node is compared with is looked up once, here; the rules then only read. `query` says that only the
    capabilities count: a node whose record is missing may then satisfy an empty requirement.

    `capabilities_of` gives the record of a node by id or name, for options that name other nodes.
    """

    __slots__ = (
        "_capabilities_of",
        "apart_values",
        "avoided",
        "deciding",
        "now",
        "observed",
        "options",
        "placed_values",
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
        self.placed_values = _placed_values(options, capabilities_of)
        self._capabilities_of = capabilities_of
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

    def instead(self, requirement: PlacementRequirement) -> Situation:
        """The same call with another capability requirement."""
        return Situation(
            attrs.evolve(self.task, requirement=requirement),
            self.state,
            self.policy,
            now=self.now,
            options=self.options,
            query=self.query,
            capabilities_of=self._capabilities_of,
        )

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
    return frozenset((wanted.label, *value) for value in _values(wanted.apart_from, wanted.label, capabilities_of))


def _placed_values(options: Options, capabilities_of: CapabilitiesOf | None) -> tuple[Value, ...]:
    """Type and value of the spread label for each node that already holds one."""
    wanted = options.spread
    if wanted is None or capabilities_of is None:
        return ()
    return tuple(_values(wanted.placed, wanted.label, capabilities_of))


def _values(nodes: Iterable[str], label: str, capabilities_of: CapabilitiesOf) -> Iterator[Value]:
    for node in nodes:
        record = capabilities_of(node)
        value = None if record is None else record.get(label)
        if value is not None:
            yield type(value), value

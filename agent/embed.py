"""An agent inside another trio program: `open_agent` runs it for as long as the block, and leaves at its end.

async with open_agent(Config.of({"gossip": {"seeds": ["10.0.0.7:7931"]}})) as agent:
    for node in agent.find_suitable_nodes("gpu_nvidia, gpu_vram_mb>=8000", limit=3):
        print(node.name, node.addr)
    print(agent.place("run a 7b model").node)
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Mapping

import attrs
import trio

from ..capabilities.requirement import PlacementRequirement
from ..capabilities.text import parse_requirement
from ..capabilities.values import CapValue
from ..gossip.member import Address
from ..placement.explain import Explanation, explain_decision, explain_find
from ..placement.find import find_suitable_nodes
from ..placement.nodes import NodeRecord
from ..placement.options import NO_OPTIONS, Options
from ..placement.place import place
from ..placement.policy import Policy
from ..placement.select import Decision
from ..placement.task import Task
from ..placement.view import View
from ..placement.workload import infer_requirements
from .config import Config
from .daemon import Agent
from .exception_groups import raise_as_it_was
from .histories import Histories
from .logs import configure_unless_host_did
from .watchers import Subscription


class EmbeddedAgent:
    """What the host program holds. The view and the queries may be used from any thread, the rest from trio's."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._backend = agent.backend
        self._clock = trio.lowlevel.current_clock()

    @property
    def view(self) -> View:
        """The picture of the cluster at this moment; it never changes, so keep it as long as you compare with it."""
        return self._backend.view

    @property
    def token(self) -> tuple[str, int]:
        """The fencing token of this run: node id as 32 hex digits, and generation."""
        identity = self._agent.parts.observer.current
        return identity.node_id.hex(), identity.generation

    @property
    def address(self) -> Address:
        """Where others reach this agent's gossip: give it to them as a seed."""
        return self._agent.parts.address

    def find_suitable_nodes(
        self, requirement: PlacementRequirement | str = "", limit: int | None = None, options: Options = NO_OPTIONS
    ) -> tuple[NodeRecord, ...]:
        """The nodes that satisfy `requirement` (or its text form), best first; from memory, at once.

        Raises:
            RequirementSyntaxError: the text does not parse.
            OptionRefused: the limit is below 1.
        """
        wanted = parse_requirement(requirement) if isinstance(requirement, str) else requirement
        now = self._clock.current_time()
        return find_suitable_nodes(self.view, wanted, limit, now=now, options=options).nodes

    def place(
        self,
        task: Task | str,
        options: Options = NO_OPTIONS,
        policy: Policy = Policy.agent,
        *,
        seed: int | None = None,
    ) -> Decision:
        """The node, or nodes, for a task, or for what its description asks for; from memory, at once.

        `seed` decides between equal nodes, in place of that of the options; without one each call gets its own.
        """
        wanted = infer_requirements(task).task if isinstance(task, str) else task
        now, unix = self._clock.current_time(), time.time()
        state = self._backend.histories.state(now, unix)
        options = attrs.evolve(options, seed=self._backend.next_seed() if seed is None else seed)
        return place(self.view, wanted, state, policy, now=now, options=options)

    def explain(
        self, asked: Decision | PlacementRequirement | str, *, node: str | None = None, options: Options = NO_OPTIONS
    ) -> Explanation:
        """Why a decision of `place`, or an answer about a requirement, comes out as it does; `node` asks for one node.

        Of a decision the options are its own. In a big cluster this takes a while: call it from a thread.

        Raises:
            RequirementSyntaxError: the text does not parse.
            UnknownNode: placement's, for a `node` that is not known.
        """
        if isinstance(asked, Decision):
            return explain_decision(asked, self.view, node=node)
        wanted = parse_requirement(asked) if isinstance(asked, str) else asked
        return explain_find(self.view, wanted, now=self._clock.current_time(), options=options, node=node)

    @property
    def histories(self) -> Histories:
        """What was observed of nodes; `observe` and `fail` add to it, in trio's thread."""
        return self._backend.histories

    def changes(self, *, vitals: bool = False) -> Subscription:
        """A bounded queue of what changes in the view from now on; a context manager."""
        return self._backend.watchers.subscribe(vitals=vitals)

    def set_labels(self, labels: Mapping[str, CapValue]) -> None:
        """Set labels of this node, all or none, and tell the cluster."""
        self._backend.set_labels(labels)

    async def joined(self) -> None:
        """Return once a node of the cluster has told us of the others; without seeds nobody may ever do."""
        with self._backend.watchers.subscribe(vitals=True) as changes:
            while not self._agent.parts.node.joined:
                await changes.next_change()

    async def join(self, addresses: list[Address]) -> int:
        """Join through these addresses; how many of them answered within a few seconds."""
        return await self._backend.join(addresses)


@contextlib.asynccontextmanager
async def open_agent(config: Config | None = None) -> AsyncGenerator[EmbeddedAgent]:
    """Run an agent beside the body of the block; ready when the block begins, gone from the cluster when it ends.

    A crash of the agent cancels the body and is raised in its place; what the body raises comes out as it is. A block
    that is cancelled leaves the cluster too, which takes up to `daemon.LEAVE_SECONDS`.

    Raises:
        ShoalError: the agent could not start.
    """
    chosen = config or Config()
    configure_unless_host_did(chosen.log.level, chosen.log.format)
    agent = Agent(chosen)
    scope = trio.CancelScope()

    async def run(task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await agent.run(task_status)

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            scope.shield = True  # from here on `stop` ends it, in its own time
            try:
                yield EmbeddedAgent(agent)
            finally:
                agent.stop()
                with trio.CancelScope(shield=True):
                    await agent.stopped.wait()
    except BaseExceptionGroup as group:
        raise_as_it_was(group.exceptions[0] if len(group.exceptions) == 1 else group)

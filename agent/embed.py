"""An agent inside another trio program: `open_agent` runs it for as long as the block, and leaves at its end.

async with open_agent(Config.of({"gossip": {"seeds": ["10.0.0.7:7931"]}})) as agent:
    for node in agent.find_suitable_nodes("gpu_nvidia, gpu_vram_mb>=8000", limit=3):
        print(node.name, node.addr)
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping

import trio

from ..capabilities.requirement import PlacementRequirement
from ..capabilities.text import parse_requirement
from ..capabilities.values import CapValue
from ..gossip.member import Address
from ..placement.find import find_suitable_nodes
from ..placement.nodes import NodeRecord
from ..placement.options import NO_OPTIONS, Options
from ..placement.view import View
from .config import Config
from .daemon import Agent
from .groups import raise_as_it_was
from .watchers import Subscription


class EmbeddedAgent:
    """What the host program holds. The view and the queries may be used from any thread, the rest from trio's."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._clock = trio.lowlevel.current_clock()

    @property
    def view(self) -> View:
        """The picture of the cluster at this moment; it never changes, so keep it as long as you compare with it."""
        return self._agent.view

    @property
    def token(self) -> tuple[str, int]:
        """The fencing token of this run: node id as 32 hex digits, and generation."""
        return self._agent.node_id, self._agent.generation

    @property
    def address(self) -> Address:
        """Where others reach this agent's gossip: give it to them as a seed."""
        return self._agent.address

    def find_suitable_nodes(
        self, requirement: PlacementRequirement | str = "", limit: int | None = None, options: Options = NO_OPTIONS
    ) -> tuple[NodeRecord, ...]:
        """The nodes that satisfy `requirement` (or its text form), best first; from memory, at once.

        Raises:
            RequirementSyntaxError: the text does not parse.
        """
        wanted = parse_requirement(requirement) if isinstance(requirement, str) else requirement
        now = self._clock.current_time()
        return find_suitable_nodes(self.view, wanted, limit, now=now, options=options).nodes

    def changes(self, *, vitals: bool = False) -> Subscription:
        """A bounded queue of what changes in the view from now on; a context manager."""
        return self._agent.watchers.subscribe(vitals=vitals)

    def set_labels(self, labels: Mapping[str, CapValue]) -> None:
        """Set labels of this node, all or none, and tell the cluster."""
        self._agent.set_labels(labels)

    async def join(self, addresses: list[Address]) -> int:
        """Join through these addresses; how many of them answered within a few seconds."""
        return await self._agent.join(addresses)


@contextlib.asynccontextmanager
async def open_agent(config: Config | None = None) -> AsyncGenerator[EmbeddedAgent]:
    """Run an agent beside the body of the block; ready when the block begins, gone from the cluster when it ends.

    A crash of the agent cancels the body and is raised in its place; what the body raises comes out as it is. A block
    that is cancelled leaves the cluster too, which takes up to `daemon.LEAVE_SECONDS`.

    Raises:
        ShoalError: the agent could not start.
    """
    agent = Agent(config or Config())
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

"""What the rules read of a node: `NodeFacts`, derived from a `NodeRecord` or built directly by tests.

A fact that is not known never excludes a node and is the worst value of its key: unknown free memory ranks as 0 but
is not a shortage, an unknown pressure ranks after `high`.
"""

from __future__ import annotations

import enum

import attrs

from ..capabilities.labels import tool_label
from ..capabilities.record import NodeCapabilities
from . import memory
from .nodes import NodeRecord, NodeState, ResidentModel, Schedulable

UNIFIED = "unified"
"""The memory topology in which GPU and CPU share their memory."""


NO_SHORTAGE_MB = 1 << 40
"""What a node may have of which neither total nor free memory is known."""


class Status(enum.StrEnum):
    """Whether the node can be judged at all."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNREACHABLE = "unreachable"
    ERROR = "error"


@attrs.frozen(kw_only=True)
class Gpu:
    """One accelerator; `capabilities` are the programming interfaces it offers (cuda, metal, rocm, vulkan)."""

    vendor: str = ""
    vram_mb: int = 0
    capabilities: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TurboQuant:
    """Whether the node's long-context quantisation works, proved or only announced, and for which backends."""

    supported: bool = False
    verified: bool = False
    backends: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class AppleModel:
    """The on-device foundation model of an Apple machine."""

    available: bool = False
    verified: bool = False


@attrs.frozen(kw_only=True)
class Ollama:
    """Whether ollama is on the node, and whether it serves."""

    installed: bool = False
    running: bool = False


@attrs.frozen(kw_only=True)
class Resources:
    """Amounts and load. Memory in MiB, PSI and stall in percent, battery in percent (None is unknown)."""

    cpu_cores: int = 0
    ram_total_mb: int = 0
    ram_free_mb: int = 0
    free_known: bool = True
    """False when no vitals came: then `ram_free_mb` is 0 and no shortage may be concluded from it."""
    pressure: str = ""
    pressure_source: str = ""
    stall_avg10: float = 0.0
    psi_some_avg10: float = 0.0
    psi_full_avg10: float = 0.0
    memory_topology: str = ""
    memory_class: int = 0
    load_1m: float = 0.0
    storage_class: str = ""
    battery_percent: float | None = None
    power_source: str | None = None
    thermal_state: str = ""
    gpus: tuple[Gpu, ...] = ()


def _allocatable(node: NodeFacts) -> int:
    if node.resources is None:
        return 0
    return node.allocatable_mb_cached if node.allocatable_mb_cached > 0 else _computed(node, node.resources.ram_free_mb)


def _allocatable_at_best(node: NodeFacts) -> int:
    if node.resources is None or node.resources.free_known or node.allocatable_mb_cached > 0:
        return _allocatable(node)
    total = node.resources.ram_total_mb
    return _computed(node, total) if total > 0 else NO_SHORTAGE_MB


def _computed(node: NodeFacts, free_mb: int) -> int:
    total = 0 if node.resources is None else node.resources.ram_total_mb
    return memory.allocatable(total, free_mb, node.reserved_mb, node.system_reserve_mb)


@attrs.frozen(cache_hash=True)
class MadeOf:
    """What a node is made of as far as scores of tasks read it: equal for equal machines, whatever their load."""

    gpus: tuple[Gpu, ...] = ()
    memory_topology: str = ""
    memory_class: int = 0
    storage_class: str = ""
    turboquant: TurboQuant | None = None


def _made_of(node: NodeFacts) -> MadeOf:
    have = node.resources
    if have is None:
        return MadeOf(turboquant=node.turboquant)
    return MadeOf(have.gpus, have.memory_topology, have.memory_class, have.storage_class, node.turboquant)


def _lower_tools(node: NodeFacts) -> frozenset[str]:
    return frozenset(tool.lower() for tool in node.tools)


@attrs.frozen(kw_only=True)
class NodeFacts:
    """A node as filter, rank and score see it.

    The fields that end the list are computed once from the others. `record` is what capability requirements are
    checked against; facts without one satisfy only an empty requirement.
    """

    name: str
    node_id: str = ""
    status: str = Status.COMPLETE
    is_local: bool = False
    resources: Resources | None = None
    reserved_mb: int = 0
    allocatable_mb_cached: int = 0
    """MiB as somebody else computed it; positive wins over the computed figure."""
    system_reserve_mb: int = 0
    tools: tuple[str, ...] = ()
    ollama: Ollama | None = None
    resident_models: tuple[ResidentModel, ...] = ()
    turboquant: TurboQuant | None = None
    apple: AppleModel | None = None
    network_class: str = ""
    fast_link: bool = False
    state: NodeState = NodeState.ALIVE
    schedulable: Schedulable = Schedulable.YES
    vitals_at: float | None = None
    record: NodeRecord | None = attrs.field(default=None, eq=False, repr=False)

    allocatable_mb: int = attrs.field(init=False, default=attrs.Factory(_allocatable, takes_self=True))
    """MiB that can still be promised: rank key 1."""
    allocatable_at_best_mb: int = attrs.field(init=False, default=attrs.Factory(_allocatable_at_best, takes_self=True))
    """The same for the filter: where free memory is unknown, all of it counts as free."""
    made_of: MadeOf = attrs.field(init=False, eq=False, repr=False, default=attrs.Factory(_made_of, takes_self=True))
    lower_tools: frozenset[str] = attrs.field(init=False, default=attrs.Factory(_lower_tools, takes_self=True))

    @property
    def key(self) -> str:
        """What state is keyed by: the node id, or the name for facts that were built without one."""
        return self.node_id or self.name

    @property
    def capabilities(self) -> NodeCapabilities | None:
        return None if self.record is None else self.record.capabilities

    @property
    def free_mb(self) -> int:
        """MiB that headroom and fit score start from: a cached figure counts even without resources."""
        return self.allocatable_mb_cached if self.allocatable_mb_cached > 0 else self.allocatable_mb

    @property
    def reservable_mb(self) -> int:
        if self.resources is None:
            return 0
        return memory.reservable(self.resources.ram_total_mb, self.resources.ram_free_mb, self.system_reserve_mb)

    @property
    def turboquant_supported(self) -> bool:
        return self.turboquant is not None and self.turboquant.supported

    @property
    def turboquant_verified(self) -> bool:
        return self.turboquant is not None and self.turboquant.supported and self.turboquant.verified

    @property
    def unified_memory(self) -> bool:
        return self.resources is not None and self.resources.memory_topology == UNIFIED

    @property
    def ollama_usable(self) -> bool:
        return self.ollama is not None and (self.ollama.running or self.ollama.installed)

    @property
    def apple_ready(self) -> bool:
        model = self.apple
        return model is not None and model.available and model.verified and self.has_tool("apple-foundation-models")

    def has_tool(self, tool: str) -> bool:
        """Whether the node lists the tool; case does not matter. Labels spell `llama-server` as `llama_server`."""
        wanted = tool.lower()
        if wanted in self.lower_tools:
            return True
        return self.record is not None and tool_label(wanted).removeprefix("tool_") in self.lower_tools

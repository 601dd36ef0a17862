"""What a caller wants to place: a capability requirement plus amounts, tools and backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .text import folded

if TYPE_CHECKING:
    from ..capabilities.requirement import PlacementRequirement

APPLE_TOOL = "apple-foundation-models"
OLLAMA = "ollama"
LLAMA_SERVER = "llama-server"
LLAMA_CPP = "llama.cpp"
MLX = "mlx"

UNKNOWN_CLASS = "unknown"
LOCAL_LLM = "local-llm-inference"
LONG_CONTEXT = "long-context-inference"
APPLE_CLASS = "apple-intelligence"
LLAMA_CLASS = "llama-server"

# From this much demanded memory on a task is heavy: the guards for pressure, battery and heat apply to it.
HEAVY_FLOOR_MB = 4096

_HEAVY_TOOLS = frozenset({OLLAMA, LLAMA_SERVER, APPLE_TOOL})
_HEAVY_BACKENDS = frozenset({LLAMA_CPP, MLX, APPLE_TOOL})
_RUNTIMES = {MLX: MLX, OLLAMA: OLLAMA, LLAMA_CPP: LLAMA_CPP, LLAMA_SERVER: LLAMA_CPP}


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _heavy(task: Task) -> bool:
    return (
        task.context_tokens > 0
        or task.prefers_turboquant
        or task.min_free_ram_mb >= HEAVY_FLOOR_MB
        or not _HEAVY_TOOLS.isdisjoint(task.lower_tools)
        or not _HEAVY_BACKENDS.isdisjoint(task.lower_backends)
    )


@attrs.frozen(kw_only=True)
class Task:
    """A unit of work as placement judges it. Memory in MiB; lists keep the caller's order.

    `min_free_ram_mb` is a floor for the node, `memory_request_mb` what the task will take; the request is never
    reduced and counts first. `requirement` is checked against the node's capability record.
    """

    description: str = ""
    workload_class: str = ""
    required_tools: tuple[str, ...] = ()
    min_free_ram_mb: int = 0
    memory_request_mb: int = 0
    context_tokens: int = 0
    prefers_turboquant: bool = False
    preferred_backends: tuple[str, ...] = ()
    requirement: PlacementRequirement | None = None

    lower_tools: tuple[str, ...] = attrs.field(
        init=False,
        eq=False,
        repr=False,
        default=attrs.Factory(lambda self: _lower(self.required_tools), takes_self=True),
    )
    lower_backends: tuple[str, ...] = attrs.field(
        init=False,
        eq=False,
        repr=False,
        default=attrs.Factory(lambda self: _lower(self.preferred_backends), takes_self=True),
    )
    is_heavy: bool = attrs.field(init=False, eq=False, repr=False, default=attrs.Factory(_heavy, takes_self=True))

    @property
    def is_apple(self) -> bool:
        """Only the deciding node itself can run it, through its on-device model."""
        return APPLE_TOOL in self.lower_tools or APPLE_TOOL in self.lower_backends

    @property
    def bootstraps_ollama(self) -> bool:
        """Nothing but ollama is asked for: a node whose facts are incomplete may still serve it."""
        return len(self.lower_tools) == 1 and self.lower_tools[0] == OLLAMA

    @property
    def wants_unified_memory(self) -> bool:
        return self.context_tokens > 0 or self.prefers_turboquant or MLX in self.lower_backends

    @property
    def wanted_runtime(self) -> str:
        """The engine whose resident models count; empty when the task names none."""
        if self.is_apple:
            return APPLE_TOOL
        if OLLAMA in self.lower_tools:
            return OLLAMA
        if LLAMA_SERVER in self.lower_tools:
            return LLAMA_CPP
        return next((_RUNTIMES[name] for name in map(folded, self.preferred_backends) if name in _RUNTIMES), "")

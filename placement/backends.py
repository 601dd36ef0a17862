"""How well a node serves the engines that a task prefers, and what it already holds in memory for them."""

from __future__ import annotations

from .facts import NodeFacts
from .task import APPLE_TOOL, LLAMA_CPP, LLAMA_SERVER, MLX, OLLAMA, Task

# The names that people give for a backend; a task may prefer any other too.
BACKENDS = (MLX, LLAMA_CPP, OLLAMA, APPLE_TOOL, "cuda", "rocm", "metal")
_HOT, _WARM = 0.9, 0.5


def backend_rank(node: NodeFacts, task: Task) -> int:
    """0 to 4: the best over the preferred backends."""
    return max((_RANKS[backend](node) for backend in task.lower_backends if backend in _RANKS), default=0)


def _apple(node: NodeFacts) -> int:
    return 4 if node.is_local and node.apple_ready else 0


def _llama(node: NodeFacts) -> int:
    served, listed = node.has_tool(LLAMA_SERVER), _lists(node, LLAMA_CPP)
    return 2 + listed if served else int(listed)


def _mlx(node: NodeFacts) -> int:
    listed, unified = _lists(node, MLX), node.unified_memory
    return 2 + unified if listed else int(unified)


_RANKS = {APPLE_TOOL: _apple, LLAMA_CPP: _llama, MLX: _mlx}


def _lists(node: NodeFacts, backend: str) -> bool:
    """Whether the TurboQuant list names the backend; it is read even where TurboQuant is not supported."""
    return node.turboquant is not None and any(name.lower() == backend for name in node.turboquant.backends)


def resident(node: NodeFacts, runtime: str) -> int:
    """How many models the node holds in memory for this engine."""
    if not runtime:
        return 0
    return sum(1 for model in node.resident_models if model.engine.lower() == runtime)


def warmth(node: NodeFacts, runtime: str, now: float) -> int:
    """2 when one of those models stays for long, 1 when it stays for a while, else 0."""
    if not runtime:
        return 0
    warmest = max(
        (model.warmth_at(now) for model in node.resident_models if model.engine.lower() == runtime), default=0.0
    )
    return 2 if warmest > _HOT else int(warmest > _WARM)

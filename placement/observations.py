"""What earlier runs on a node cost: recorded by callers, merged per exact scope, used while it is fresh.

The values are immutable: recording gives a new `Observations`, so a query that reads an old one is not disturbed.
Times are seconds of the clock that `ClusterState.epoch` relates to `now`; 0 means no time is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from . import task as tasks
from .model_name import extract_model_name
from .task import Task
from .text import folded, trimmed

# A week: a machine's software and models change faster than that.
FRESH_SECONDS = 7 * 24 * 3600.0

# An agent remembers this many scopes; the longest unseen goes first. A scope is about 200 bytes.
MAX_OBSERVATIONS = 2048

_MODEL_CLASSES = frozenset((tasks.LOCAL_LLM, tasks.LONG_CONTEXT, tasks.APPLE_CLASS, tasks.LLAMA_CLASS))
_SCOPE_TOOLS = frozenset((tasks.APPLE_TOOL, tasks.OLLAMA, tasks.LLAMA_SERVER))
_BACKEND_OF_TOOL = {
    tasks.APPLE_TOOL: tasks.APPLE_TOOL,
    tasks.OLLAMA: tasks.OLLAMA,
    tasks.LLAMA_SERVER: tasks.LLAMA_CPP,
}

ScopeKey = tuple[str, str, str, str, str]


@attrs.frozen(kw_only=True)
class ObservationScope:
    """What a run is remembered under. Two scopes are the same when all five fields are, trimmed and lower-cased."""

    node: str = ""
    workload_class: str = ""
    backend: str = ""
    tool: str = ""
    model_name: str = ""

    @property
    def key(self) -> ScopeKey:
        return (folded(self.node), *self.shape)

    @property
    def shape(self) -> tuple[str, str, str, str]:
        """The key without the node: what a whole placement looks for."""
        return folded(self.workload_class), folded(self.backend), folded(self.tool), folded(self.model_name)


@attrs.frozen(kw_only=True)
class Observation:
    """How runs of one scope went. Wall time in milliseconds, peaks in MiB (0 is unknown)."""

    scope: ObservationScope
    observed_at: float = 0.0
    success: bool = True
    wall_ms: int = 0
    peak_ram_mb: int = 0
    peak_vram_mb: int = 0
    samples: int = 1

    def is_fresh(self, now: float) -> bool:
        """Whether it may still decide; a time in the future is another machine's clock, and fresh."""
        return self.observed_at != 0 and now - self.observed_at <= FRESH_SECONDS

    def normalised(self) -> Observation:
        return attrs.evolve(
            self,
            wall_ms=max(1, self.wall_ms),
            samples=max(1, self.samples),
            peak_ram_mb=max(0, self.peak_ram_mb),
            peak_vram_mb=max(0, self.peak_vram_mb),
        )

    def merged(self, other: Observation) -> Observation:
        """Both together: the later one's time and outcome, the mean wall time, the higher peaks."""
        latest = other if other.observed_at >= self.observed_at else self
        samples = self.samples + other.samples
        return attrs.evolve(
            latest,
            wall_ms=(self.wall_ms * self.samples + other.wall_ms * other.samples) // samples,
            peak_ram_mb=max(self.peak_ram_mb, other.peak_ram_mb),
            peak_vram_mb=max(self.peak_vram_mb, other.peak_vram_mb),
            samples=samples,
        )


def observation_scope_for_requirements(node: str, task: Task, selected_tool: str = "") -> ObservationScope:
    """The scope of a run of the task on the node; placement looks up with no selected tool.

    Recording uses `recording_scope`, so that what is recorded is also found.
    """
    tool = trimmed(selected_tool) or _scope_tool(task)
    backend = trimmed(task.preferred_backends[0]) if task.preferred_backends else _BACKEND_OF_TOOL.get(tool.lower(), "")
    named = task.workload_class in _MODEL_CLASSES
    return ObservationScope(
        node=trimmed(node),
        workload_class=task.workload_class,
        backend=backend,
        tool=tool,
        model_name=extract_model_name(task.description) if named else "",
    )


def recording_scope(node: str, task: Task) -> ObservationScope:
    """The scope to record a run under: the very one that placement looks up, whatever tool the run used.

    A task of several tools is remembered without a tool. Recording the selected one, as the original does, hides
    such observations from every later lookup.
    """
    return observation_scope_for_requirements(node, task)


def _scope_tool(task: Task) -> str:
    if len(task.required_tools) == 1:
        return trimmed(task.required_tools[0])
    return next((tool for tool in task.required_tools if tool.lower() in _SCOPE_TOOLS), "")


class Observations:
    """Every remembered scope, immutable. Truth is "holds something"."""

    __slots__ = ("_by_key",)

    def __init__(self, observations: Iterable[Observation] = ()) -> None:
        self._by_key = _bounded(_merged({}, observations))

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self._by_key.values())

    def recorded(self, observation: Observation) -> Observations:
        """These and one more run, merged into its scope."""
        return self.merged((observation.normalised(),))

    def merged(self, others: Iterable[Observation]) -> Observations:
        """These and others, added up per scope; the cost is that of the others."""
        both = Observations()
        both._by_key = _bounded(_merged(self._by_key.copy(), others))
        return both

    def get(self, scope: ObservationScope) -> Observation | None:
        return self._by_key.get(scope.key)

    def fresh_by_node(self, shape: tuple[str, str, str, str], now: float) -> Mapping[str, Observation]:
        """Lower-cased node -> the fresh observation of that shape, for the nodes that have one."""
        found = {key[0]: seen for key, seen in self._by_key.items() if key[1:] == shape and seen.is_fresh(now)}
        return MappingProxyType(found)

    def pruned(self, now: float) -> Observations:
        """Only those that are still fresh."""
        return Observations(seen for seen in self if seen.is_fresh(now))

    def newest(self, count: int) -> tuple[Observation, ...]:
        """At most `count`, the latest first: what fits into a gossiped section."""
        return tuple(sorted(self, key=lambda seen: (-seen.observed_at, seen.scope.key))[:count])


def _merged(by_key: dict[ScopeKey, Observation], others: Iterable[Observation]) -> dict[ScopeKey, Observation]:
    """The given map with the others merged into it."""
    for observation in others:
        key = observation.scope.key
        held = by_key.get(key)
        by_key[key] = observation if held is None else held.merged(observation)
    return by_key


def _bounded(by_key: dict[ScopeKey, Observation]) -> dict[ScopeKey, Observation]:
    if len(by_key) <= MAX_OBSERVATIONS:
        return by_key
    kept = sorted(by_key.items(), key=lambda item: item[1].observed_at)[-MAX_OBSERVATIONS:]
    return dict(kept)

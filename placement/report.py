"""A decision in sentences: why this node, or why none. Kinds are constant, texts are for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import task as tasks
from .backends import resident
from .facts import NodeFacts, Resources, Status
from .filter import Reason, ReasonKind
from .nodes import Tier
from .score import label_of
from .select import Decision, Line
from .wording import gib, reason_text

# How many resident models a line names; the rest are counted.
_MODELS_NAMED = 3


def decision_lines(decision: Decision) -> tuple[Line, ...]:
    """What speaks for the chosen node, or against each node when none was chosen."""
    node = decision.node
    return tuple(_failure(decision) if node is None else _success(decision, node))


def _success(decision: Decision, node: NodeFacts) -> Iterator[Line]:
    yield from _about_task(decision)
    yield from _about_trust(decision, node)
    task = decision.situation.task
    if node.is_local and tasks.OLLAMA in task.lower_tools:
        yield Line("ollama_on_local", "ollama is on the deciding node")
    if node.is_local and task.is_apple:
        yield Line("apple_fm_local", "the on-device model of the deciding node serves it")
    yield from _about_context(decision, node)
    yield from _about_experience(decision, node)
    score = decision.fit_score
    yield Line("fit_score", f"fit score {score} of 100: {label_of(score)}")
    yield Line("locality", "on the deciding node" if node.is_local else "on another node")
    if node.resources is not None:
        yield from _about_resources(node, node.resources)
    found = [tool for tool in task.required_tools if node.has_tool(tool)]
    if found:
        yield Line("tools", "has " + ", ".join(_versioned(node, tool) for tool in found))
    yield from _against_others(decision, node)
    failure = decision.situation.failure(node)
    if failure is not None and not failure.is_blocking:
        yield Line(
            "soft_failure_penalty", f"{failure.count} recent {failure.failure_class} cost {10 * failure.count} points"
        )


def _about_task(decision: Decision) -> Iterator[Line]:
    workload = decision.situation.task.workload_class
    if workload not in ("", tasks.UNKNOWN_CLASS):
        yield Line("workload_class", f"work of class {workload}")


def _about_trust(decision: Decision, node: NodeFacts) -> Iterator[Line]:
    """What an operator should know before relying on the choice; facts without a record are a test's, and silent."""
    if node.record is None:
        return
    now = decision.situation.now
    tier, age = node.record.tier(now), node.record.age(now)
    if tier is Tier.SUSPECT:
        yield Line("suspect", "suspected to be down; nothing better fits")
    elif tier is Tier.STALE:
        heard = "never said how it is doing" if age is None else f"was last heard of {age:.0f} s ago"
        yield Line("stale", f"{heard}; nothing fresher fits")


def _about_context(decision: Decision, node: NodeFacts) -> Iterator[Line]:
    task = decision.situation.task
    if task.context_tokens > 0:
        yield Line("context_tokens", f"a context of {task.context_tokens} tokens")
    if task.wants_unified_memory and node.unified_memory and node.resources is not None:
        grade = node.resources.memory_class
        yield Line("unified_memory", "unified memory" + (f" of class {grade}" if grade > 0 else ""))
    if task.prefers_turboquant and node.turboquant is not None and node.turboquant_supported:
        proof = "verified" if node.turboquant_verified else "detected"
        yield Line(
            "turboquant_backend", f"TurboQuant {proof} for {', '.join(node.turboquant.backends) or 'no backend'}"
        )


def _about_experience(decision: Decision, node: NodeFacts) -> Iterator[Line]:
    seen = decision.situation.observation(node)
    if seen is not None:
        outcome = "" if seen.success else ", the last one failed"
        peak = f", peak {gib(seen.peak_ram_mb)}" if seen.peak_ram_mb > 0 else ""
        yield Line("observation_summary", f"{seen.samples} runs here, {seen.wall_ms} ms{peak}{outcome}")
    runtime = decision.situation.task.wanted_runtime
    models = [model for model in node.resident_models if runtime and model.engine.lower() == runtime]
    if models:
        named = ", ".join(model.name for model in models[:_MODELS_NAMED])
        yield Line("resident_models", f"{runtime} holds {named}" + _more(len(models) - _MODELS_NAMED))


def _about_resources(node: NodeFacts, have: Resources) -> Iterator[Line]:
    if node.reserved_mb > 0 or node.allocatable_mb_cached > 0:
        yield Line("ram_with_reservations", f"{gib(node.allocatable_mb)} allocatable, {gib(node.reserved_mb)} reserved")
    else:
        yield Line("ram_plain", f"{gib(have.ram_free_mb)} of {gib(have.ram_total_mb)} free")
    yield Line("pressure", f"memory pressure {have.pressure or 'unknown'}")
    yield Line("cpu", f"{have.cpu_cores} cores, load {have.load_1m:.2f}")
    if have.gpus:
        yield Line("gpu", ", ".join(f"{gpu.vendor or 'unknown'} {gib(gpu.vram_mb)}" for gpu in have.gpus))


def _versioned(node: NodeFacts, tool: str) -> str:
    record = node.capabilities
    version = None if record is None else record.get(f"tool_{tool}_version")
    return f"{tool} {version}" if version is not None else tool


def _against_others(decision: Decision, node: NodeFacts) -> Iterator[Line]:
    count = len(decision.ranking.candidates)
    other = decision.runner_up
    if count <= 1 or other is None:
        return
    yield Line("eligible_count", f"{count} nodes were eligible")
    key = decision.decided_by
    if decision.ranking.ran_better(node, other):
        yield Line("versus_runner_up_observation", "earlier runs went better here than on the runner-up")
    runtime = decision.situation.task.wanted_runtime
    if resident(node, runtime) > resident(other, runtime):
        yield Line("versus_runner_up_resident", "more of the engine's models are resident than on the runner-up")
    if node.reserved_mb < other.reserved_mb:
        yield Line("versus_runner_up_share", "carries less of the reservations than the runner-up")
    score = decision.ranking.scorer.score(other)
    yield Line("runner_up", f"runner-up {other.name} with {score}" + (f", decided by {key}" if key else ""))


def _failure(decision: Decision) -> Iterator[Line]:
    excluded = decision.filtered.excluded
    if not decision.nodes:
        yield Line("no_nodes", "the view holds no nodes")
        return
    yield Line("none_qualify", f"{len(decision.filtered.eligible)} of {len(decision.nodes)} nodes qualify")
    wanted = decision.situation.options.count
    if decision.filtered.eligible:
        yield Line("too_few", f"{wanted} nodes were asked for together, all or nothing")
    yield from _about_task(decision)
    for node, reasons in excluded:
        yield from _node_lines(node, reasons)
    yield from _hints(decision)


def _node_lines(node: NodeFacts, reasons: Iterable[Reason]) -> Iterator[Line]:
    """A line per reason, and what an operator should know of the node beside them."""
    kinds = [reason.kind for reason in reasons]
    if node.status != Status.COMPLETE and ReasonKind.STATUS not in kinds:
        yield Line("node:status", f"{node.name}: its facts are {node.status}, which would not have mattered here")
    for reason in reasons:
        yield Line(f"node:{reason.kind.value}", f"{node.name}: {reason_text(reason)}")
        if reason.beside is not None:
            yield Line(f"node:{reason.beside.kind.value}", f"{node.name}: {reason_text(reason.beside)}")


def _hints(decision: Decision) -> Iterator[Line]:
    task = decision.situation.task
    if tasks.OLLAMA in task.lower_tools:
        yield Line("hint_bootstrap", "install ollama on a node, or ask for another engine")
    if task.prefers_turboquant or task.context_tokens > 0:
        yield Line("hint_turboquant", "verified TurboQuant lowers the floor of long contexts to a sixth")
    if task.min_free_ram_mb >= tasks.HEAVY_FLOOR_MB:
        yield Line("hint_small_models", "a smaller model or a shorter context needs less free memory")


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""

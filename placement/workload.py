"""From a sentence to a task: which class of work it is, and what that class needs.

Keywords only, no guessing: a trigger matches as a sequence of whole words in the canonical text, so `llama.cpp` and
`LLAMA-CPP` are the same and plurals are not. A caller with a better classifier passes it in; the tools, amounts and
backends are always read from the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from . import task as tasks
from .task import Task
from .text import canonical

_RUNTIME_LLAMA = ("llama cpp", "llama cli", "llama server")
_RUNTIME_APPLE = ("apple intelligence", "apple foundation models")
_APPLE = ("apple intelligence", "apple foundation models", "apple foundation model", "language model session")
_LONG = (
    *("128k", "256k", "512k", "1m context", "1m tokens", "million token", "million tokens"),
    *("book length", "needle in a haystack", "long context"),
)
_LLM = ("run ollama", "ollama run", "ollama chat", "local llm", "llm inference")
_ACTION = ("run", "serve", "host", "chat", "generate", "summarize")
_SIZE = ("7b", "8b", "13b", "14b", "32b", "34b", "70b")
_RUNTIME = ("ollama", "llm", "mlx", *_RUNTIME_LLAMA, *_RUNTIME_APPLE)
_REPO = ("analyze repo", "review codebase", "scan repo", "clone repo", "clone this repo", "repository analysis")
_GO = ("go build", "go test", "run go tests", "compile go", "compile the go binary")
_DOCKER = ("docker build", "build image", "containerize", "docker container")
_INDEX = ("scan filesystem", "vectorize", "embed", "embeddings")
_BATCH = ("batch script", "batch job", "run python", "data processing", "process data")
_OTHER_BACKENDS = ("mlx", *_RUNTIME_LLAMA, *_RUNTIME_APPLE)

# The biggest size named decides what the model needs, in MiB; the first row that matches counts.
_FLOORS = (
    (("70b",), 12288),
    (("13b", "14b", "32b", "34b", "heavy"), 8192),
    (("7b", "8b"), 4096),
    (("inference", "llm", "ollama"), 6144),
)
_CONTEXTS = (
    (("million token", "million tokens", "1m context", "1m tokens"), 1_000_000),
    (("512k",), 512_000),
    (("256k", "200k"), 256_000),
    (("128k", "long context", "book length", "needle in a haystack"), 128_000),
)
_CONTEXT_FLOORS = ((1_000_000, 12288), (512_000, 8192), (128_000, 6144))
_BACKENDS = (
    (("mlx", "mlx lm", "apple silicon", "mac studio", "macbook pro", "mac mini"), tasks.MLX),
    (("apple intelligence", "apple foundation models", "language model session"), tasks.APPLE_TOOL),
    (_RUNTIME_LLAMA, tasks.LLAMA_CPP),
)


@attrs.frozen
class Profile:
    """What a class of work needs: tools, a RAM floor and a typical peak in MiB, backends."""

    tools: tuple[str, ...] = ()
    floor_mb: int = 0
    peak_hint_mb: int = 0
    backends: tuple[str, ...] = ()
    turboquant: bool = False


PROFILES = {
    tasks.APPLE_CLASS: Profile(tools=(tasks.APPLE_TOOL,), backends=(tasks.APPLE_TOOL,)),
    tasks.LLAMA_CLASS: Profile((tasks.LLAMA_SERVER,), 6144, 8192, (tasks.LLAMA_CPP,)),
    tasks.LONG_CONTEXT: Profile(floor_mb=6144, peak_hint_mb=10240, turboquant=True),
    tasks.LOCAL_LLM: Profile(peak_hint_mb=6144),
    "repo-analysis": Profile(("git",), 0, 1024),
    "go-build": Profile(("go", "git"), 0, 2048),
    "docker-build": Profile(("docker",), 0, 4096),
    "indexing-io": Profile(floor_mb=2048, peak_hint_mb=2048),
    "batch-script": Profile(peak_hint_mb=512),
}
_NO_PROFILE = Profile()


@attrs.frozen
class Inference:
    """The inferred task, and the other classes whose words were there too, in order of priority."""

    task: Task
    also_matched: tuple[str, ...] = ()


def peak_hint(workload_class: str) -> int:
    """MiB that this class of work typically peaks at; 0 when nothing is known."""
    return PROFILES.get(workload_class, _NO_PROFILE).peak_hint_mb


def infer_requirements(description: str, classifier: Callable[[str], str] | None = None) -> Inference:
    """The task that the description asks for.

    Args:
        description: What the user wrote.
        classifier: Called with the description, gives a workload class; whatever it raises, or an answer that is no
            class name, leaves the decision to the keywords.
    """
    words = _Words(description)
    found = _ask(classifier, description)
    matched: tuple[str, ...] = () if found else classes(words)
    workload_class = found or (matched[0] if matched else tasks.UNKNOWN_CLASS)
    return Inference(_task_of(description, words, workload_class), matched[1:])


def _ask(classifier: Callable[[str], str] | None, description: str) -> str:
    if classifier is None:
        return ""
    try:
        answer: object = classifier(description)
    except Exception:  # noqa: BLE001 - an injected classifier may fail in any way; keywords are the answer to all
        return ""
    return answer if type(answer) is str else ""


class _Words:
    """The canonical text of a description, asked for whole words and phrases."""

    def __init__(self, description: str) -> None:
        self._text = f" {canonical(description)} "

    def any(self, *phrases: str) -> bool:
        return any(f" {phrase} " in self._text for phrase in phrases)


def classes(words: _Words) -> tuple[str, ...]:
    """Every class that the words match, by priority."""
    long = words.any(*_LONG)
    llm = _is_llm(words, long=long)
    signals = (
        (words.any(*_APPLE), tasks.APPLE_CLASS),
        (words.any(*_RUNTIME_LLAMA), tasks.LLAMA_CLASS),
        (llm, tasks.LOCAL_LLM),
        (_is_repo(words), "repo-analysis"),
        (words.any(*_GO) or (words.any("go") and words.any("build", "compile", "test")), "go-build"),
        (words.any(*_DOCKER) or (words.any("docker") and _is_docker(words)), "docker-build"),
        (words.any(*_INDEX) or (words.any("index") and _is_corpus(words)), "indexing-io"),
        (words.any(*_BATCH) or (words.any("batch") and words.any("script", "job")), "batch-script"),
        (long, tasks.LONG_CONTEXT),
    )
    matched = [name for hit, name in signals if hit]
    if long and matched[0] == tasks.LOCAL_LLM:
        return (tasks.LONG_CONTEXT, *(name for name in matched if name != tasks.LONG_CONTEXT))
    return tuple(matched)


def _is_llm(words: _Words, *, long: bool) -> bool:
    action, size, runtime = words.any(*_ACTION), words.any(*_SIZE), words.any(*_RUNTIME)
    model, local = words.any("model"), words.any("local")
    return (
        words.any(*_LLM)
        or (action and ((local and model) or size))
        or (words.any("inference") and (model or size or runtime or long))
        or (action and runtime and (model or size or local or long))
    )


def _is_repo(words: _Words) -> bool:
    verb = words.any("analyze", "review", "scan", "inspect", "clone")
    return (
        words.any(*_REPO)
        or (verb and words.any("repo", "repository", "codebase"))
        or (words.any("commit") and words.any("repo", "repository", "history"))
    )


def _is_docker(words: _Words) -> bool:
    return words.any("build", "container", "image", "spin up")


def _is_corpus(words: _Words) -> bool:
    return words.any("filesystem", "files", "documents", "corpus")


def _task_of(description: str, words: _Words, workload_class: str) -> Task:
    profile = PROFILES.get(workload_class, _NO_PROFILE)
    names_ollama, other_backend = words.any("ollama"), words.any(*_OTHER_BACKENDS)
    tools, floor = [*profile.tools], profile.floor_mb
    if workload_class in (tasks.LOCAL_LLM, tasks.LONG_CONTEXT):
        floor = max(floor, _first(words, _FLOORS))
        sized = words.any("llm", "13b", "14b", "32b", "34b", "70b", "inference")
        if names_ollama or (sized and not other_backend):
            tools.append(tasks.OLLAMA)
    tools += _secondary_tools(words, ollama=names_ollama and not other_backend)
    tokens = _first(words, _CONTEXTS)
    if tokens > 0:
        floor = max(floor, next((mb for least, mb in _CONTEXT_FLOORS if tokens >= least), 0))
    named = [backend for phrases, backend in _BACKENDS if words.any(*phrases)]
    return Task(
        description=description,
        workload_class=workload_class,
        required_tools=_unique(tools),
        min_free_ram_mb=floor,
        context_tokens=tokens,
        prefers_turboquant=profile.turboquant or tokens > 0,
        preferred_backends=_unique([*profile.backends, *named]),
    )


def _secondary_tools(words: _Words, *, ollama: bool) -> list[str]:
    """Tools of the other classes that the text also names."""
    tools: list[str] = []
    if _is_repo(words):
        tools.append("git")
    if words.any(*_GO) or (words.any("go") and words.any("build", "compile", "test")):
        tools += ["go", "git"]
    if words.any(*_DOCKER) or (words.any("docker") and _is_docker(words)):
        tools.append("docker")
    if ollama:
        tools.append(tasks.OLLAMA)
    return tools


def _first(words: _Words, table: Iterable[tuple[tuple[str, ...], int]]) -> int:
    return next((amount for phrases, amount in table if words.any(*phrases)), 0)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

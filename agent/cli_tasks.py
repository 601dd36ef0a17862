"""What commands let people ask of a placement: a task in words, in flags or in a file, and the options of a choice."""

from __future__ import annotations

import argparse

from .cli_options import Parser, positive, whole
from .cli_task_file import task_from
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What `--prefer` takes for a backend; anything else is a requirement that nodes should rather satisfy.
BACKENDS = ("mlx", "llama.cpp", "ollama", "apple-foundation-models", "cuda", "rocm", "metal")
# As `placement.options` has them, which a client command does not import; the agent checks them too.
_MOST_WEIGHT = 1000
_MOST_SKEW = 64


def declare_work(parser: Parser) -> None:
    """Which work it is about: what tells one kind of task from another."""
    parser.add_argument("task", nargs="?", help="what to run, in words; or a file .toml or .json; - is standard input")
    parser.add_argument("--class", dest="workload_class", metavar="NAME", help="class of work, such as go-build")
    parser.add_argument("--literally", action="store_true", help="conclude nothing from the words")


def declare_task(parser: Parser) -> None:
    """All that a task may ask for; `declare_options` adds `--prefer`, which takes backends too."""
    declare_work(parser)
    parser.add_argument("--tool", action="append", metavar="NAME", help="a program that must be there; repeatable")
    parser.add_argument("--min-free-ram", metavar="AMOUNT", help="free memory that must be there, such as 4GiB")
    parser.add_argument("--memory", metavar="AMOUNT", help="memory that the task will take")
    parser.add_argument("--context", type=positive, metavar="TOKENS", help="length of a model's context")
    parser.add_argument("--turboquant", action="store_true", default=None, help="prefer TurboQuant for long contexts")
    parser.add_argument("--require", metavar="REQ", help="requirement of the node, such as 'gpu_vram_mb>=20GiB'")


def declare_options(parser: Parser, *, placing: bool) -> None:
    """The options that `find`, `explain` and `place` share; a placement has some more."""
    wish = "a requirement that nodes should rather satisfy"
    wish = f"a backend ({', '.join(BACKENDS[:3])}, ...), or {wish}" if placing else wish
    add = parser.add_argument
    add("--count", type=positive, metavar="N", help="so many nodes together, or none")
    add("--strict", action="store_true", default=None, help="leave out nodes under suspicion")
    add("--avoid", action="append", metavar="NODE", help="leave out this node; repeatable")
    add("--spread", metavar="LABEL[:SKEW]", help="spread the nodes over the values of a label")
    add("--anti-affinity", metavar="LABEL", help="no two of the nodes share the value of a label")
    add("--placed", action="append", metavar="NODE", help="holds one already: spread or keep apart from it; repeatable")
    add("--prefer", action="append", metavar="[WEIGHT:]REQ", help=f"{wish} (rather not: --prefer=-5:REQ); repeatable")
    add("--prefer-local", type=positive, metavar="MARGIN", help="this node, unless it is so much worse")
    add("--fallback", action="append", metavar="REQ", help="instead of the requirement when nothing fits; repeatable")
    if placing:
        add("--pick", metavar="WAY", help="best, two_choices, spread or sticky:KEY")
        add("--seed", type=_seed, metavar="N", help="seed of an earlier answer: decides between equal nodes")
        add("--rank", choices=("banded", "exact"), help="what the order compares first")
        add("--score", choices=("weighted", "documented"), help="what the fit score counts")
        add("--without", action="append", metavar="RULE", help="switch off one rule, such as skew; repeatable")


def task_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments `task`, `options` and `policy` of a placement: what the file says, with the flags over it.

    Raises:
        UsageError: there is no such file, or it is neither TOML nor JSON.
    """
    task = _task(options.task)
    selection, policy = _table(task, "options"), _table(task, "policy")
    wishes: list[str] = options.prefer or []
    options.prefer = [wish for wish in wishes if wish not in BACKENDS]
    _put(task, "min_free_ram_mb", options.min_free_ram)
    _put(task, "memory_request_mb", options.memory)
    _put(task, "context_tokens", options.context)
    _put(task, "prefers_turboquant", options.turboquant)
    _put(task, "requirement", options.require)
    _describe(task, options, [wish for wish in wishes if wish in BACKENDS])
    if not task:
        raise UsageError("there is no task", hint="say what to run: shoal place 'run a 7b model'; or its flags")
    for name in ("rank", "score"):
        _put(policy, name, getattr(options, name))
    _add(policy, "without", options.without)
    return {"task": task, "options": {**selection, **option_arguments(options)}, "policy": policy}


def work_argument(options: argparse.Namespace) -> dict[str, Any]:
    """The argument `task` of a call that is about some kind of work; empty when it names none."""
    task = _task(options.task)
    for table in ("options", "policy"):
        task.pop(table, None)
    if options.task is not None and not task:
        raise UsageError(f"{options.task} says nothing of the work")
    _describe(task, options, getattr(options, "prefer", None) or [])
    return task


def option_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The argument `options` of a find or placement."""
    chosen: dict[str, Any] = {}
    for name in ("count", "strict", "avoid", "prefer_local", "pick", "seed"):
        _put(chosen, name, getattr(options, name, None))
    if options.spread is not None:
        label, _, skew = options.spread.partition(":")
        chosen["spread"] = {"label": label, "max_skew": _skew(skew), "placed": options.placed or []}
    if options.anti_affinity is not None:
        chosen["anti_affinity"] = {"label": options.anti_affinity, "apart_from": options.placed or []}
    if options.placed and options.spread is None and options.anti_affinity is None:
        raise UsageError("--placed says nothing without --spread or --anti-affinity")
    if options.prefer:
        chosen["prefer"] = [_preference(text) for text in options.prefer]
    if options.fallback:
        chosen["fallbacks"] = options.fallback
    return chosen


def _describe(task: dict[str, Any], options: argparse.Namespace, backends: list[str]) -> None:
    _put(task, "workload_class", options.workload_class)
    _add(task, "required_tools", getattr(options, "tool", None))
    _add(task, "preferred_backends", backends)
    _put(task, "infer", False if options.literally else None)


def _task(given: str | None) -> dict[str, Any]:
    return {} if given is None else task_from(given)


def _preference(text: str) -> dict[str, Any]:
    """`REQ` or `WEIGHT:REQ`; a key never begins with a digit."""
    number, colon, requirement = text.partition(":")
    digits = number[1:] if number[:1] == "-" else number
    if not (colon and digits.isascii() and digits.isdigit()):
        return {"requirement": text}
    weight = whole(digits)
    if weight is None or weight > _MOST_WEIGHT:
        raise UsageError(f"--prefer: expected a weight from -{_MOST_WEIGHT} to {_MOST_WEIGHT}, not {number!r}")
    return {"requirement": requirement, "weight": -weight if number[0] == "-" else weight}


def _skew(text: str) -> int:
    if not text:
        return 1
    skew = whole(text)
    if skew is None or skew > _MOST_SKEW:
        raise UsageError(f"--spread: expected LABEL:SKEW with a whole number up to {_MOST_SKEW}, not {text!r}")
    return skew


def _seed(text: str) -> int:
    seed = whole(text)
    if seed is None or seed >= 1 << 64:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, not {text!r}")
    return seed


def _table(task: dict[str, Any], name: str) -> dict[str, Any]:
    """A table of the task's file, taken out of it."""
    table: dict[str, Any] = task.pop(name, None) or {}
    if not hasattr(table, "keys"):
        raise UsageError(f"{name}: expected a table")
    return dict(table)


def _put(into: dict[str, Any], name: str, value: object) -> None:
    if value is not None:
        into[name] = value


def _add(into: dict[str, Any], name: str, values: list[str] | None) -> None:
    """Flags add to the list of the file."""
    if values:
        held: Any = into.get(name)
        into[name] = [*held, *values] if isinstance(held, list) else values

"""Commands about experience with nodes: observe, fail, override, history."""

from __future__ import annotations

import argparse

from . import cli_output as output
from .cli_options import FORMATS, Command, Parser, agent, positive, seconds
from .cli_tasks import BACKENDS, declare_work, work_argument
from .errors import NoMatch, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_ONE = ("table", "json")
# The failure classes, those that keep work away first; the agent checks them.
_FAILURES = (
    "exec-crash", "thermal-failure", "battery-failure", "backend-misfit", "tool-missing", "resource-exhaustion",
    "network-failure", "timeout", "operator-abort", "unknown",
)  # fmt: skip


def observe(options: argparse.Namespace) -> int:
    measures: dict[str, Any] = {
        "success": not options.failed,
        "wall_ms": None if options.took is None else int(options.took * 1000),
        "peak_ram_mb": options.peak_ram,
        "peak_vram_mb": options.peak_vram,
        "samples": options.samples,
    }
    task = work_argument(options)
    if not task:
        raise UsageError("there is no task", hint=f"say what ran: shoal observe {options.node} 'run a 7b model'")
    args = {"node": options.node, "task": task, **measures}
    answer = agent(options).call("observe", {name: value for name, value in args.items() if value is not None})
    if options.output == "json":
        output.write_json(answer)
    else:
        seen = answer["observation"]
        output.write(f"{output.plain(seen['name'])}, {_work(seen)}: {_measures(seen)}")
    return 0


def fail(options: argparse.Namespace) -> int:
    args: dict[str, Any] = {"node": options.node, "failure": options.failure}
    if task := work_argument(options):
        args["task"] = task
    answer = agent(options).call("fail", args)
    held = answer["failure"]
    if options.output == "json":
        output.write_json(answer)
    elif held is None:
        output.write("not kept: what is remembered of later failures leaves no room for it")
    else:
        effect = "is kept away from it" if held["blocking"] else "rather goes elsewhere"
        output.write(
            f"{output.plain(held['name'])}: {_work(held)} {effect} for {_hours(held['for_s'])}"
            f" ({output.plain(held['failure_class'])}, {_times(held['count'])})"
        )
    return 0


def override(options: argparse.Namespace) -> int:
    args: dict[str, Any] = {"node": options.node}
    if task := work_argument(options):
        args["task"] = task
    answer = agent(options).call("override", args)
    if options.output == "json":
        output.write_json(answer)
    else:
        for held in answer["lifted"] or ():
            output.write(f"{output.plain(held['name'])}: {_work(held)} may run there again")
    if not answer["lifted"]:
        raise NoMatch(f"nothing is held against {options.node}", hint="shoal history lists what is")
    return 0


def history(options: argparse.Namespace) -> int:
    args = {} if options.node is None else {"node": options.node}
    answer = agent(options).call("history", args)
    output.write_rows(answer, answer["history"], options.output, _COLUMNS)
    return 0


def _work(row: Mapping[str, Any]) -> str:
    """The kind of work that a row is about; a tool and its backend often have one name."""
    names = [row[key] for key in ("workload_class", "tool", "backend", "model_name", "surface") if row.get(key)]
    first, *rest = dict.fromkeys(names) or ["all work"]
    return output.plain(first + (f" ({', '.join(rest)})" if rest else ""))


def _measures(seen: Mapping[str, Any]) -> str:
    runs = f"{seen['samples']} run{'s' if seen['samples'] != 1 else ''}"
    took = f", {seen['wall_ms'] / 1000:g} s each" if seen["wall_ms"] > 1 else ""
    peaks = [f", up to {output.amount(seen[key])} of {what}" for key, what in _PEAKS if seen[key]]
    return runs + took + "".join(peaks) + ("" if seen["success"] else ", the last one failed")


def _state(row: Mapping[str, Any]) -> str:
    if row["what"] == "run":
        return _measures(row)
    held = "blocks" if row["blocking"] else "costs score"
    effect = f"{held} for {_hours(row['for_s'])}" if row["active"] else "overridden"
    return f"{row['failure_class']}, {_times(row['count'])}: {effect}"


def _hours(seconds: int) -> str:
    """Up to a week, to the hour."""
    hours = -(-seconds // 3600)
    return f"{hours} h" if hours <= 48 else f"{hours / 24:.1f} days".replace(".0", "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


_PEAKS = (("peak_ram_mb", "memory"), ("peak_vram_mb", "GPU memory"))
_COLUMNS: Sequence[output.Column] = (
    ("NODE", lambda row: row["name"] or row["node"][:12]),
    ("WHAT", lambda row: row["what"]),
    ("WORK", _work),
    ("SEEN", lambda row: f"{output.age(row['age_s'] * 1000)} ago" if "age_s" in row else "-"),
    ("HOW", _state),
)


def _node(parser: Parser, about: str = "its name, or its id or the beginning of it") -> None:
    parser.add_argument("node", help=about)


def _observe_arguments(parser: Parser) -> None:
    _node(parser)
    declare_work(parser)
    parser.add_argument("--tool", action="append", metavar="NAME", help="a program that it needed; repeatable")
    parser.add_argument("--prefer", action="append", choices=BACKENDS, help="a backend that it asked for")
    parser.add_argument("--failed", action="store_true", help="it did not go well; see also shoal fail")
    parser.add_argument("--took", type=seconds, metavar="TIME", help="how long, such as 90s")
    parser.add_argument("--peak-ram", metavar="AMOUNT", help="memory at the most, such as 7.5GiB")
    parser.add_argument("--peak-vram", metavar="AMOUNT", help="GPU memory at the most")
    parser.add_argument("--samples", type=positive, metavar="N", help="runs that the figures are of; 1")


def _fail_arguments(parser: Parser) -> None:
    _node(parser)
    parser.add_argument("failure", choices=_FAILURES, metavar="FAILURE", help=", ".join(_FAILURES))
    declare_work(parser)


def _override_arguments(parser: Parser) -> None:
    _node(parser)
    declare_work(parser)


def _history_arguments(parser: Parser) -> None:
    parser.add_argument("node", nargs="?", help="only of this one")


COMMANDS = {
    "observe": Command(_observe_arguments, observe, formats=_ONE),
    "fail": Command(_fail_arguments, fail, formats=_ONE),
    "override": Command(_override_arguments, override, formats=_ONE),
    "history": Command(_history_arguments, history, formats=FORMATS),
}

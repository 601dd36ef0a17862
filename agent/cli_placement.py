"""Commands that choose nodes: find, place, explain. When nothing fits they say why, and end with 3."""

from __future__ import annotations

import argparse
import sys

from . import cli_output as output
from .cli_explanation import explanation_lines, ranked_by, reason_lines, task_text, view_text
from .cli_options import FORMATS, Command, Parser, agent, positive
from .cli_requirement import pointed
from .cli_tasks import declare_options, declare_task, option_arguments, task_arguments
from .errors import BadRequirement, NoMatch, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# An explanation over very many nodes takes the agent seconds.
_PATIENCE_S = 60.0


def find(options: argparse.Namespace) -> int:
    args: dict[str, Any] = {
        "requirement": options.requirement,
        "labels": output.labels_for(options.output),
        "options": option_arguments(options),
        "review": True,
        "explain": True,
    }
    if options.limit is not None:
        if options.spread or (options.count or 1) > 1:
            raise UsageError("--limit says nothing with --count or --spread: they ask for so many nodes, or none")
        args["limit"] = options.limit
    answer = _ask(options, "find", args)
    _warn(answer)
    if answer["nodes"] or options.output == "json":
        output.write_rows(answer, answer["nodes"], options.output, output.columns_for(options.output))
    if answer["nodes"]:
        _tell_fallback(answer, options)
        return 0
    return _nothing(answer, args["options"], options.output)


def place(options: argparse.Namespace) -> int:
    args = task_arguments(options)
    whole = options.explain or options.why_not is not None
    args["explain"] = "always" if whole else "failure"
    args["review"] = True
    if options.why_not is not None:
        args["node"] = options.why_not
    answer = _ask(options, "place", args)
    # When there is none, the explanation says them.
    _warn(answer if answer["ok"] else {"view": answer["view"]})
    structured = options.output in ("json", "jsonl", "name")
    if structured and (answer["ok"] or options.output == "json"):
        output.write_rows(answer, answer["nodes"], options.output, _CHOSEN)
    if not answer["ok"]:
        return _nothing(answer, args["options"], options.output, whole=whole)
    if not structured:
        output.write_table(answer["nodes"], _CHOSEN_WIDE if options.output == "wide" else _CHOSEN)
        for line in _about(answer, wide=options.output == "wide"):
            output.write(line)
        _tell_fallback(answer, options)
        if whole:
            _write(reason_lines(answer, whole=True))
    return 0


def explain(options: argparse.Namespace) -> int:
    args: dict[str, Any] = {"requirement": options.requirement, "options": option_arguments(options)}
    if options.node is not None:
        args["node"] = options.node
    if options.limit is not None:
        args["limit"] = options.limit
    answer = _ask(options, "explain", args)
    told = answer["explanation"]
    _warn(answer)
    if options.output == "json":
        output.write_json(answer)
    else:
        _write(explanation_lines(answer, args["options"], whole=True))
    fits = bool(told["chosen"]) if told["node"] is None else not told["node"]["reasons"]
    return 0 if fits else NoMatch.exit_code


def _ask(options: argparse.Namespace, call: str, args: dict[str, Any]) -> dict[str, Any]:
    try:
        return agent(options).call(call, args, _PATIENCE_S)
    except BadRequirement as error:
        raise pointed(error, _text_at(args, str(error.details.get("path", "")))) from None


def _text_at(args: object, path: str) -> str:
    """The text that we sent at a path such as `options.prefer[0].requirement`."""
    held: Any = args
    for part in path.replace("[", ".").replace("]", "").split("."):
        try:
            held = held[int(part) if part.isdigit() else part]
        except (LookupError, TypeError, ValueError):
            return ""
    return held if isinstance(held, str) else ""


def _nothing(answer: Mapping[str, Any], asked: Mapping[str, Any], form: str, *, whole: bool = False) -> int:
    """Say why nothing fits, on standard error; JSON holds it already."""
    if form != "json":
        print("shoal:", end=" ", file=sys.stderr)
        for line in explanation_lines(answer, asked, whole=whole):
            print(line, file=sys.stderr)
    return NoMatch.exit_code


def _about(answer: Mapping[str, Any], *, wide: bool) -> list[str]:
    """What to know of a placement beside its nodes."""
    lines: list[str] = []
    if asked := task_text(answer["task"]):
        lines.append(f"asked for {asked}")
    other = answer["runner_up"]
    if other is not None:
        by = f", decided by {ranked_by(answer['decided_by'])}" if answer["decided_by"] else ""
        lines.append(
            f"{answer['eligible']} nodes fit; runner-up {output.plain(other['name'])} with {other['fit_score']}{by}"
        )
    else:
        lines.append("no other node fits")
    lines.append(view_text(answer["view"]) + (f"; seed {answer['seed']}" if wide else ""))
    return lines


def _tell_fallback(answer: Mapping[str, Any], options: argparse.Namespace) -> None:
    taken = answer["fallback"]
    if taken is not None:
        texts: list[str] = options.fallback or []
        which = f" ({texts[taken]})" if taken < len(texts) else ""
        print(f"nothing meets the requirement itself: fallback {taken + 1}{which} was taken", file=sys.stderr)


def _warn(answer: Mapping[str, Any]) -> None:
    for warning in answer.get("warnings", ()):
        print(f"warning: {output.plain(warning)}", file=sys.stderr)
    if answer["view"]["isolated"]:
        print("warning: this node hears nobody; what it shows of others may be old", file=sys.stderr)


def _write(lines: Any) -> None:
    for line in lines:
        output.write(line)


def _note(row: Mapping[str, Any]) -> str:
    notes = ["here"] if row["is_local"] else []
    if row.get("tier", "fresh") != "fresh":
        notes.append(row["tier"])
    return ", ".join(notes)


_CHOSEN: Sequence[output.Column] = (
    ("NODE", lambda row: row["name"]),
    ("SCORE", lambda row: row["fit_score"]),
    ("ADDRESS", lambda row: row.get("addr") or "-"),
    ("SEEN", lambda row: "-" if row.get("age_s") is None else f"{row['age_s']:.1f}s"),
    ("NOTE", _note),
)
_CHOSEN_WIDE: Sequence[output.Column] = (*_CHOSEN[:-1], ("ID", lambda row: row["node_id"]), _CHOSEN[-1])


def _find_arguments(parser: Parser) -> None:
    parser.add_argument(
        "requirement", nargs="?", default="", help="such as 'gpu_nvidia, gpu_vram_mb>=8000'; all nodes when left out"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="the best N only")
    declare_options(parser, placing=False)


def _place_arguments(parser: Parser) -> None:
    declare_task(parser)
    declare_options(parser, placing=True)
    parser.add_argument("--explain", action="store_true", help="say why, also when something fits")
    parser.add_argument("--why-not", metavar="NODE", help="say why not this node")


def _explain_arguments(parser: Parser) -> None:
    parser.add_argument("requirement", help="as of find; '' is no requirement. For a task: shoal place --explain")
    parser.add_argument("node", nargs="?", help="why this one, or why not")
    parser.add_argument("--limit", type=positive, metavar="N", help="rows of each list, 20")
    declare_options(parser, placing=False)


COMMANDS = {
    "find": Command(_find_arguments, find, formats=FORMATS),
    "place": Command(_place_arguments, place, formats=FORMATS),
    "explain": Command(_explain_arguments, explain, formats=("table", "json")),
}

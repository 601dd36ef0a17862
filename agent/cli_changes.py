"""Commands that change something: join, leave, forget, cordon, drain, labels, reload."""

from __future__ import annotations

import argparse
import sys

from . import cli_output as output
from .cli_options import FORMATS, OUTCOME_FORMATS, Command, Parser, agent, by_key, label, nothing
from .errors import NoMatch, Partial
from .nearest import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_LABEL_COLUMNS: Sequence[output.Column] = (
    ("KEY", lambda row: row["name"]),
    ("TYPE", lambda row: output.value_type(row["value"])),
    ("VALUE", lambda row: row["value"]),
)
# Leaving tells the cluster first, for two seconds by the protocol.
_LEAVE_S = 10.0


def join(options: argparse.Namespace) -> int:
    answer = agent(options).join(options.address)
    text = f"{answer['answered']} of {answer['asked']} addresses answered"
    output.write_outcome(answer, text, options.output)
    return 0 if answer["answered"] == answer["asked"] else Partial.exit_code


def leave(options: argparse.Namespace) -> int:
    agent(options).leave(_LEAVE_S)
    output.write_outcome({"left": True}, "left the cluster; the agent stops", options.output)
    return 0


def forget(options: argparse.Namespace) -> int:
    answer = agent(options).forget(options.node)
    text = f"{output.plain(answer['name'] or answer['node_id'])} is forgotten"
    output.write_outcome(answer, text, options.output)
    return 0


def cordon(options: argparse.Namespace) -> int:
    return _schedule(options, "cordon", "is cordoned: it gets no new work")


def drain(options: argparse.Namespace) -> int:
    return _schedule(options, "drain", "is draining: it gets no new work, and what runs there should end")


def uncordon(options: argparse.Namespace) -> int:
    return _schedule(options, "uncordon", "takes new work")


def _schedule(options: argparse.Namespace, call: str, effect: str) -> int:
    answer = agent(options).call(call, {} if options.node is None else {"node": options.node})
    already = "" if answer["changed"] else ", as before"
    text = f"{output.plain(answer['name'] or answer['node_id'])} {effect}{already}"
    output.write_outcome(answer, text, options.output)
    return 0


def labels_list(options: argparse.Namespace) -> int:
    _write_labels(agent(options).labels_list(), options.output)
    return 0


def labels_set(options: argparse.Namespace) -> int:
    agent(options).labels_set(by_key(options.label))
    return 0


def labels_unset(options: argparse.Namespace) -> int:
    """Partial when some were not set: the others are gone all the same."""
    shoal = agent(options)
    unset = shoal.labels_unset(options.key)
    missing = [key for key in options.key if key not in unset]
    if not missing:
        return 0
    close = nearest(missing[0], shoal.labels_list())
    hint = f"did you mean {close}?" if close else "shoal labels list names those that are"
    raise (Partial if unset else NoMatch)(f"not set until now: {', '.join(missing)}", hint=hint)


def reload(options: argparse.Namespace) -> int:
    """Warnings and what needs a restart go to standard error; the record's changes are the answer."""
    answer = agent(options).reload()
    if options.output == "json":
        output.write_json(answer)
    else:
        lines = list(_changes(answer))
        for line in lines or ["nothing changed"]:
            output.write(output.plain(line))
    for warning in answer["warnings"]:
        print(f"warning: {output.plain(warning)}", file=sys.stderr)
    if answer["needs_restart"]:
        print(f"warning: changed too, in force after a restart: {', '.join(answer['needs_restart'])}", file=sys.stderr)
    return 0


def _changes(answer: dict[str, Any]) -> Iterator[str]:
    for key, value in sorted(answer["added"].items()):
        yield f"+ {key} = {output.plain(value)}"
    for key, value in sorted(answer["removed"].items()):
        yield f"- {key} = {output.plain(value)}"
    for key, (before, after) in sorted(answer["changed"].items()):
        kinds = output.value_type(before), output.value_type(after)
        was = output.plain(before) if kinds[0] == kinds[1] else f"{output.plain(before)}, {kinds[0]}, now {kinds[1]}"
        yield f"~ {key} = {output.plain(after)} (was {was})"
    if answer["devices_changed"]:
        yield "~ devices"


def _write_labels(labels: dict[str, bool | int | str], form: str) -> None:
    rows: list[dict[str, Any]] = [{"name": key, "value": value} for key, value in labels.items()]
    output.write_rows(labels, rows, form, _LABEL_COLUMNS)


def _addresses(parser: Parser) -> None:
    parser.add_argument("address", nargs="+", help="host, or host:port, of a node of the cluster")


def _node(parser: Parser) -> None:
    parser.add_argument("node", help="a dead or left node: its name, or its id or the beginning of it")


def _pairs(parser: Parser) -> None:
    parser.add_argument(
        "label",
        nargs="+",
        type=label,
        metavar="KEY=VALUE",
        help="true and false are Bool, whole numbers Int, the rest Str, as 007; rack='\"7\"' is Str",
    )


def _keys(parser: Parser) -> None:
    parser.add_argument("key", nargs="+", help="key of a label that was set")


def _own_node(parser: Parser) -> None:
    parser.add_argument("node", nargs="?", help="this node, to be sure; a node's own agent decides, so no other can be")


COMMANDS = {
    "join": Command(_addresses, join, formats=OUTCOME_FORMATS),
    "leave": Command(nothing, leave, formats=OUTCOME_FORMATS),
    "forget": Command(_node, forget, formats=OUTCOME_FORMATS),
    "reload": Command(nothing, reload, formats=OUTCOME_FORMATS),
    "cordon": Command(_own_node, cordon, formats=OUTCOME_FORMATS),
    "uncordon": Command(_own_node, uncordon, formats=OUTCOME_FORMATS),
    "drain": Command(_own_node, drain, formats=OUTCOME_FORMATS),
    "labels list": Command(nothing, labels_list, formats=FORMATS),
    "labels set": Command(_pairs, labels_set),
    "labels unset": Command(_keys, labels_unset),
}

"""The command that shows changes as they happen, and for people what became different with each."""

from __future__ import annotations

import argparse
import sys
import time

from . import cli_output as output
from .cli_options import FORMATS, Command, Parser, agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Row = Mapping[str, Any]

# Detection after a driver update may change dozens of labels; a line is for reading.
_NAMED = 8


def watch(options: argparse.Namespace) -> int:
    form = options.output
    picture = _Picture()
    for event in agent(options).watch(labels=form != "name", vitals=options.vitals):
        if form in ("json", "jsonl"):
            output.write_json(event, indent=None)
        elif form == "name":
            for node in _nodes(event):
                output.write(_name(node))
        else:
            for line in picture.lines(event):
                output.write(line)
        sys.stdout.flush()
    return 0


class _Picture:
    """The nodes as they were told last: an event brings its node as it is, and people ask for the difference."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def lines(self, event: Row) -> Iterator[str]:
        if "nodes" in event:
            self._rows = {node["node_id"]: node for node in event["nodes"]}
            for node in event["nodes"]:
                yield _line(event, node, "")
            return
        before = self._rows.pop(event["node_id"], None)
        node = event.get("node")
        if node is not None:
            self._rows[event["node_id"]] = node
        yield _line(event, node or before or {"node_id": event["node_id"]}, _told(event, before, node))


def _line(event: Row, node: Row, told: str) -> str:
    stamp = time.strftime("%H:%M:%S", time.localtime(event.get("at")))
    word = output.plain(f"{event['event']:<10}")
    cells = (f"{_name(node):<20}", f"{node.get('state', ''):<8}", f"{node.get('addr', ''):<21}", told)
    rest = output.plain("  ".join(cells).rstrip())
    return f"{stamp}  {output.paint(word) if output.colours() else word}  {rest}"


def _told(event: Row, before: Row | None, node: Row | None) -> str:
    """What became different, as far as a person can read it in a line."""
    kind, was = event["event"], before or {}
    if node is None:
        return ""
    if kind == "record":
        return _record(was, node)
    if kind == "vitals":
        return f"load {output.load(node)}, {output.free(node)} free"
    if kind == "schedule":
        return f"schedulable {was.get('schedulable', 'yes')} -> {node.get('schedulable', 'yes')}"
    if kind == "address":
        return f"was {was.get('addr', 'unknown')}"
    if kind == "replaced":
        return f"generation {was.get('generation', 'unknown')} -> {node['generation']}"
    if kind == "name-conflict" and "other" in event:
        other = event["other"]
        return f"{node['node_id'][:8]}, and {other['node_id'][:8]} at {other['addr']}, have one name"
    return ""


def _record(was: Row, node: Row) -> str:
    if "error" in node:
        return f"record unreadable: {node['error']}"
    old, new = output.labels(was), output.labels(node)
    if "labels" not in was:
        return f"{len(new)} labels"
    told = [f"name {was['name']} -> {node['name']}"] if was["name"] not in ("", node["name"]) else []
    told += [_label(key, old, new) for key in sorted({**old, **new}) if _differs(old.get(key), new.get(key))]
    more = len(told) - _NAMED
    return ", ".join(told[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _differs(old: object, new: object) -> bool:
    """A label that became another type is another one: `true` is no number."""
    return old != new or type(old) is not type(new)


def _label(key: str, old: Row, new: Row) -> str:
    if key not in new:
        return f"-{key}"
    if key not in old:
        return f"+{key}={output.plain(new[key])}"
    return f"{key} {output.plain(old[key])} -> {output.plain(new[key])}"


def _nodes(event: Row) -> list[Row]:
    return event["nodes"] if "nodes" in event else [event.get("node") or {"node_id": event["node_id"]}]


def _name(node: Row) -> str:
    return output.plain(node.get("name") or node["node_id"][:12])


def _arguments(parser: Parser) -> None:
    parser.add_argument("--vitals", action="store_true", help="changes of load and free memory too")


COMMANDS = {"watch": Command(_arguments, watch, formats=FORMATS)}

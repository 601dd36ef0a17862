"""Commands that read what the agent knows: status, members, show, wait."""

from __future__ import annotations

import argparse
import sys
import time

from . import cli_output as output
from .cli_options import FORMATS, OUTCOME_FORMATS, Command, Parser, agent, nothing, positive, seconds
from .cli_requirement import pointed
from .errors import BadRequirement, DeadlinePassed, TryAgain, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# While `wait` waits for an agent to come up at all, it looks this often.
_LOOK_AGAIN_S = 0.05
_FIRST_FACTS = ("name", "node_id", "addr", "cluster", "generation", "version")


def status(options: argparse.Namespace) -> int:
    answer = agent(options).status()
    if options.output in ("json", "jsonl"):
        output.write_json(answer, indent=2 if options.output == "json" else None)
    elif options.output == "name":
        output.write(output.plain(answer["name"]))
    else:
        output.write_pairs(_facts(answer, wide=options.output == "wide"))
        _write_warnings(answer)
    return 0


def members(options: argparse.Namespace) -> int:
    answer = agent(options).call(
        "members", {"labels": output.labels_for(options.output), "states": options.state or []}
    )
    output.write_rows(answer, answer["nodes"], options.output, output.columns_for(options.output))
    _warn_isolated(answer)
    return 0


def show(options: argparse.Namespace) -> int:
    node = agent(options).show(options.node)
    if options.output in ("json", "jsonl"):
        output.write_json(node, indent=2 if options.output == "json" else None)
    elif options.output == "name":
        output.write(output.plain(node["name"]))
    else:
        _write_node(node)
    return 0


def wait(options: argparse.Namespace) -> int:
    """Also waits for the agent itself: scripts start it and wait in the next line."""
    until = time.monotonic() + options.timeout
    while True:
        left = until - time.monotonic()
        try:
            answer = agent(options).wait(options.members, max(left, 0.001), requirement=options.matching)
        except Unreachable:
            if left <= _LOOK_AGAIN_S:
                raise
            time.sleep(_LOOK_AGAIN_S)
            continue
        except BadRequirement as error:
            raise pointed(error, options.matching) from None
        except DeadlinePassed:
            wanted = "node" if options.members == 1 else f"{options.members} nodes"
            wanted += f" matching {options.matching!r}" if options.matching else ""
            few = "there is no" if options.members == 1 else "there are not"
            raise TryAgain(f"{few} {wanted} alive after {options.timeout:g} s") from None
        output.write_outcome(answer, f"{answer['alive']} alive", options.output)
        return 0


def _facts(answer: dict[str, Any], *, wide: bool) -> Iterator[tuple[str, object]]:
    counts = answer.get("members", {})
    for key in _FIRST_FACTS:
        yield key, answer.get(key)
    yield "members", ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    yield "joined", _joined(answer)
    if wide:
        yield "seeds", ", ".join(answer.get("seeds", ()))
    if answer.get("isolated"):
        yield "isolated", "yes: this node hears nobody, what it shows of others may be old"
    shown = (*_FIRST_FACTS, "members", "joined", "seeds", "isolated", "warnings")
    rest = {key: value for key, value in answer.items() if key not in shown}
    for key, value in rest.items():
        if hasattr(value, "items"):
            yield from ((f"{key}.{inner}", number) for inner, number in sorted(value.items()) if wide)
        elif type(value).__name__ == "list":
            yield key, ", ".join(map(str, value))
        else:
            yield key, round(value, 1) if isinstance(value, float) else value


def _joined(answer: dict[str, Any]) -> str | None:
    """Whether this node and another have told each other of the cluster, by its seeds or by being one."""
    seeds, joined = answer.get("seeds", ()), answer.get("joined")
    if joined is None:
        return None
    if not seeds:
        return "yes, without seeds" if joined else "no, and no seeds to join through"
    count = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
    return f"yes, {count}" if joined else f"no, {count}: {', '.join(seeds)}"


def _write_node(node: dict[str, Any]) -> None:
    shown = ("name", "node_id", "addr", "state", "schedulable", "weight", "generation", "incarnation", "error")
    facts = [(key, node.get(key)) for key in shown]
    if node.get("udp_broken"):
        facts.append(("udp_broken", "yes: it answers by TCP only; see shoal doctor"))
    output.write_pairs(facts)
    sections: list[tuple[str, dict[str, Any]]] = [
        ("labels", node.get("labels") or {}),
        (f"vitals, {output.age(node.get('vitals_age_ms'))} old", node.get("vitals") or {}),
    ]
    sections += [(f"device {place}", device) for place, device in enumerate(node.get("devices") or [], 1)]
    engines: dict[str, Any] = node.get("engines") or {}
    sections += [("engines", {key: value for key, value in engines.items() if key != "models"})]
    sections += [(f"model {place}", model) for place, model in enumerate(engines.get("models") or [], 1)]
    for title, facts in sections:
        if facts:
            output.write(f"\n{title}")
            output.write_pairs((f"  {key}", value) for key, value in facts.items())
    if node.get("labels") is None:
        output.write("\nno record of this node has arrived yet")
    if node.get("here"):
        _write_warnings(node)
    else:
        output.write("\nwarnings of its detection are shown there: shoal show, status or detect on that machine")


def _write_warnings(answer: dict[str, Any]) -> None:
    """What the agent could not read of its own machine."""
    if answer.get("warnings"):
        output.write("\nwarnings")
    for warning in answer.get("warnings", ()):
        output.write(f"  {output.plain(warning)}")


def _warn_isolated(answer: dict[str, Any]) -> None:
    if answer.get("isolated"):
        print("warning: this node hears nobody; what it shows of others may be old", file=sys.stderr)


def _members_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--state", action="append", choices=("alive", "suspect", "dead", "left"), help="only these; may be repeated"
    )


def _wait_arguments(parser: Parser) -> None:
    parser.add_argument("--members", type=positive, required=True, metavar="N", help="so many nodes must be alive")
    parser.add_argument("--matching", default="", metavar="REQ", help="and satisfy this requirement")
    parser.add_argument("--timeout", type=seconds, default=60.0, metavar="TIME", help="such as 30s or 5m; 60s")


def _show_arguments(parser: Parser) -> None:
    parser.add_argument("node", help="its name, or its id or the beginning of it")


COMMANDS = {
    "status": Command(nothing, status, formats=FORMATS),
    "members": Command(_members_arguments, members, formats=FORMATS),
    "show": Command(_show_arguments, show, formats=FORMATS),
    "wait": Command(_wait_arguments, wait, formats=OUTCOME_FORMATS),
}

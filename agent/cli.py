"""The command line: finds the command, builds only its parser, and turns every end into an exit code.

Client commands must start fast: this module and what it imports for them stay with the standard library and msgpack,
and each command's module is imported when it is named.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module

from .errors import ShoalError, UsageError
from .printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from .cli_options import Command

# Command, the module that holds it, and its line in the help; commands of two words are listed by both.
COMMANDS = {
    "run": ("cli_agent", "run the agent of this machine"),
    "demo": ("cli_agent", "start five agents here, ask them, kill one, and stop them again"),
    "status": ("cli_queries", "what the agent says of itself"),
    "members": ("cli_queries", "all nodes of the cluster"),
    "show": ("cli_queries", "everything about one node"),
    "find": ("cli_placement", "the nodes that satisfy a requirement, least loaded first"),
    "place": ("cli_placement", "the best node, or nodes, for a task; or why there is none"),
    "explain": ("cli_placement", "why nodes satisfy a requirement, or do not"),
    "observe": ("cli_history", "record how a run on a node went, for later placements"),
    "fail": ("cli_history", "record that a node failed at some work: for a day or more it is kept away"),
    "override": ("cli_history", "set aside what is held against a node"),
    "history": ("cli_history", "what the cluster remembers of runs and failures"),
    "watch": ("cli_watch", "changes of the cluster as they happen"),
    "wait": ("cli_queries", "wait until so many nodes are alive"),
    "join": ("cli_changes", "join the cluster of other nodes"),
    "leave": ("cli_changes", "leave the cluster and stop the agent"),
    "forget": ("cli_changes", "remove a dead node from the cluster's memory"),
    "cordon": ("cli_changes", "give this node no new work"),
    "uncordon": ("cli_changes", "give this node work again"),
    "drain": ("cli_changes", "give this node no new work, and tell that what runs here should end"),
    "labels list": ("cli_changes", "the labels that operators gave this node"),
    "labels set": ("cli_changes", "give this node labels"),
    "labels unset": ("cli_changes", "take labels of this node away"),
    "reload": ("cli_changes", "detect again, and read labels from the configuration again"),
    "doctor": ("cli_doctor", "what is wrong with this node and its cluster, and what to do"),
    "keys gen": ("cli_keys", "a new key for the gossip of a cluster; needs no agent"),
    "keys list": ("cli_keys", "the keys of the cluster, and how many nodes have each"),
    "keys install": ("cli_keys", "open what is sealed with another key too, on all nodes"),
    "keys use": ("cli_keys", "seal with a key that is installed, on all nodes"),
    "keys remove": ("cli_keys", "open what is sealed with a key no longer, on all nodes"),
    "keys rotate": ("cli_keys", "replace the key of the cluster: install, use, remove, each on all nodes"),
    "detect": ("cli_detect", "what this machine has; needs no agent"),
    "simulate": ("cli_simulate", "what a cluster of many nodes does under loss and crashes"),
    "config check": ("cli_agent", "check the configuration and say what is wrong"),
    "config show": ("cli_agent", "the configuration in force, and where each value comes from"),
    "completion": ("cli_completion", "a script that completes commands in bash, zsh or fish"),
    "version": ("cli_agent", "the version of shoal"),
}
# What `shoal labels` alone means.
_DEFAULTS = {"labels": "list", "config": "show", "keys": "list"}
# Options that may stand before the command too, and take a value.
_LEADING = ("--socket", "--output", "-o")
_HELP = ("-h", "--help")
# What a shell reports for a program that a closed pipe, or Ctrl-C, ended.
_CLOSED_PIPE = 128 + 13
_INTERRUPTED = 128 + 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is that of `errors`, or of argparse for wrong usage."""
    _fill_streams()
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except ShoalError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _give_up_output(sys.stdout)
        return _CLOSED_PIPE
    except OSError as error:
        _give_up_output(sys.stdout)
        where = f"{error.filename}: " if error.filename else ""
        return _failed(ShoalError(f"{where}{error.strerror or error}"))
    return code


def _run(arguments: list[str]) -> int:
    """As `run`; argparse's own end, as after --help, comes with its output written."""
    try:
        return run(arguments)
    except SystemExit:
        sys.stdout.flush()
        raise


def _failed(error: ShoalError) -> int:
    """Report it, where that is possible; its exit code."""
    try:
        report(error)
        sys.stderr.flush()
    except OSError:
        _give_up_output(sys.stderr)
    return error.exit_code


def _fill_streams() -> None:
    """Open what the caller closed: nothing else may get those descriptors, and writing to nowhere is no error."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - as light as it gets; stays open


def _give_up_output(stream: TextIO) -> None:
    """Write what is buffered, or throw it away: it would fail again when the interpreter ends."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run(arguments: list[str]) -> int:
    leading, rest = _split(arguments)
    if not rest and arguments and arguments[-1] in _LEADING:
        raise UsageError(f"the option {arguments[-1]} takes a value", hint="shoal --help names the commands")
    if not rest:
        print(usage(), file=sys.stderr)
        return UsageError.exit_code
    if rest[0] == "help":
        rest = [*rest[1:], "--help"]
    if rest[0] in _HELP:
        print(usage())
        return 0
    if rest[1:2] and rest[1] in _HELP and _actions(rest[0]):
        print(group_usage(rest[0]))
        return 0
    if rest[0] in ("-V", "--version"):
        rest[0] = "version"
    name, following = _named(rest)
    command: Command = import_module(f".{COMMANDS[name][0]}", __package__).COMMANDS[name]
    return command.main(name, COMMANDS[name][1], [*leading, *following])


def report(error: ShoalError) -> None:
    """One error for people, on standard error; it may hold what another machine said."""
    for line in error.message.split("\n"):
        print(printable(line if line.startswith(" ") else f"shoal: {line}"), file=sys.stderr)
    if error.hint:
        print(printable(f"  hint: {error.hint}"), file=sys.stderr)


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: shoal [--socket PATH] [-o FORMAT] COMMAND ...",
            "",
            "The agent of a node: who is in the cluster, what each machine has, and which suits a task.",
            "",
            *lines,
            "",
            "Each command explains itself: shoal COMMAND --help.",
        ]
    )


def group_usage(group: str) -> str:
    """The commands of two words that begin with this one."""
    names = [f"{group} {action}" for action in _actions(group)]
    width = max(map(len, names))
    return "\n".join(
        [
            f"usage: shoal {group} ACTION ...",
            "",
            *(f"  {name:<{width}}  {COMMANDS[name][1]}" for name in names),
            "",
            f"Alone it is shoal {group} {_DEFAULTS[group]}. Each explains itself: shoal {group} ACTION --help.",
        ]
    )


def _actions(group: str) -> list[str]:
    return [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{group} ")]


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Options of every command that stand before the command's name, and the rest."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word in _LEADING:
            place += 2
        elif word.startswith(("--socket=", "--output=")) or (word.startswith("-o") and word != "-o"):
            place += 1
        else:
            break
    return arguments[:place], arguments[place:]


def _named(words: list[str]) -> tuple[str, list[str]]:
    """The command that the words begin with, and what follows it.

    Raises:
        UsageError: there is none; the hint is the nearest.
    """
    first, following = words[0], words[1:]
    if first in COMMANDS:
        return first, following
    actions = _actions(first)
    if actions:
        leading, rest = _split(following)
        if rest and rest[0] in actions:
            return f"{first} {rest[0]}", [*leading, *rest[1:]]
        if not rest or rest[0].startswith("-"):
            return f"{first} {_DEFAULTS[first]}", following
        raise _unknown(f"{first} {rest[0]}", [f"{first} {action}" for action in actions])
    if first.startswith("-"):
        raise UsageError(f"the option {first} stands before a command", hint="shoal --help names the commands")
    raise _unknown(first, [*COMMANDS, *_DEFAULTS])


def _unknown(name: str, names: list[str]) -> UsageError:
    from .nearest import nearest

    close = nearest(name, names)
    hint = f"did you mean shoal {close}?" if close else "shoal --help names the commands"
    return UsageError(f"there is no command {name!r}", hint=hint)


if __name__ == "__main__":
    sys.exit(main())

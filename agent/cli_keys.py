"""Commands about the keys of the cluster. A key is read from a file or standard input, never from the command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time

from . import cli_output as output
from .cli_options import Command, Parser, agent, nothing, read_input, seconds
from .errors import Refused, ShoalError, TryAgain, Unreachable, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_ONE_FORMS = ("table", "json")
# Gossip takes about a second to reach everybody; whoever waits should not notice this.
_LOOK_AGAIN_S = 0.2
# An agent that is restarted while a rotation waits is back within this.
_PATIENCE_S = 300.0


def gen(options: argparse.Namespace) -> int:
    """A key on standard output, or in a new file that only this user can read."""
    import secrets

    from ..gossip.seal import KEY_BYTES, key_text

    text = key_text(secrets.token_bytes(KEY_BYTES)) + "\n"
    if options.out is None:
        output.write(text.rstrip())
        return 0
    try:
        handle = os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(f"{options.out} is there already", hint="a key never replaces a file") from None
    except OSError as error:
        raise ShoalError(f"{options.out} cannot be made: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    return 0


def list_keys(options: argparse.Namespace) -> int:
    answer = agent(options).keys_list()
    if options.output == "json":
        output.write_json(answer)
        return 0
    output.write_table(answer["keys"], _columns(answer))
    for line in _remarks(answer):
        output.write(line)
    return 0


def install(options: argparse.Namespace) -> int:
    answer = agent(options).call("keys_install", {"key": _one_key(options.file), "here": options.here})
    output.write(f"key {answer['id']} is installed {'on this node' if options.here else 'and told to all nodes'}")
    _warn_unstored(answer)
    return 0


def use(options: argparse.Namespace) -> int:
    agent(options).call("keys_use", {"id": options.id, "force": options.force})
    output.write(f"key {options.id} is in use")
    return 0


def remove(options: argparse.Namespace) -> int:
    agent(options).call("keys_remove", {"id": options.id, "force": options.force})
    output.write(f"key {options.id} is removed")
    return 0


def rotate(options: argparse.Namespace) -> int:
    """Progress goes to standard error; ends when every member has only the new key."""
    if options.file is not None and options.to is not None:
        raise UsageError("give a file with the new key, or --to with the id of an installed one")
    given = {"key": None if options.file is None else _one_key(options.file), "id": options.to}
    begun = agent(options).call("keys_rotate", {name: value for name, value in given.items() if value is not None})
    rotation = _Rotation(options, begun["target"])
    _warn_unstored(begun)
    rotation.run()
    output.write(f"key {rotation.target} is the only key of all {rotation.members} nodes")
    print(
        "write it into the key file of each node too: one without a state directory starts from there", file=sys.stderr
    )
    return 0


class _Rotation:
    """One rotation: each step is asked for, and waited for until every member is known to have taken it."""

    def __init__(self, options: argparse.Namespace, target: str) -> None:
        self.target = target
        self.members = 0
        self._options = options
        self._until = time.monotonic() + options.timeout
        self._told = ""

    def run(self) -> None:
        self._wait("install", "have")
        self._ask("keys_use", self.target)
        self._wait("use", "using")
        while True:
            others = [key["id"] for key in self._list()["keys"] if key["id"] != self.target]
            if not others:
                self._tell(f"remove: {self.members}/{self.members}")
                return
            self._remove(others)
            time.sleep(_LOOK_AGAIN_S)

    def _wait(self, step: str, what: str) -> None:
        while True:
            answer = self._list()
            key = next((key for key in answer["keys"] if key["id"] == self.target), None)
            if key is None:
                raise Refused(f"key {self.target} was removed while the rotation ran")
            self.members = answer["members"]
            names = f", waiting for {_named(key['lacking'])}" if key["lacking"] else ""
            line = f"{step} {self.target}: {key[what]}/{self.members}{names}"
            self._tell(line)
            if key[what] == self.members:
                return
            self._in_time(line)
            time.sleep(_LOOK_AGAIN_S)

    def _remove(self, others: Sequence[str]) -> None:
        """Those that are down, and those that just came back, must have the new key first: the agent says who."""
        for other in others:
            try:
                self._ask("keys_remove", other)
            except Refused as error:
                line = f"remove {other}: {error.message}"
                self._tell(line)
                self._in_time(line)
        self._in_time(f"remove {', '.join(others)}: not everywhere yet")

    def _tell(self, line: str) -> None:
        """A line for each change, so that a log can hold it."""
        if line != self._told:
            self._told = line
            print(output.plain(line), file=sys.stderr)

    def _list(self) -> dict[str, Any]:
        return self._ask("keys_list")

    def _ask(self, call: str, key: str | None = None) -> dict[str, Any]:
        """The agent may be restarted meanwhile: the rotation goes on with the one that answers then."""
        while True:
            try:
                return agent(self._options).call(call, {} if key is None else {"id": key})
            except Unreachable:
                self._in_time("the agent does not answer")
                time.sleep(_LOOK_AGAIN_S)

    def _in_time(self, reached: str) -> None:
        if time.monotonic() < self._until:
            return
        raise TryAgain(
            f"the rotation to key {self.target} is not done after {self._options.timeout:g} s: {reached}",
            hint="shoal keys rotate goes on with it, on any node; shoal forget NODE for one that never comes back",
        )


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(map(output.plain, nodes))


def _one_key(file: str) -> str:
    """The one key of a file that only we can read, or of standard input."""
    lines: list[str] = []
    if file != "-":
        from .key_file import read_lines

        lines = [line for _, line in read_lines(file, os.environ)]
    elif sys.stdin.isatty():
        import getpass

        with contextlib.suppress(EOFError):
            lines = [getpass.getpass("key: ").strip()]
    else:
        lines = [line.strip() for line in read_input(4096).splitlines() if line.strip()]
    if len(lines) != 1:
        raise UsageError(
            f"expected one key, found {len(lines)}", hint="shoal keys gen --out FILE makes a file with one"
        )
    return lines[0]


def _columns(answer: Mapping[str, Any]) -> Sequence[output.Column]:
    count = answer["members"]
    return (
        ("KEY", lambda row: row["id"]),
        ("INSTALLED", lambda row: f"{row['have']}/{count}"),
        ("USED", lambda row: f"{row['using']}/{count}"),
        ("NOTE", lambda row: _note(row, answer)),
    )


def _note(row: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    notes = ["in use"] if row["in_use"] else []
    if row["id"] == answer["target"]:
        notes.append("being rotated to")
    if row["lacking"] and row["have"] > 0 and len(row["lacking"]) <= answer["members"] // 2:
        notes.append(f"not on {', '.join(row['lacking'])}")
    return ", ".join(notes)


def _remarks(answer: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if answer["dead"]:
        lines.append(f"down, and not counted: {', '.join(map(output.plain, answer['dead']))}")
    if answer["target"]:
        lines.append(f"a rotation to {answer['target']} is under way; shoal keys rotate goes on with it")
    return lines


def _warn_unstored(answer: Mapping[str, Any]) -> None:
    if not answer["stored"]:
        print("warning: this agent has no state directory: after a restart it has only its key file", file=sys.stderr)


def _gen(parser: Parser) -> None:
    parser.add_argument("--out", metavar="FILE", help="a new file for it that only you can read")


def _install(parser: Parser) -> None:
    _file(parser, "-")
    parser.add_argument("--here", action="store_true", help="only on this node; the key does not travel")


def _rotate(parser: Parser) -> None:
    _file(parser, None)
    parser.add_argument("--to", metavar="ID", help="a key that was installed on each node before")
    parser.add_argument("--timeout", type=seconds, default=_PATIENCE_S, metavar="TIME", help="such as 30s or 1h; 5m")


def _file(parser: Parser, default: str | None) -> None:
    about = "file with the key; - is standard input"
    parser.add_argument("file", nargs="?", default=default, metavar="FILE", help=about)


def _by_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="of the key; shoal keys list names them")
    parser.add_argument("--force", action="store_true", help="also when that cuts nodes off")


COMMANDS = {
    "keys gen": Command(_gen, gen, asks_agent=False),
    "keys list": Command(nothing, list_keys, formats=_ONE_FORMS),
    "keys install": Command(_install, install),
    "keys use": Command(_by_id, use),
    "keys remove": Command(_by_id, remove),
    "keys rotate": Command(_rotate, rotate),
}

"""What the commands share: how one is declared, its parser, the options of all, and the way to the agent."""

from __future__ import annotations

import argparse
import os
import sys

from .cli_answers import CheckedClient
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn, TypeVar

    _Value = TypeVar("_Value")

FORMATS = ("table", "wide", "json", "jsonl", "name")
# Of what is one thing: a line or a few for people, or JSON.
OUTCOME_FORMATS = ("table", "json")
# Before this long an agent that answers has answered; a script must not hang on one that was stopped.
TIMEOUT_S = 10.0
# A number of 64 bits has no more.
_DIGITS = 20


class Parser(argparse.ArgumentParser):
    """Exact options only, so that a later option never changes what a script means; mistyped ones get a hint."""

    def __init__(self, prog: str, about: str) -> None:
        super().__init__(
            prog=prog,
            description=about[0].upper() + about[1:] + ".",
            allow_abbrev=False,
            formatter_class=_formatter,
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        for word in arguments:
            if word in ("-o--", f"{word.partition('=')[0]}=--") and word[0] == "-":
                # Argparse drops this value, and hands over a list instead.
                self.error(f"argument {word[:-2].rstrip('=')}: expected one argument")
        # Options may stand between positional arguments; argparse's usual way then loses those that may be left out.
        options, strangers = self.parse_known_intermixed_args(arguments)
        if strangers:
            self.error(f"unrecognized arguments: {' '.join(strangers)}{self._nearest(strangers[0])}")
        return options

    def option_words(self) -> list[str]:
        """Every option that it knows, long and short."""
        return sorted(self._option_string_actions, key=lambda word: word.lstrip("-"))

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}\n")

    def _nearest(self, stranger: str) -> str:
        from .nearest import nearest

        close = nearest(stranger.partition("=")[0], self.option_words()) if stranger.startswith("-") else None
        return f"\n  hint: did you mean {close}?" if close else ""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Argparse makes one per argument, and asks `shutil` for the width: importing that would cost every command."""
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=max(width - 2, 40))


class Command:
    """One command: `declare` adds its arguments to a parser, `run` does it and answers the exit code."""

    def __init__(
        self,
        declare: Callable[[Parser], object],
        run: Callable[[argparse.Namespace], int],
        *,
        formats: Sequence[str] = (),
        asks_agent: bool = True,
    ) -> None:
        self.declare = declare
        self.run = run
        self.formats = formats
        self.asks_agent = asks_agent

    def parser(self, name: str, about: str) -> Parser:
        parser = Parser(f"shoal {name}", about)
        self.declare(parser)
        if self.asks_agent:
            parser.add_argument("--socket", metavar="PATH", help="socket of the agent to ask")
        if self.formats:
            parser.add_argument("-o", "--output", choices=self.formats, help=f"form of the output; {self.formats[0]}")
        return parser

    def main(self, name: str, about: str, arguments: Sequence[str]) -> int:
        options = self.parser(name, about).parse(arguments)
        if self.formats:
            options.output_given = options.output is not None
            options.output = options.output or self.formats[0]
        return self.run(options)


def nothing(_parser: Parser) -> None:
    """A command without arguments of its own."""


def agent(options: argparse.Namespace) -> CheckedClient:
    """The agent to ask; what it answers is as commands expect it, or an error."""
    return CheckedClient(options.socket or None, timeout=TIMEOUT_S)


def colours() -> bool:
    """Whether standard output is a terminal that shows colours and a person who wants them."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def label(text: str) -> tuple[str, bool | int | str]:
    """An argument KEY=VALUE. The agent checks both; here only their border is found."""
    from .label_text import NoLabelText, label_from_text

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, not {text!r}")
    try:
        return key, label_from_text(value)
    except NoLabelText as error:
        raise argparse.ArgumentTypeError(f"{key}: {error}") from None


def by_key(pairs: Iterable[tuple[str, _Value]]) -> dict[str, _Value]:
    """The pairs KEY=VALUE of a command as a map.

    Raises:
        UsageError: a key is given twice, with different values.
    """
    values: dict[str, _Value] = {}
    for key, value in pairs:
        held = values.setdefault(key, value)
        if (type(held), held) != (type(value), value):
            raise UsageError(f"{key} is given twice")
    return values


def read_input(most: int) -> str:
    """Standard input as text, up to so many characters.

    Raises:
        UsageError: it is none.
    """
    try:
        return sys.stdin.read(most)
    except UnicodeDecodeError:
        raise UsageError("standard input is no text") from None


def whole(text: str) -> int | None:
    """The number that the digits stand for; None for other text, and for more digits than any number here has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def positive(text: str) -> int:
    number = whole(text)
    if number is None or not 0 < number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1000000, not {text!r}")
    return number


def seconds(text: str) -> float:
    """A time as `30`, `1.5`, `30s`, `5m` or `1h`."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "m", "h") else (text, "s")
    try:
        value = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        value = -1.0
    if not 0 < value <= 24 * 3600:
        raise argparse.ArgumentTypeError(f"expected a time such as 30s, 5m or 1h, at most 24h, not {text!r}")
    return value

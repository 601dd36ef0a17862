"""`shoal simulate`: what a cluster of many nodes does, in virtual time: start, rest, crashes, detection."""

from __future__ import annotations

import argparse
import sys
import time

from . import cli_output as output
from .cli_options import Command, Parser, positive
from .errors import ShoalError, UsageError
from .profiles import PROFILES, settings_of


def simulate(options: argparse.Namespace) -> int:
    """The exit code is 1 when a crash went unnoticed or a live node was taken for dead."""
    from ..gossip import trial

    crashes: int = min(1, options.nodes - 1) if options.crash is None else options.crash
    if crashes >= options.nodes:
        raise UsageError(f"of {options.nodes} nodes at most {options.nodes - 1} can crash")
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    print(f"{options.nodes} node{'' if options.nodes == 1 else 's'}, seed {seed} ...", file=sys.stderr)
    settings = settings_of(options.profile)
    plan = trial.Trial(nodes=options.nodes, settings=settings, loss=options.loss, crashes=crashes, seed=seed)
    report = trial.run(plan, _Progress())
    if sys.stderr.isatty():
        print(file=sys.stderr)
    tried = {"nodes": options.nodes, "profile": options.profile, "loss": options.loss, "seed": seed}
    found = {**tried, **trial.summary(report)}
    if options.output == "json":
        output.write_json({**found, "curves": trial.curves(report)})
    else:
        output.write_pairs(found.items())
        if plot := trial.plot(report):
            output.write("\n".join(["", *plot]))
    return ShoalError.exit_code if report.unnoticed or report.false_failures else 0


class _Progress:
    """Overwrites one line of a terminal; elsewhere a line for each phase."""

    def __init__(self) -> None:
        self._phase = ""

    def __call__(self, phase: str, seconds: float) -> None:
        if sys.stderr.isatty():
            print(f"\r{phase}: {seconds:.0f} virtual seconds   ", end="", file=sys.stderr, flush=True)
        elif phase != self._phase:
            print(f"{phase} at {seconds:.0f} virtual seconds", file=sys.stderr, flush=True)
        self._phase = phase


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a share of at least 0 and below 1, such as 0.05, not {text!r}")
    return value


def _count(text: str) -> int:
    try:
        return 0 if text == "0" else positive(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 1000000, not {text!r}") from None


def _arguments(parser: Parser) -> None:
    parser.add_argument("--nodes", type=positive, default=64, metavar="N", help="how many; 64")
    parser.add_argument("--loss", type=_share, default=0.0, metavar="SHARE", help="of the packets, such as 0.05; 0")
    parser.add_argument(
        "--crash", type=_count, metavar="N", help="how many nodes crash at once; 1, or none of a single one"
    )
    parser.add_argument("--profile", choices=PROFILES, default="lan", help="timings; lan")
    parser.add_argument("--seed", type=_count, metavar="N", help="the same seed gives the same run; else a new one")


COMMANDS = {"simulate": Command(_arguments, simulate, formats=("table", "json"), asks_agent=False)}

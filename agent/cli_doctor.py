"""The command that says what is wrong and what to do."""

from __future__ import annotations

import argparse

from . import cli_output as output
from .cli_options import Command, agent, nothing
from .errors import NoPermission, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Peers that answer nothing, and a name service that does not answer, each take their time.
_PATIENCE_S = 60.0
_COLUMNS: Sequence[output.Column] = (
    ("CHECK", lambda row: row["check"]),
    ("STATE", lambda row: row["level"]),
    ("FOUND", lambda row: row["what"]),
)


def doctor(options: argparse.Namespace) -> int:
    """0 when all is well, else 1; also when there is no agent to ask."""
    answer = _answer(options)
    if options.output == "json":
        output.write_json(answer)
    else:
        output.write_table(answer["findings"], _COLUMNS)
        todo = [finding for finding in answer["findings"] if finding["todo"]]
        if todo:
            output.write("\nwhat to do")
        for finding in todo:
            output.write(output.plain(f"  {finding['check']}: {finding['todo']}"))
    return 0 if answer["well"] else 1


def _answer(options: argparse.Namespace) -> Mapping[str, Any]:
    try:
        return agent(options).call("doctor", {}, _PATIENCE_S)
    except (Unreachable, NoPermission) as error:
        todo = error.hint or "shoal run starts one"
        finding = {"check": "agent", "level": "problem", "what": error.message, "todo": todo}
        return {"well": False, "findings": [finding]}


COMMANDS = {"doctor": Command(nothing, doctor, formats=("table", "json"))}

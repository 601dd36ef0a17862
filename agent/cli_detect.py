"""`shoal detect`: what this machine has, without an agent."""

from __future__ import annotations

import argparse
import sys

from . import cli_output as output
from .cli_options import FORMATS, Command, Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..capabilities.survey import Detection


def detect(options: argparse.Namespace) -> int:
    from ..capabilities import survey

    found = survey.detect()
    explain = options.explain or options.output == "wide"
    rows: list[dict[str, Any]] = [
        {"name": key, "value": value, "source": found.sources.get(key, "")} for key, value in _facts(found)
    ]
    if options.output == "json":
        output.write_json(_whole(found, explain=explain))
    elif options.output == "jsonl":
        for row in rows:
            output.write_json(row if explain else {"name": row["name"], "value": row["value"]}, indent=None)
    else:
        columns: list[output.Column] = [
            ("FACT", lambda row: row["name"]),
            ("VALUE", lambda row: output.plain(row["value"])),
        ]
        if explain:
            columns.append(("SOURCE", lambda row: row["source"]))
        output.write_rows({}, rows, options.output, columns)
    for warning in found.warnings:
        print(f"warning: {output.plain(warning)}", file=sys.stderr)
    return 0


def _facts(found: Detection) -> list[tuple[str, object]]:
    """Labels, then devices, then what changes."""
    devices = [
        (f"device {device.pop('kind')}", ", ".join(f"{key}={value}" for key, value in device.items()))
        for device in _devices(found)
    ]
    return [*found.record.labels.items(), *devices, *sorted(found.vitals.items()), *sorted(found.engines.items())]


def _whole(found: Detection, *, explain: bool) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "labels": dict(found.record.labels),
        "devices": _devices(found),
        "vitals": dict(found.vitals),
        "engines": dict(found.engines),
        "warnings": [str(warning) for warning in found.warnings],
    }
    if explain:
        whole["sources"] = dict(found.sources)
        whole["seconds"] = {probe: round(seconds, 4) for probe, seconds in found.seconds.items()}
    return whole


def _devices(found: Detection) -> list[dict[str, Any]]:
    import attrs

    groups = [attrs.asdict(group, recurse=False) for group in found.record.devices]
    return [{key: value for key, value in group.items() if value is not None} for group in groups]


def _arguments(parser: Parser) -> None:
    parser.add_argument("--explain", action="store_true", help="show where each fact comes from")


COMMANDS = {"detect": Command(_arguments, detect, formats=FORMATS, asks_agent=False)}

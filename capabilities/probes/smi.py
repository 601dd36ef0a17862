"""Importing what `nvidia-smi --query-gpu=... --format=csv` printed elsewhere; detection itself never runs it."""

import csv
import re
from collections.abc import Sequence

import attrs

from .findings import Findings, Gpu, readable
from .gpus import summarise

# `[N/A]`, `[Not Supported]`, `[Insufficient Permissions]`, `[Unknown Error]`: a placeholder, whatever it says.
_PLACEHOLDER = re.compile(r"\[.*\]|N/A", re.IGNORECASE)
_AMOUNT = re.compile(r"([0-9]{1,9})(?:\s*MiB)?")
# More lines than GPUs in any machine are not this program's output.
LINES = 256

SOURCE = "nvidia-smi"


def import_query(text: str, columns: Sequence[str] = ("name", "memory.total")) -> Findings:
    """GPUs from CSV in the queried `columns`, with or without header and units. A placeholder is an unknown fact."""
    findings = Findings("nvidia-smi")
    names = [column.strip() for column in columns]
    for cells in csv.reader(text.splitlines()[:LINES], skipinitialspace=True):
        row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        if not any(row.values()) or _is_header(row):
            continue
        if len(cells) < len(names):
            findings.warn(SOURCE, f"a line of {len(cells)} fields where {len(names)} were asked for")
            continue
        findings.gpus.append(_gpu(row))
    summarise(findings, findings.gpus)
    return findings


def _is_header(row: dict[str, str]) -> bool:
    return all(cell.partition(" [")[0] == name for name, cell in row.items())


def _gpu(row: dict[str, str]) -> Gpu:
    gpu = Gpu(vendor="nvidia", name=readable(_known(row.get("name", ""))), source=SOURCE)
    capability = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,2})", row.get("compute_cap", ""))
    return attrs.evolve(
        gpu,
        vram_mb=_mebibytes(row.get("memory.total", "")),
        free_mb=_mebibytes(row.get("memory.free", "")),
        compute=int(capability[1]) * 100 + int(capability[2]) if capability is not None else None,
    )


def _known(cell: str) -> str | None:
    return None if _PLACEHOLDER.fullmatch(cell) else cell


def _mebibytes(cell: str) -> int | None:
    match = _AMOUNT.fullmatch(cell)
    return int(match[1]) or None if match is not None else None

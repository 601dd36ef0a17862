"""Writing answers: tables for people, JSON and names for programs. Data goes to standard output, nothing else does."""

from __future__ import annotations

import sys

from .cli_options import colours
from .printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Row = Mapping[str, Any]
    Column = tuple[str, Callable[[Row], object]]

_PAINTS = {"alive": "32", "suspect": "33", "dead": "31", "left": "2", "failed": "31", "suspected": "33", "joined": "32"}
# MiB in the units of the table; one decimal below ten of a unit.
_UNITS = ((1 << 20, "T"), (1 << 10, "G"))
_TIMES = ((86400, "d"), (3600, "h"), (60, "m"))
# A record that came with no age, or whose vitals are older, is marked: its load is history.
_STALE_MS = 120_000


def write(text: str) -> None:
    sys.stdout.write(text + "\n")


def write_outcome(answer: Row, text: str, form: str) -> None:
    """What a command did: a line for people, or all that was answered."""
    if form == "json":
        write_json(answer)
    else:
        write(text)


def write_json(value: object, *, indent: int | None = 2) -> None:
    """As people read it where that is safe: what moves the cursor is escaped, and then all that is not ASCII."""
    import json

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    readable = text.isascii() or (unicode and text.replace("\n", "").isprintable())
    write(text if readable else json.dumps(value, indent=indent))


def write_rows(answer: Row, rows: Sequence[Row], form: str, columns: Sequence[Column]) -> None:
    """A list of things: the whole `answer` as JSON, one row a line as JSON lines, names, or a table of `columns`."""
    if form == "json":
        write_json(answer)
    elif form == "jsonl":
        for row in rows:
            write_json(row, indent=None)
    elif form == "name":
        for row in rows:
            write(plain(row.get("name") or row.get("node_id")))
    else:
        write_table(rows, columns)


def write_table(rows: Iterable[Row], columns: Sequence[Column]) -> None:
    lines = [[header for header, _ in columns]]
    lines += [[plain(cell(row)) for _, cell in columns] for row in rows]
    for line in aligned(lines, painted=colours()):
        write(line)


def aligned(lines: Sequence[Sequence[str]], *, painted: bool = False) -> Iterator[str]:
    """The lines with their cells below each other."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        if painted:
            cells = [paint(text) for text in cells]
        yield "  ".join(cells).rstrip()


def write_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Facts about one thing, a line each."""
    shown = [(printable(key), plain(value)) for key, value in pairs if value not in (None, "")]
    width = max((len(key) for key, _ in shown), default=0)
    for key, value in shown:
        write(f"{key:<{width}}  {value}")


def paint(text: str) -> str:
    code = _PAINTS.get(text.rstrip())
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def plain(value: object) -> str:
    """A value as text that is safe to show."""
    return ("true" if value else "false") if isinstance(value, bool) else printable(str(value))


def labels(row: Row) -> Row:
    found: Row | None = row.get("labels")
    return found or {}


def amount(mebibytes: object) -> str:
    """MiB as people read it."""
    if type(mebibytes) is not int:
        return "-"
    for size, unit in _UNITS:
        if mebibytes >= size:
            value = mebibytes / size
            return f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return f"{mebibytes}M"


def age(milliseconds: object) -> str:
    if type(milliseconds) is not int:
        return "-"
    whole = milliseconds // 1000
    for length, unit in _TIMES:
        if whole >= length:
            return f"{whole // length}{unit}"
    return f"{whole}s"


def value_type(value: bool | int | str) -> str:  # noqa: FBT001 - a value, not a switch
    return "Bool" if isinstance(value, bool) else "Int" if isinstance(value, int) else "Str"


def _vital(row: Row, key: str) -> object:
    found: Row | None = row.get("vitals")
    return found.get(key) if found else None


def load(row: Row) -> str:
    """The load average of the last minute."""
    centi = _vital(row, "load1_centi")
    return f"{centi / 100:.2f}" if isinstance(centi, int) else "-"


def free(row: Row) -> str:
    """The memory that is free for more work."""
    return amount(_vital(row, "ram_available_mb"))


def _gpu(row: Row) -> str:
    found = labels(row)
    count, name = found.get("gpu_count"), found.get("gpu_name")
    if not count and found.get("gpu_nvidia") is not True:
        return "-"
    memory = f" {amount(found['gpu_vram_mb'])}" if "gpu_vram_mb" in found else ""
    return f"{count or 1} x {name or 'GPU'}{memory}"


def _note(row: Row) -> str:
    notes = ["here"] if row.get("here") else []
    if "schedulable" in row and row["schedulable"] != "yes":
        notes.append(str(row["schedulable"]))
    if row.get("udp_broken"):
        notes.append("udp broken")
    if "error" in row:
        notes.append(f"record unreadable: {row['error']}")
    elif "labels" not in row:
        notes.append("no record yet")
    if row.get("state") in ("alive", "suspect") and row.get("vitals_age_ms", 0) > _STALE_MS:
        notes.append("stale")
    return ", ".join(notes)


def _label(key: str) -> Callable[[Row], str]:
    return lambda row: str(labels(row).get(key, "-"))


NODE_COLUMNS: tuple[Column, ...] = (
    ("NAME", lambda row: row.get("name") or row["node_id"][:12]),
    ("STATE", lambda row: row["state"]),
    ("ADDRESS", lambda row: row.get("addr") or "-"),
    ("ARCH", _label("arch")),
    ("CPUS", _label("cpu_count")),
    ("RAM", lambda row: amount(labels(row).get("ram_mb"))),
    ("FREE", free),
    ("LOAD", load),
    ("GPU", _gpu),
    ("NOTE", _note),
)
WIDE_COLUMNS: tuple[Column, ...] = (
    *NODE_COLUMNS[:-1],
    ("OS", _label("os")),
    ("KERNEL", _label("kernel")),
    ("SEEN", lambda row: age(row.get("vitals_age_ms"))),
    ("GENERATION", lambda row: str(row["generation"])),
    ("ID", lambda row: row["node_id"]),
    NODE_COLUMNS[-1],
)
# What the columns above read; a table of ten thousand nodes need not carry every label.
COLUMN_LABELS = (
    "arch", "os", "kernel", "cpu_count", "ram_mb", "gpu_nvidia", "gpu_count", "gpu_name", "gpu_vram_mb",
)  # fmt: skip


def columns_for(form: str) -> Sequence[Column]:
    return WIDE_COLUMNS if form == "wide" else NODE_COLUMNS


def labels_for(form: str) -> bool | tuple[str, ...]:
    """Which labels to ask the agent for."""
    return False if form == "name" else COLUMN_LABELS if form in ("table", "wide") else True

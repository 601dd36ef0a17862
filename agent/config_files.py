"""Configuration files and environment read into flat settings, each with where it stands.

`tomllib` gives no line numbers: a small scan finds the line of a key for messages, and says nothing when it cannot.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from .errors import BadConfiguration

DEFAULT_DIRECTORY = "/etc/shoal"
MAIN_FILE = "shoal.toml"
# Settings are a few hundred lines; the parser must not be given a disk image.
FILE_BYTES = 1 << 20
# Variables that Kubernetes puts into every pod when a service is named shoal, or shoal-api: not ours.
_SERVICE_LINK = re.compile(r"SHOAL_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP)(_.*)?)?)")
# Read by the command line itself: where the configuration is.
CONFIG_VARIABLE = "SHOAL_CONFIG"
_SECTION = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


@attrs.frozen
class Given:
    """One value as it was given, before it is checked. `key` is None for a section that is not a table."""

    section: str
    key: str | None
    value: object
    source: str
    """file, environment, flag or code"""
    where: str
    """`/etc/shoal/shoal.toml:3`, the variable, or the flag"""
    is_text: bool = False
    """The value is text whatever it means: it came by environment or flag."""


def configuration_files(path: str | None) -> list[Path]:
    """The files of a directory (`shoal.toml`, then `conf.d/*.toml` by name), or the one file that `path` names.

    Raises:
        BadConfiguration: `path` was given and is not there, or this user may not look into the directory.
    """
    chosen = Path(path or DEFAULT_DIRECTORY)
    try:
        if path is not None and not chosen.exists():
            raise BadConfiguration(f"{path}: there is no such configuration file or directory")
        if chosen.is_file():
            return [chosen]
        main = chosen / MAIN_FILE
        return [*([main] if main.exists() else []), *sorted((chosen / "conf.d").glob("*.toml"))]
    except OSError as error:
        raise BadConfiguration(f"{chosen}: cannot be read: {error.strerror}") from error


def from_file(path: Path, sections: Container[str]) -> Iterator[Given]:
    """The settings of one file, in its order; one without a key for what is none of the `sections`, or no table.

    Raises:
        BadConfiguration: it cannot be read, or is not TOML.
    """
    try:
        content = _read(path)
        tables: dict[str, Any] = tomllib.loads(content)
    except OSError as error:
        raise BadConfiguration(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadConfiguration(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line ([0-9]+), column", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise BadConfiguration(f"{where}: is not TOML: {error}") from error
    except ValueError as error:  # a number of more digits than Python converts
        raise BadConfiguration(f"{path}: {error}") from error
    except RecursionError as error:
        raise BadConfiguration(f"{path}: its values are nested too deep") from error
    for section, table in tables.items():
        if section not in sections or not _is_table(table):
            yield Given(section, None, table, "file", _where(path, content, (section,)))
            continue
        for keys, value in _leaves(table, nested=section == "labels"):
            yield Given(section, ".".join(keys), value, "file", _where(path, content, (section, *keys)))


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise BadConfiguration(f"{path}: is longer than {FILE_BYTES} bytes")
    return content.decode()


def from_environment(environ: Mapping[str, str], sections: Mapping[str, Any]) -> tuple[list[Given], list[str]]:
    """`SHOAL_SECTION_KEY` variables, and the names that begin like ours and belong to no section."""
    found: list[Given] = []
    strangers: list[str] = []
    for variable in sorted(environ):
        if not variable.startswith("SHOAL_") or variable == CONFIG_VARIABLE or _SERVICE_LINK.fullmatch(variable):
            continue
        section, _, key = variable.removeprefix("SHOAL_").lower().partition("_")
        if section in sections and key:
            found.append(Given(section, key, environ[variable], "environment", variable, is_text=True))
        else:
            strangers.append(variable)
    return found, strangers


def line_of(content: str, keys: tuple[str, ...]) -> int | None:
    """The line, from 1, where the TOML key path stands; that of the longest known beginning when it is inline.

    A table without a line of its own stands where the first thing in it does.
    """
    best: tuple[int, int] | None = None
    section: tuple[str, ...] = ()
    for number, line in enumerate(content.splitlines(), 1):
        if header := _SECTION.fullmatch(line):
            section = _parts(header[1])
            path = section
        elif assignment := _KEY.match(line):
            path = (*section, *_parts(assignment[1]))
        else:
            continue
        shared = min(len(path), len(keys))
        if keys[:shared] == path[:shared] and (best is None or shared > best[0]):
            best = (shared, number)
    return best[1] if best else None


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in _PART.findall(dotted))


def _where(path: Path, content: str, keys: tuple[str, ...]) -> str:
    line = line_of(content, keys)
    return str(path) if line is None else f"{path}:{line}"


def _leaves(table: dict[str, Any], *, nested: bool) -> Iterator[tuple[tuple[str, ...], object]]:
    """The values of a section. Label keys may hold dots, so `rack.row = 7` under `[labels]` is the label `rack.row`."""
    for key, value in table.items():
        if nested and _is_table(value):
            for keys, leaf in _leaves(value, nested=True):
                yield (key, *keys), leaf
        else:
            yield (key,), value


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def configuration_path(flag: str | None) -> str | None:
    return flag or os.environ.get(CONFIG_VARIABLE) or None

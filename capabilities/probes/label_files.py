"""Labels that operators and other tools leave in files of `labels.d`: our TOML, and node-feature-discovery's features.

A file counts only when root or this user owns it and nobody else may write it, and so must its directory. What cannot
be read is a warning that names the file and the line or key; the other files and lines still count.
"""

import datetime as dt
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from stat import S_ISREG
from typing import cast

from ..errors import ValueRefused
from ..exports import PREFIX
from ..values import CapValue, check_key, check_value
from .facades import Facades, FileStatus
from .findings import Findings
from .reader import Look, Reader, reason

# The size that node-feature-discovery accepts, for files and for what a hook prints.
FILE_BYTES = 64 * 1024
# What our own exports prefix their keys with.
OUR_PREFIX = f"{PREFIX}/"
# A directory with more is not one of label files.
FILES = 256

_NOT_ORDINARY = ("~", ".bak", ".orig", ".swp", ".tmp", ".dpkg-old", ".dpkg-new", ".rpmsave", ".rpmnew")


def read_directory(reader: Reader, facades: Facades, directory: str) -> Findings:
    """The labels of all files of a directory in the order of their names; a later file overrides an earlier."""
    findings = Findings("labels.d")
    for path, _ in ordinary_files(reader, facades, directory, findings):
        text = Look(reader, findings).text(path)
        if text is None:
            continue
        if len(text.encode("utf-8", "replace")) > FILE_BYTES:
            findings.warn(path, f"longer than {FILE_BYTES} bytes, not read")
        elif path.endswith(".toml"):
            add(findings, toml_labels(text, path, findings), path)
        else:
            add(findings, feature_labels(text, path, findings, facades.wall_clock()), path)
    return findings


def ordinary_files(
    reader: Reader, facades: Facades, directory: str, findings: Findings
) -> Iterator[tuple[str, FileStatus]]:
    """Files of a directory that may be trusted, hidden and left-over ones aside."""
    names = Look(reader, findings).listing(directory)
    if not names or trusted(facades, directory, findings) is None:
        return
    if len(names) > FILES:
        findings.warn(directory, f"{len(names)} files, only {FILES} are read")
    for name in names[:FILES]:
        if name.startswith(".") or name.endswith(_NOT_ORDINARY):
            continue
        status = trusted(facades, f"{directory}/{name}", findings)
        if status is not None and S_ISREG(status.mode):
            yield f"{directory}/{name}", status


def trusted(facades: Facades, path: str, findings: Findings) -> FileStatus | None:
    """The status of what root or this user owns and nobody else may write; else None and a warning."""
    try:
        status = facades.status(path)
    except OSError as error:
        findings.warn(path, reason(error))
        return None
    if status.uid not in (0, getattr(os, "geteuid", lambda: 0)()):
        findings.warn(path, f"not read: owned by user {status.uid}, wanted root or the agent's user")
        return None
    if status.mode & 0o022:
        findings.warn(path, f"not read: others may write it (mode {status.mode & 0o7777:04o}, wanted 0644 or 0755)")
        return None
    return status


def add(findings: Findings, labels: Mapping[str, CapValue], source: str) -> None:
    """Take labels that an operator wrote: empty texts and false count as written."""
    for key, value in labels.items():
        findings.labels[key] = value
        findings.sources[key] = source


def toml_labels(text: str, path: str, findings: Findings) -> dict[str, CapValue]:
    """Typed labels of a TOML file: top-level keys, or those of its one table `[labels]`."""
    try:
        document: dict[str, object] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of more digits than Python converts
        findings.warn(path, f"no TOML: {error}")
        return {}
    table = document.pop("labels", None)
    if isinstance(table, dict):
        document.update(cast("dict[str, object]", table))
    elif table is not None:
        document["labels"] = table
    return checked(((key, value, f"key {key}") for key, value in document.items()), path, findings)


def feature_labels(text: str, path: str, findings: Findings, now: float) -> dict[str, CapValue]:
    """Features as node-feature-discovery's local source reads them: `name` or `name=value`, one on a line.

    `# +expiry-time=2030-01-31T12:00:00Z` holds for the lines after it, `# +no-label` for the next one. A value is typed
    as on our command line: true and false, decimal numbers, everything else text (in quotes always text).
    """
    return checked(_features(text, path, findings, now), path, findings)


def _features(text: str, path: str, findings: Findings, now: float) -> Iterator[tuple[str, object, str]]:
    expired = skip = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("#"):
            directive, _, value = line.lstrip("# ").partition("=")
            if directive == "+expiry-time":
                moment = _moment(value)
                if moment is None:
                    findings.warn(
                        f"{path}:{number}", "the expiry time is no RFC 3339 time such as 2030-01-31T12:00:00Z"
                    )
                else:
                    expired = moment <= now
            skip = skip or directive in ("+no-label", "+no-feature")
        elif line:
            if not expired and not skip:
                name, separator, value = line.partition("=")
                yield name.strip(), typed(value.strip()) if separator else True, f"line {number}"
            skip = False


def typed(text: str) -> CapValue:
    """The value that a bare word means; with leading zeros it is a name, such as 007."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?(?:0|[1-9][0-9]{0,18})", text):
        return int(text)
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    return text


def checked(items: Iterator[tuple[str, object, str]], path: str, findings: Findings) -> dict[str, CapValue]:
    """The labels among (key, value, where in the file); the others are warnings."""
    labels: dict[str, CapValue] = {}
    for key, value, where in items:
        if key.startswith(OUR_PREFIX):
            findings.warn(path, f"{where}: {key} comes from an export of a record, which is never read back")
            continue
        try:
            labels[check_key(key, "key")] = check_value(value, key)
        except ValueRefused as refused:
            hint = "; a key with a dot needs quotes" if isinstance(value, dict) else ""
            findings.warn(f"{path}, {where}", f"{refused}{hint}")
    return labels


def _moment(text: str) -> float | None:
    try:
        moment = dt.datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp()
    except (ValueError, OverflowError):
        return None

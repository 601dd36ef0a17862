"""The mount table, as far as probes need it."""

import re
from collections.abc import Iterable

import attrs

from .reader import Look

# A host with thousands of containers has some ten thousand mounts; what comes after is not looked at.
MOUNTS = 20_000

_ESCAPE = re.compile(r"\\([0-7]{3})")


@attrs.frozen
class Mount:
    """One mount: device number, what part of the file system is shown, where, its kind, source and options."""

    device: str
    root: str
    point: str
    kind: str
    source: str
    options: frozenset[str]

    @classmethod
    def plain(cls, point: str) -> "Mount":
        """A mount at a usual place, for systems whose table cannot be read."""
        return cls(device="", root="/", point=point, kind="", source="", options=frozenset())


def mounts(look: Look) -> list[Mount]:
    """The mounts in the order in which they were made; empty when no table can be read."""
    text = look.text("/proc/self/mountinfo")
    if text is not None:
        return [mount for mount in map(_from_mountinfo, text.splitlines()[:MOUNTS]) if mount is not None]
    for path in ("/proc/self/mounts", "/proc/mounts", "/etc/mtab"):
        text = look.text(path)
        if text is not None:
            return [mount for mount in map(_from_mounts, text.splitlines()[:MOUNTS]) if mount is not None]
    return []


def mount_at(found: Iterable[Mount], point: str) -> Mount | None:
    """What is visible at a mount point: the last mount made there."""
    last = None
    for mount in found:
        if mount.point == point and mount.kind != "rootfs":
            last = mount
    return last


def _from_mountinfo(line: str) -> Mount | None:
    head, separator, tail = line.partition(" - ")
    fields, rest = head.split(" "), tail.split(" ")
    if not separator or len(fields) < 6 or len(rest) < 2:
        return None
    options = rest[2] if len(rest) > 2 else ""
    return Mount(
        device=fields[2],
        root=_plain(fields[3]),
        point=_plain(fields[4]),
        kind=rest[0],
        source=_plain(rest[1]),
        options=frozenset(options.split(",")),
    )


def _from_mounts(line: str) -> Mount | None:
    fields = line.split(" ")
    if len(fields) < 4:
        return None
    return Mount(
        device="",
        root="/",
        point=_plain(fields[1]),
        kind=fields[2],
        source=_plain(fields[0]),
        options=frozenset(fields[3].split(",")),
    )


def _plain(field: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes as octal escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8) & 0xFF), field)

"""How probes read files: a four-method protocol, the machine's own reader, a cache, and forgiving look-ups."""

import errno
import os
import re
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

import attrs

from .findings import Findings, printable

# The largest file that a probe reads is a pci.ids of about 1.5 MiB, or a cpuinfo of about 1 MiB on a 512-CPU machine.
READ_BYTES = 8 * 1024 * 1024
# No directory that a probe lists is longer on a working machine (/proc of a busy server holds some ten thousand).
LIST_ENTRIES = 65536
# More CPUs or NUMA nodes than any kernel is built for (NR_CPUS is at most 8192): a list beyond it is junk.
SET_MEMBERS = 65536
# Every second number below it, written out.
LIST_CHARACTERS = 256 * 1024
# Absence is an answer, not a failure.
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESRCH})
# Attributes of a device that is asleep, unplugged or does not implement them answer so on healthy machines.
NOT_FOR_THIS_DEVICE = frozenset({errno.EINVAL, errno.ENODATA, errno.EOPNOTSUPP, errno.EAGAIN})

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", re.ASCII)

Answer = TypeVar("Answer")


class Reader(Protocol):
    """The file system as probes see it. Every method but `exists` raises OSError."""

    def read_text(self, path: str) -> str: ...

    def listdir(self, path: str) -> list[str]: ...

    def readlink(self, path: str) -> str: ...

    def exists(self, path: str) -> bool: ...


class SystemReader:
    """The machine's own files. Opening never waits: a FIFO in place of a file reads as empty."""

    def read_text(self, path: str) -> str:
        return read_bytes(path, READ_BYTES).decode("utf-8", "replace")

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)  # noqa: PTH208 - paths are strings here, and a survey reads thousands

    def readlink(self, path: str) -> str:
        return os.readlink(path)  # noqa: PTH115 - see above

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - see above


def read_bytes(path: str, limit: int) -> bytes:
    """The whole file, or EFBIG when it is longer than `limit`."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        parts: list[bytes] = []
        left = limit
        while part := os.read(handle, 65536):
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise OSError(errno.EFBIG, "longer than any file of its kind", path)
    finally:
        os.close(handle)
    return b"".join(parts)


class CachedReader:
    """Reads each thing once per survey, so that probes need not share what they read.

    Threads may share it: at worst two of them read the same file once each.
    """

    def __init__(self, reader: Reader) -> None:
        self._texts = _Memory(reader.read_text)
        self._lists = _Memory(reader.listdir)
        self._links = _Memory(reader.readlink)
        self._found = _Memory(reader.exists)

    def read_text(self, path: str) -> str:
        return self._texts.ask(path)

    def listdir(self, path: str) -> list[str]:
        return self._lists.ask(path)

    def readlink(self, path: str) -> str:
        return self._links.ask(path)

    def exists(self, path: str) -> bool:
        return self._found.ask(path)


@attrs.define
class _Memory(Generic[Answer]):
    """One question about paths, and its answers and failures so far."""

    _ask: Callable[[str], Answer]
    _answers: dict[str, Answer] = attrs.field(factory=dict[str, Answer])
    _failures: dict[str, OSError] = attrs.field(factory=dict[str, OSError])

    def ask(self, path: str) -> Answer:
        if path in self._answers:
            return self._answers[path]
        if (failure := self._failures.get(path)) is not None:
            raise failure.with_traceback(None)
        try:
            answer = self._answers[path] = self._ask(path)
        except OSError as error:
            self._failures[path] = error
            raise
        return answer


@attrs.frozen
class Look:
    """Forgiving look-ups for one probe: what is absent is None, what fails is None and a warning.

    `quiet` names the errno values that are no news for that file.
    """

    reader: Reader
    findings: Findings

    def text(self, path: str, *, quiet: Collection[int] = ()) -> str | None:
        return self._asked(self.reader.read_text, path, quiet)

    def line(self, path: str, *, quiet: Collection[int] = ()) -> str | None:
        """The stripped content of a one-line file; None when empty."""
        text = self.text(path, quiet=quiet)
        return (text.strip(" \t\r\n\0") or None) if text is not None else None

    def integer(self, path: str, *, quiet: Collection[int] = ()) -> int | None:
        """A file that holds one decimal number; anything else in it is a warning."""
        line = self.line(path, quiet=quiet)
        if line is None:
            return None
        number = integer(line)
        if number is None:
            self.findings.warn(path, f"not a number: {printable(line[:40])!r}")
        return number

    def members(self, path: str) -> frozenset[int] | None:
        """A file that holds a kernel list such as `0-3,8`; an empty file is an empty set."""
        text = self.text(path)
        if text is None:
            return None
        found = members(text)
        if found is None:
            self.findings.warn(path, f"not a list of numbers: {printable(text.strip()[:40])!r}")
        return found

    def listing(self, path: str) -> list[str] | None:
        """The names in a directory in a stable order; None when it is absent or cannot be listed."""
        names = self._asked(self.reader.listdir, path, ())
        if names is None:
            return None
        if len(names) > LIST_ENTRIES:
            self.findings.warn(path, f"{len(names)} entries, only {LIST_ENTRIES} are looked at")
        return sorted(names[:LIST_ENTRIES], key=natural)

    def link(self, path: str) -> str | None:
        """Where a symbolic link points, as written in it."""
        return self._asked(self.reader.readlink, path, NOT_FOR_THIS_DEVICE)

    def link_name(self, path: str) -> str | None:
        """The last part of a link's target: the driver's name of `.../device/driver`."""
        target = self.link(path)
        return (target.rstrip("/").rpartition("/")[2] or None) if target is not None else None

    def exists(self, path: str) -> bool:
        try:
            return self.reader.exists(path)
        except (OSError, ValueError) as error:
            self.findings.warn(path, reason(error))
            return False

    def _asked(self, ask: Callable[[str], Answer], path: str, quiet: Collection[int]) -> Answer | None:
        try:
            return ask(path)
        except OSError as error:
            if error.errno not in ABSENT and error.errno not in quiet:
                self.findings.warn(path, reason(error))
        except ValueError as error:
            self.findings.warn(path, reason(error))
        return None


def reason(error: BaseException) -> str:
    """Why, in the words an operator searches for: `EACCES: Permission denied`."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"{errno.errorcode.get(error.errno, error.errno)}: {os.strerror(error.errno)}"
    return f"{type(error).__name__}: {error}"


def integer(text: str) -> int | None:
    """Decimal ASCII digits with an optional sign, at most 20; no underscores, no other scripts."""
    text = text.strip()
    return int(text) if _INTEGER.fullmatch(text) else None


def members(text: str) -> frozenset[int] | None:
    """The numbers of a kernel list (`0-3,8`); None when the text is no such list."""
    found: set[int] = set()
    if len(text) > LIST_CHARACTERS:
        return None
    for part in text.strip(" \t\r\n\0").split(","):
        if not part.strip():
            continue
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return None
        first = int(match[1])
        last = int(match[2] or first)
        if last < first or last >= SET_MEMBERS:
            return None
        found.update(range(first, last + 1))
    return frozenset(found)


def natural(name: str) -> tuple[str, int, str]:
    """A sort key that puts `cpu10` after `cpu9`."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return stem, int(digits) if 0 < len(digits) < 20 else -1, name

"""What probes need of the machine beside files; each part can be replaced in tests and simulations."""

import os
import platform
import shutil
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import attrs

from ..values import CapValue
from . import http, programs
from .http import HttpAnswer
from .nvml import Nvml, SystemNvml
from .programs import ProgramAnswer


@attrs.frozen
class Uname:
    """The fields of uname(2) that are used; "" is unknown."""

    sysname: str
    nodename: str
    release: str
    machine: str


@attrs.frozen
class FileStatus:
    """Owner, type and mode bits, size and change time of a file. Links are followed."""

    uid: int
    gid: int
    mode: int
    size: int
    modified: float


@attrs.frozen
class DiskUsage:
    """Bytes of a file system; `free` is what an unprivileged process may still write."""

    total: int
    free: int


class Run(Protocol):
    """Runs an argv to its end within its limits (see `programs.run`)."""

    def __call__(
        self, argv: Sequence[str], *, seconds: float = ..., limit: int = ..., unprivileged: bool = ...
    ) -> ProgramAnswer: ...


@attrs.frozen(kw_only=True)
class Facades:
    """Everything that a probe may ask beside files. Each may raise OSError.

    `http` GETs a URL; `run` runs an argv; `open_for_write` opens a device for reading and writing and closes it at
    once; `wall_clock` is seconds since 1970; `foreign` gives the basics of a system that is not Linux.
    """

    uname: Callable[[], Uname]
    affinity: Callable[[], Collection[int]]
    cpu_count: Callable[[], int | None]
    environment: Callable[[str], str | None]
    nvml: Nvml
    http: Callable[[str], HttpAnswer]
    run: Run
    status: Callable[[str], FileStatus]
    disk_usage: Callable[[str], DiskUsage]
    open_for_write: Callable[[str], None]
    wall_clock: Callable[[], float]
    foreign: Callable[[], Mapping[str, CapValue]]


def system_facades() -> Facades:
    """The machine itself."""
    return Facades(
        uname=_uname,
        affinity=_affinity,
        cpu_count=os.cpu_count,
        environment=os.environ.get,
        nvml=SystemNvml(),
        http=http.get,
        run=programs.run,
        status=_status,
        disk_usage=_disk_usage,
        open_for_write=_open_for_write,
        wall_clock=time.time,
        foreign=_foreign,
    )


def is_linux(facades: Facades) -> bool:
    """Whether /proc and /sys are there to be read; other systems are asked through `foreign`."""
    return facades.uname().sysname in ("Linux", "")


def _uname() -> Uname:
    if hasattr(os, "uname"):
        found = os.uname()
        return Uname(found.sysname, found.nodename, found.release, found.machine)
    return Uname(platform.system(), socket.gethostname(), platform.release(), platform.machine())


def _affinity() -> Collection[int]:
    if not hasattr(os, "sched_getaffinity"):
        raise OSError("this system has no CPU affinity")
    return os.sched_getaffinity(0)


def _status(path: str) -> FileStatus:
    found = os.stat(path)  # noqa: PTH116 - paths are strings here
    return FileStatus(
        uid=found.st_uid, gid=found.st_gid, mode=found.st_mode, size=found.st_size, modified=found.st_mtime
    )


def _disk_usage(path: str) -> DiskUsage:
    found = shutil.disk_usage(path)
    return DiskUsage(total=found.total, free=found.free)


def _open_for_write(path: str) -> None:
    os.close(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)))


def _foreign() -> Mapping[str, CapValue]:
    from .foreign import basics

    return basics()

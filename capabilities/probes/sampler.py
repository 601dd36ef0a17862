"""The vitals of this second, for a few file reads: lists are remembered, slow sensors are read rarely.

An agent samples about once a second and may use 0.25 % of a CPU for everything that it does, so there is no NVML here
(free GPU memory comes with the health check) and no psutil on Linux. Sensors may ask firmware, which takes milliseconds
or hangs: they are read in a thread, and a sample holds what it read last. Nothing is warned about: `detect` does that.
"""

import contextlib
import re
import threading

from ..values import CapValue
from . import vitals
from .cgroup import locate, memory_levels, memory_used
from .facades import Facades, is_linux
from .findings import Findings
from .memory import MEMINFO, MIB, available_kib, smaller
from .reader import Look, Reader

# Reading a temperature or a battery may ask firmware, which takes milliseconds; the processors' times are long to print
# on a machine with many. Every so many samples is enough for both.
SLOW_SAMPLES = 10
# Sensors, batteries and limits appear and vanish rarely: look for them again after so many samples.
LISTED_SAMPLES = 60
# What the first sample waits for them, so that it is whole on a healthy machine.
FIRST_SECONDS = 0.05
FOREIGN_VITALS = frozenset({"ram_available_mb", "load1_centi", "battery", "battery_percent", "power_source"})

_SIZES = re.compile(
    r"^(MemTotal|MemFree|MemAvailable|Active\(file\)|Inactive\(file\)|SReclaimable):\s*([0-9]{1,15}) ", re.MULTILINE
)
_TIMES = re.compile(r"cpu +([0-9 ]+)\n")
# Columns of /proc/stat that count as idle, and how many there are before guest time, which user time holds already.
_IDLE_COLUMNS = (3, 4)
_COLUMNS = 8


class Sampler:
    """Keeps what does not change between samples; `sample` is called by one thread at a time."""

    def __init__(self, reader: Reader, facades: Facades) -> None:
        self._reader = reader
        self._facades = facades
        self._linux = is_linux(facades)
        self._samples = 0
        self._slow: dict[str, CapValue] = {}
        self._sensors: tuple[str, ...] = ()
        self._supplies: tuple[tuple[str, str], ...] | None = ()
        self._limits: tuple[tuple[str, int, int], ...] = ()
        self._times: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def sample(self) -> dict[str, CapValue]:
        """The vitals by name; what cannot be read is left out. Also `cpu_busy_permille`, since some samples before."""
        if not self._linux:
            return {key: value for key, value in self._facades.foreign().items() if key in FOREIGN_VITALS}
        if self._samples % SLOW_SAMPLES == 0:
            self._refresh(listed=self._samples % LISTED_SAMPLES == 0)
        self._samples += 1
        look = Look(self._reader, Findings("vitals"))
        found = dict(self._slow)
        load = vitals.load(look)
        if load is not None:
            found["load1_centi"] = load
        cpu, memory = (look.text(f"{vitals.PRESSURE}/{name}") or "" for name in ("cpu", "memory"))
        found.update(vitals.pressure_vitals(cpu, memory))
        available = self._available_mb(look)
        if available is not None:
            found["ram_available_mb"] = available
        return found

    def _refresh(self, *, listed: bool) -> None:
        """Read slow things in a thread; the first sample waits a moment for it. While one hangs there are no more."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._read_slow, args=(listed,), name="shoal-sensors", daemon=True)
        with contextlib.suppress(RuntimeError):
            self._thread.start()
            self._thread.join(FIRST_SECONDS if self._samples == 0 else 0)

    def _read_slow(self, listed: bool) -> None:  # noqa: FBT001 - a thread's argument
        look = Look(self._reader, Findings("vitals"))
        if listed:
            self._list(look)
        vitals.power(look, self._supplies)
        found = look.findings.vitals
        for key, value in (
            ("thermal_max_celsius", vitals.hottest(look, self._sensors)),
            ("cpu_busy_permille", self._busy_permille(look)),
        ):
            if value is not None:
                found[key] = value
        self._slow = found

    def _list(self, look: Look) -> None:
        self._sensors = vitals.sensors(look)
        self._supplies = vitals.supplies(look)
        groups = locate(look)
        version, _ = groups.of("memory")
        levels = memory_levels(look, groups)
        self._limits = tuple((level.path.rpartition("/")[0], version, level.limit) for level in levels)

    def _busy_permille(self, look: Look) -> int | None:
        """The share of time that the processors were not idle since the call before; None at the first."""
        match = _TIMES.match(look.text("/proc/stat") or "")
        times = [int(word[:19]) for word in match[1].split()[:_COLUMNS]] if match is not None else []
        if len(times) <= max(_IDLE_COLUMNS):
            return None
        before, self._times = self._times, (sum(times), sum(times[column] for column in _IDLE_COLUMNS))
        passed = self._times[0] - before[0] if before is not None else 0
        if before is None or passed <= 0:
            return None
        idle = min(passed, max(0, self._times[1] - before[1]))
        return (passed - idle) * 1000 // passed

    def _available_mb(self, look: Look) -> int | None:
        sizes = {match[1]: int(match[2]) for match in _SIZES.finditer(look.text(MEMINFO) or "")}
        available = available_kib(sizes, sizes.get("MemTotal") or None)
        if available is None:
            return None
        left: int | None = available * 1024
        for directory, version, limit in self._limits:
            used = memory_used(look, directory, version)
            left = smaller(left, limit if used is None else max(0, limit - used))
        return (left or 0) // MIB

"""The basics of a system without /proc and /sys, by psutil and sysctl; imported only there."""

import ctypes
import ctypes.util
import sys
from collections.abc import Callable

from ..values import CapValue

MIB = 1024 * 1024
# Longer than any name or list that a sysctl of ours returns.
SYSCTL_BYTES = 1024


def basics() -> dict[str, CapValue]:
    """Labels and vitals by name, and `apple_silicon`; what this system does not tell is left out."""
    import psutil

    found: dict[str, CapValue] = {}

    def note(key: str, ask: Callable[[], CapValue | None]) -> None:
        # psutil's faults on rare systems are many (CAPABILITIES.md rule 3): each fact is asked for on its own.
        try:
            value = ask()
        except Exception:  # noqa: BLE001 - whatever psutil raises, the fact is unknown
            return
        if value is not None:
            found[key] = value

    note("cpu_physical", lambda: psutil.cpu_count(logical=False))
    note("ram_mb", lambda: psutil.virtual_memory().total // MIB)
    note("ram_available_mb", lambda: psutil.virtual_memory().available // MIB)
    note("swap_mb", lambda: psutil.swap_memory().total // MIB)
    note("load1_centi", lambda: int(psutil.getloadavg()[0] * 100))
    battery = _battery()
    found["battery"] = battery is not None
    found["power_source"] = "ac" if battery is None or battery[1] else "battery"
    if battery is not None:
        found["battery_percent"] = battery[0]
    if sys.platform == "darwin":
        note("cpu_model", lambda: sysctl_text("machdep.cpu.brand_string"))
        note("apple_silicon", lambda: sysctl_text("hw.optional.arm64") in ("\x01", "\x01\x00\x00\x00") or None)
        note("kernel", lambda: sysctl_text("kern.osrelease"))
        note("distro_version", lambda: sysctl_text("kern.osproductversion"))
    return found


def _battery() -> tuple[int, bool] | None:
    """Percent and whether it is plugged in; None when there is no battery or psutil fails on it."""
    import psutil

    try:
        battery = psutil.sensors_battery()
    except Exception:  # noqa: BLE001 - see above
        return None
    if battery is None:
        return None
    return max(0, min(100, int(battery.percent))), battery.power_plugged is not False


def sysctl_text(name: str) -> str | None:
    """The value of a sysctl by name, as text without its final NUL; None when there is none."""
    library = ctypes.CDLL(ctypes.util.find_library("c"))
    buffer = ctypes.create_string_buffer(SYSCTL_BYTES)
    size = ctypes.c_size_t(SYSCTL_BYTES)
    if library.sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return buffer.raw[: size.value].rstrip(b"\0").decode("utf-8", "replace")

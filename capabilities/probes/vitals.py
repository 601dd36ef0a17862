"""What changes from second to second: load, pressure, temperature, power, and how busy the processors are."""

import errno
import re
from collections.abc import Iterable

from .facades import Facades, is_linux
from .findings import Findings
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader

PRESSURE = "/proc/pressure"
THERMAL = "/sys/class/thermal"
HARDWARE_MONITORS = "/sys/class/hwmon"
POWER = "/sys/class/power_supply"

# Zones without a sensor say 0, -274000 or a trip point of -32768000; no running chip is colder or hotter than this (C).
COLDEST, HOTTEST = 1, 150

# A battery that is better than its design says up to this; more is junk.
FULLEST_PERCENT = 110

# Hardware monitors inside a processor, for systems whose thermal zones do not show it.
PROCESSOR_MONITORS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal"})

# Names that drivers of mice, keyboards, tablets, headsets and game controllers give to their batteries.
PERIPHERALS = re.compile(
    r"hid-|hidpp_|wacom_|sony_|ps-controller|nintendo_|steam|xbox|xpadneo|gip[0-9.]|magicmouse|corsair-|razer|hyperx|wiimote"
)

# Pressure of memory (share of time in which some task waited, in hundredths of a percent) to level 0..3.
PRESSURE_LEVELS = ((100, "none"), (500, "low"), (1500, "medium"))

_AVERAGE = re.compile(r"^(some|full) avg10=([0-9]{1,3})\.([0-9]{2})\b", re.MULTILINE)
_LOAD = re.compile(r"([0-9]{1,9})\.([0-9]{2}) ")


def probe(reader: Reader, facades: Facades) -> Findings:
    """Label `psi_available` and all vitals but those of memory and GPUs."""
    findings = Findings("vitals")
    if not is_linux(facades):
        basics = facades.foreign()
        for key in ("load1_centi", "battery", "battery_percent", "power_source"):
            findings.vital(key, basics.get(key), "psutil")
        return findings
    look = Look(reader, findings)
    findings.vital("load1_centi", load(look), "/proc/loadavg")
    _pressure(look)
    paths = sensors(look)
    findings.vital("thermal_max_celsius", hottest(look, paths), THERMAL)
    power(look, supplies(look))
    return findings


def load(look: Look) -> int | None:
    """Hundredths of the load average over one minute."""
    return parse_load(look.text("/proc/loadavg") or "")


def parse_load(text: str) -> int | None:
    match = _LOAD.match(text)
    return int(match[1]) * 100 + int(match[2]) if match is not None else None


def pressure_level(some_centi: int | None) -> str | None:
    """The level of memory pressure: none, low, medium or high; None when unknown."""
    if some_centi is None:
        return None
    return next((name for bound, name in PRESSURE_LEVELS if some_centi < bound), "high")


def averages(text: str) -> dict[str, int]:
    """The ten-second averages of a pressure file by line (`some`, `full`), in hundredths of a percent."""
    found = {match[1]: int(match[2]) * 100 + int(match[3]) for match in _AVERAGE.finditer(text)}
    return {name: value for name, value in found.items() if value <= 10_000}


def pressure_vitals(cpu: str, memory: str) -> dict[str, int]:
    """The vitals that two pressure files hold; before Linux 5.13 that of the CPU has no `full`."""
    found: dict[str, int] = {}
    for key, text, line in (
        ("psi_cpu_some_avg10_centi", cpu, "some"),
        ("psi_memory_some_avg10_centi", memory, "some"),
        ("psi_memory_full_avg10_centi", memory, "full"),
    ):
        value = averages(text).get(line)
        if value is not None:
            found[key] = value
    return found


def _pressure(look: Look) -> None:
    """Files that exist but answer EOPNOTSUPP belong to a kernel in which pressure is switched off."""
    off = (errno.EOPNOTSUPP, errno.EINVAL)
    cpu = look.text(f"{PRESSURE}/cpu", quiet=off)
    memory = look.text(f"{PRESSURE}/memory", quiet=off)
    found = pressure_vitals(cpu or "", memory or "")
    for key, value in found.items():
        look.findings.vital(key, value, PRESSURE)
    if found or not look.findings.warnings:
        look.findings.label("psi_available", bool(found), PRESSURE)


def sensors(look: Look) -> tuple[str, ...]:
    """The files that hold temperatures: thermal zones, and the monitors inside processors."""
    zones = [f"{THERMAL}/{name}/temp" for name in look.listing(THERMAL) or () if name.startswith("thermal_zone")]
    for monitor in look.listing(HARDWARE_MONITORS) or ():
        base = f"{HARDWARE_MONITORS}/{monitor}"
        if look.line(f"{base}/name", quiet=NOT_FOR_THIS_DEVICE) in PROCESSOR_MONITORS:
            names = look.listing(base) or ()
            zones.extend(f"{base}/{name}" for name in names if re.fullmatch(r"temp[0-9]{1,3}_input", name))
    return tuple(zones)


def hottest(look: Look, paths: Iterable[str]) -> int | None:
    """The highest temperature in whole degrees; a sensor that fails is left out on its own."""
    degrees = [look.integer(path, quiet=NOT_FOR_THIS_DEVICE) for path in paths]
    known = [value // 1000 for value in degrees if value is not None and COLDEST <= value // 1000 <= HOTTEST]
    return max(known, default=None)


def supplies(look: Look) -> tuple[tuple[str, str], ...] | None:
    """(directory, type) of every power supply of the machine itself; None when they cannot be listed.

    A battery whose scope is a device is in a mouse or a headset; where no scope is told, its name tells.
    """
    names = look.listing(POWER)
    if names is None and look.exists(POWER):
        return None
    found: list[tuple[str, str]] = []
    for name in names or ():
        base = f"{POWER}/{name}"
        kind = look.line(f"{base}/type", quiet=NOT_FOR_THIS_DEVICE)
        scope = look.line(f"{base}/scope", quiet=NOT_FOR_THIS_DEVICE)
        outside = scope == "Device" or (scope is None and PERIPHERALS.match(name) is not None)
        if kind is not None and not outside:
            found.append((base, kind))
    return tuple(found)


def power(look: Look, found: tuple[tuple[str, str], ...] | None) -> None:
    """The vitals `battery`, `battery_percent` and `power_source`."""
    if found is None:
        return

    def line(path: str) -> str | None:
        return look.line(path, quiet=NOT_FOR_THIS_DEVICE)

    batteries = [base for base, kind in found if kind == "Battery" and line(f"{base}/present") != "0"]
    look.findings.vital("battery", bool(batteries), POWER)
    if not batteries:
        look.findings.vital("power_source", "ac", POWER)
        return
    look.findings.vital("battery_percent", _charge(look, batteries), POWER)
    online = [(kind, line(f"{base}/online")) for base, kind in found if kind not in ("Battery", "UPS")]
    states = {line(f"{base}/status") for base in batteries}
    # An adapter that is not plugged in says 0, but so does a USB port that nothing is plugged into.
    if any(state in ("1", "2") for _, state in online):
        look.findings.vital("power_source", "ac", POWER)
    elif "Discharging" in states or ("Mains", "0") in online:
        look.findings.vital("power_source", "battery", POWER)
    elif states & {"Charging", "Full", "Not charging"}:
        look.findings.vital("power_source", "ac", POWER)
    elif online:
        look.findings.vital("power_source", "battery", POWER)


def _charge(look: Look, batteries: list[str]) -> int | None:
    """Percent of what all batteries hold together, or the mean of their percentages where they do not say."""
    now = full = 0
    for kind in ("energy", "charge"):
        amounts = [(_amount(look, f"{base}/{kind}_now"), _amount(look, f"{base}/{kind}_full")) for base in batteries]
        known = [(held, most) for held, most in amounts if held is not None and most]
        if len(known) == len(batteries) > 1:
            now, full = sum(held for held, _ in known), sum(most for _, most in known)
            break
        if len(batteries) == 1 and known:
            now, full = known[0]
    capacities = [look.integer(f"{base}/capacity", quiet=NOT_FOR_THIS_DEVICE) for base in batteries]
    percents = [min(100, value) for value in capacities if value is not None and 0 <= value <= FULLEST_PERCENT]
    if full and (len(batteries) > 1 or not percents):
        return max(0, min(100, now * 100 // full))
    return sum(percents) // len(percents) if percents else None


def _amount(look: Look, path: str) -> int | None:
    value = look.integer(path, quiet=NOT_FOR_THIS_DEVICE)
    return value if value is not None and value >= 0 else None

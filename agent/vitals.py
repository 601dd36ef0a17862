"""The sampler of this node's changing load: what detection reads, in the fields that gossip carries."""

from collections.abc import Callable, Mapping

import trio

from ..capabilities.values import CapValue
from ..gossip.vitals import Vitals

# Load and pressure averages move over 10 s and more; a row is at most this old when it rides in a ping.
SAMPLE_SECONDS = 1.0
_POWER_SOURCES = {"ac": 0, "battery": 1}
# Pressure level from memory-some on Linux, in hundredths of a percent: none, low, medium, high (CAPABILITIES.md).
_PRESSURE_BOUNDS = (100, 500, 1500)


class Sampler:
    """Samples about once a second and hands each row on. A sample is a few file reads, below a millisecond: no thread.

    `soon` names the moment about so many seconds from now: one at which the process wakes up anyway costs least.
    """

    def __init__(
        self, sample: Callable[[], Vitals], deliver: Callable[[Vitals], None], soon: Callable[[float], float]
    ) -> None:
        self._sample = sample
        self._deliver = deliver
        self._soon = soon

    def once(self) -> None:
        self._deliver(self._sample())

    async def run(self) -> None:
        while True:
            self.once()
            await trio.sleep_until(self._soon(SAMPLE_SECONDS))


def row(found: Mapping[str, CapValue], reserved_mib: int) -> Vitals:
    """The gossiped row of what detection found; what is absent there is unknown here."""
    memory_some = _number(found, "psi_memory_some_avg10_centi")
    return Vitals(
        load1_centi=_number(found, "load1_centi"),
        cpu_busy_permille=_number(found, "cpu_busy_permille"),
        available_mib=_number(found, "ram_available_mb"),
        reserved_mib=reserved_mib,
        gpu_best_free_mib=_number(found, "gpu_vram_free_mb"),
        gpu_total_free_mib=_number(found, "gpu_vram_free_total_mb"),
        psi_cpu_some_centi=_number(found, "psi_cpu_some_avg10_centi"),
        psi_memory_some_centi=memory_some,
        psi_memory_full_centi=_number(found, "psi_memory_full_avg10_centi"),
        thermal_celsius=_number(found, "thermal_max_celsius"),
        battery_percent=_number(found, "battery_percent"),
        pressure_level=None if memory_some is None else sum(memory_some >= bound for bound in _PRESSURE_BOUNDS),
        power_source=_POWER_SOURCES.get(str(found.get("power_source"))),
    )


def pretended(labels: Mapping[str, CapValue]) -> dict[str, CapValue]:
    """The vitals of a node whose hardware is pretended: an idle machine with the memory that its labels claim."""
    vitals: dict[str, CapValue] = {
        "load1_centi": 0,
        "cpu_busy_permille": 0,
        "psi_memory_some_avg10_centi": 0,
        "power_source": "ac",
    }
    for vital, label in (("ram_available_mb", "ram_mb"), ("gpu_vram_free_mb", "gpu_vram_mb")):
        amount = labels.get(label)
        if type(amount) is int:
            vitals[vital] = amount
    return vitals


def _number(found: Mapping[str, CapValue], key: str) -> int | None:
    value = found.get(key)
    return value if type(value) is int else None

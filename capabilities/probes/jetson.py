"""NVIDIA's systems on chip before they had NVML: the integrated GPU by the device tree and its driver."""

import re

from .findings import Gpu
from .reader import Look, integer

# Chip in the device tree's `compatible`, its GPU's name, and its compute capability.
CHIPS = {
    "tegra124": ("Tegra K1", 302),
    "tegra210": ("Tegra X1", 503),
    "tegra186": ("Tegra X2", 602),
    "tegra194": ("Xavier", 702),
    "tegra234": ("Orin", 807),
    "tegra264": ("Thor", 1100),
}
TREES = ("/proc/device-tree", "/sys/firmware/devicetree/base")
# Nouveau cannot compute on these chips; nvgpu is the driver that can, and needs no file of its own to be trusted.
FREE_DRIVER = "/sys/module/nouveau"


def gpu(look: Look) -> Gpu | None:
    """The integrated GPU of a Jetson; None on every other machine."""
    for tree in TREES:
        compatible = look.text(f"{tree}/compatible") or ""
        match = re.search(r"nvidia,(tegra[0-9]{3})", compatible)
        if match is None or match[1] not in CHIPS or look.exists(FREE_DRIVER):
            continue
        name, compute = CHIPS[match[1]]
        return Gpu(
            vendor="nvidia",
            name=f"NVIDIA {name}",
            compute=compute,
            unified=True,
            integrated=True,
            shared_mb=machine_memory_mb(look),
            source=f"{tree}/compatible",
        )
    return None


def machine_memory_mb(look: Look) -> int | None:
    """The machine's memory in MiB, which a unified GPU shares."""
    match = re.search(r"^MemTotal:\s*([0-9]{1,15}) kB", look.text("/proc/meminfo") or "", re.MULTILINE)
    total = integer(match[1]) if match is not None else None
    return total // 1024 if total else None

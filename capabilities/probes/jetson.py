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
# The same by the board's name, for trees whose `compatible` cannot be read.
BOARDS = (
    ("Thor", "tegra264"), ("Orin", "tegra234"), ("Xavier", "tegra194"), ("TX2", "tegra186"), ("TX1", "tegra210"),
    ("Nano", "tegra210"), ("TK1", "tegra124"),
)  # fmt: skip
# What NVIDIA's system for these boards leaves, whatever the tree says.
RELEASE = "/etc/nv_tegra_release"
# Nouveau cannot compute on these chips; nvgpu is the driver that can, and needs no file of its own to be trusted.
FREE_DRIVER = "/sys/module/nouveau"


def gpu(look: Look) -> Gpu | None:
    """The integrated GPU of a Jetson; None on every other machine."""
    chip, source = _chip(look)
    if source is None or look.exists(FREE_DRIVER):
        return None
    name, compute = CHIPS.get(chip or "", (None, None))
    return Gpu(
        vendor="nvidia",
        name=f"NVIDIA {name}" if name is not None else None,
        compute=compute,
        unified=True,
        integrated=True,
        shared_mb=machine_memory_mb(look),
        source=source,
    )


def _chip(look: Look) -> tuple[str | None, str | None]:
    """The chip, and the file that tells that there is one; the release file alone does not tell which."""
    for tree in TREES:
        match = re.search(r"nvidia,(tegra[0-9]{3})", look.text(f"{tree}/compatible") or "")
        if match is not None and match[1] in CHIPS:
            return match[1], f"{tree}/compatible"
        model = look.text(f"{tree}/model") or ""
        if "Jetson" in model:
            return next((chip for word, chip in BOARDS if word in model), None), f"{tree}/model"
    return None, RELEASE if look.exists(RELEASE) else None


def machine_memory_mb(look: Look) -> int | None:
    """The machine's memory in MiB, which a unified GPU shares."""
    match = re.search(r"^MemTotal:\s*([0-9]{1,15}) kB", look.text("/proc/meminfo") or "", re.MULTILINE)
    total = integer(match[1]) if match is not None else None
    return total // 1024 if total else None

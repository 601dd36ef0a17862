"""Apple's processors: graphics and neural engine on the chip, memory shared; under macOS and under Linux."""

import re

from ..devices import DeviceGroup
from .facades import Facades, is_linux
from .findings import Findings, Gpu
from .jetson import machine_memory_mb
from .reader import Look, Reader

DRM = "/sys/class/drm"
# The driver of the GPU under Linux.
DRIVER = "asahi"


def probe(reader: Reader, facades: Facades) -> Findings:
    """The GPU of an Apple processor; on macOS also its neural engine."""
    findings = Findings("apple")
    if is_linux(facades):
        _linux(Look(reader, findings))
        return findings
    basics = facades.foreign()
    if basics.get("apple_silicon") is not True:
        return findings
    memory = basics.get("ram_mb")
    name = basics.get("cpu_model")
    findings.gpus.append(
        Gpu(
            vendor="apple",
            name=name if isinstance(name, str) else None,
            shared_mb=memory if type(memory) is int else None,
            unified=True,
            integrated=True,
            source="sysctl hw.optional.arm64",
        )
    )
    findings.label("npu_count", 1, "sysctl hw.optional.arm64")
    findings.label("accelerator_apple", 1, "sysctl hw.optional.arm64")
    findings.devices.append(DeviceGroup(kind="npu", vendor="apple", unified=True))
    return findings


def _linux(look: Look) -> None:
    for name in look.listing(DRM) or ():
        base = f"{DRM}/{name}/device"
        if not re.fullmatch(r"card[0-9]+", name) or look.link_name(f"{base}/driver") != DRIVER:
            continue
        model = (look.text("/proc/device-tree/compatible") or "").split("\0")
        chip = next((word.removeprefix("apple,") for word in model if re.fullmatch(r"apple,t[0-9]{4}", word)), None)
        look.findings.gpus.append(
            Gpu(
                vendor="apple",
                name=f"Apple {chip}" if chip is not None else None,
                shared_mb=machine_memory_mb(look),
                unified=True,
                integrated=True,
                source=base,
            )
        )

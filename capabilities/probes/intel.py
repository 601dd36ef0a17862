"""Intel GPUs: processor graphics, and cards where the driver tells their memory."""

import re

from .facades import Facades, is_linux
from .findings import Findings, Gpu, readable
from .jetson import machine_memory_mb
from .pci import INTEL, PciDevice, gpu_devices, product_name
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader

DRIVERS = frozenset({"i915", "xe"})
DRM = "/sys/class/drm"
MIB = 1024 * 1024

# Processor graphics are always this function of the first bus; a virtual function of theirs has a higher number.
PROCESSOR_GRAPHICS = re.compile(r"[0-9a-f]{4}:00:02\.[0-7]")


def probe(reader: Reader, facades: Facades) -> Findings:
    """GPUs of Intel, and `gpu_intel_count`."""
    findings = Findings("intel")
    if not is_linux(facades):
        return findings
    look = Look(reader, findings)
    devices = gpu_devices(look)
    for device in devices or ():
        if device.vendor == INTEL and device.driver in DRIVERS:
            findings.gpus.append(_gpu(look, device))
    if devices is not None:
        findings.label("gpu_intel_count", len(findings.gpus), "/sys/bus/pci/devices")
    return findings


def _gpu(look: Look, device: PciDevice) -> Gpu:
    integrated = PROCESSOR_GRAPHICS.fullmatch(device.address) is not None
    memory = None if integrated else _card_memory_mb(look, device)
    return Gpu(
        vendor="intel",
        name=readable(product_name(look, device)),
        vram_mb=memory,
        shared_mb=machine_memory_mb(look) if integrated else None,
        numa=device.numa,
        unified=integrated,
        integrated=integrated,
        source=device.path,
    )


def _card_memory_mb(look: Look, device: PciDevice) -> int | None:
    """A card's local memory, which only some drivers tell."""
    names = look.listing(f"{device.path}/drm") or [
        name for name in look.listing(DRM) or () if look.link_name(f"{DRM}/{name}/device") == device.address
    ]
    for name in names:
        if re.fullmatch(r"card[0-9]+", name):
            size = look.integer(f"{DRM}/{name}/lmem_total_bytes", quiet=NOT_FOR_THIS_DEVICE)
            if size is not None and 0 < size < 2**60:
                return size // MIB
    return None

"""Accelerators that are no GPU, by vendor and class, and how many GPUs the bus has, usable or not.

A device file proves nothing: NVIDIA's driver makes /dev/accel nodes too, and Google makes network cards.
"""

import re

import attrs

from ..devices import DeviceGroup
from .facades import Facades, is_linux
from .findings import Findings
from .pci import ACCELERATOR_CLASS, COPROCESSOR_CLASS, gpu_devices, hexadecimal, pci_devices
from .reader import Look, Reader

ACCEL = "/sys/class/accel"

GOOGLE = 0x1AE0
# Its TPUs by number, from the second generation on; their class differs from one to the next.
TPUS = frozenset({0x0027, 0x0056, 0x005E, 0x0062, 0x0063, 0x006F, 0x0076})
# Programmable cards of Intel, which have the class of its NPUs.
NO_NPUS = frozenset({0x09C4, 0x09C5, 0x0B2B, 0x0B2C, 0x0B30, 0xBCBD, 0xBCC0, 0xBCC1, 0xBCCE})


@attrs.frozen
class Maker:
    """A vendor of accelerators: its word, what its devices are, and the device numbers that are some.

    Without numbers its devices are those of the accelerator and co-processor classes.
    """

    name: str
    kind: str
    numbers: frozenset[int] = frozenset()


MAKERS = {
    GOOGLE: Maker("google", "tpu"),
    0x1AC1: Maker("coral", "accelerator", frozenset({0x089A})),
    0x8086: Maker("intel", "npu"),
    0x1022: Maker("amd", "npu", frozenset({0x1502, 0x17F0, 0x17F1, 0x17F2})),
    0x1DA3: Maker("habana", "accelerator"),
    0x19E5: Maker("huawei", "npu"),
    0xCABC: Maker("cambricon", "accelerator"),
    0x1E52: Maker("tenstorrent", "accelerator"),
    0x1D95: Maker("graphcore", "accelerator"),
    0x1ED2: Maker("furiosa", "npu"),
    0x17CB: Maker("qualcomm", "accelerator", frozenset({0xA080, 0xA100, 0xA110})),
    0x1D0F: Maker("amazon", "accelerator", frozenset({0x7064, 0x7065, 0x7066, 0x7067, 0x7164, 0x7264, 0x7364})),
    0x1EFF: Maker("rebellions", "npu"),
    0x1E60: Maker("hailo", "npu"),
    0x10EE: Maker("xilinx", "accelerator"),
    0x1DE0: Maker("groq", "accelerator"),
    0x1E36: Maker("enflame", "accelerator"),
    0x9999: Maker("metax", "accelerator"),
    0x1D94: Maker("hygon", "accelerator"),
    0x1D22: Maker("kunlun", "accelerator"),
    0x1E3E: Maker("iluvatar", "accelerator"),
    0x1F9D: Maker("axelera", "npu"),
    0x1FE9: Maker("memryx", "npu"),
}


@attrs.frozen
class Found:
    """One accelerator, and the NUMA node that it hangs on."""

    maker: Maker
    numa: int | None


def probe(reader: Reader, facades: Facades) -> Findings:
    """Labels `tpu_count`, `npu_count`, `accelerator_<vendor>`, `gpu_pci_count`, and devices of those kinds."""
    findings = Findings("accelerators")
    if not is_linux(facades):
        return findings
    look = Look(reader, findings)
    gpus = gpu_devices(look)
    if gpus is not None:
        findings.label("gpu_pci_count", len(gpus), "/sys/bus/pci/devices")
    on_bus = _on_bus(look)
    by_class = _by_class(look)
    if on_bus is None and by_class is None:
        return findings
    # The class shows again what is on the bus, and alone what is not (or where the bus cannot be listed).
    makers = {item.maker for item in on_bus or ()}
    found = [*(on_bus or ()), *(item for item in by_class or () if item.maker not in makers)]
    for kind in ("tpu", "npu"):
        findings.label(f"{kind}_count", sum(item.maker.kind == kind for item in found), ACCEL)
    for maker in {item.maker for item in found}:
        findings.label(f"accelerator_{maker.name}", sum(item.maker == maker for item in found), "/sys/bus/pci/devices")
    findings.devices.extend(DeviceGroup(kind=item.maker.kind, vendor=item.maker.name, numa=item.numa) for item in found)
    return findings


def _on_bus(look: Look) -> list[Found] | None:
    devices = pci_devices(look)
    if devices is None:
        return None
    found: list[Found] = []
    for device in devices:
        maker = _maker(device.vendor, device.kind, device.device)
        # Google's own guests drive their TPUs through vfio; with everyone else it means that a guest has the device.
        if maker is not None and (device.vendor == GOOGLE or not device.passed_through):
            found.append(Found(maker, device.numa))
    return found


def _by_class(look: Look) -> list[Found] | None:
    """What the kernel's accelerator class holds: it says the class, the device says the vendor."""
    names = look.listing(ACCEL)
    if names is None:
        return None
    found: list[Found] = []
    for name in names:
        base = f"{ACCEL}/{name}/device"
        vendor = hexadecimal(look, f"{base}/vendor") if re.fullmatch(r"accel[0-9]+", name) else None
        maker = MAKERS.get(vendor) if vendor is not None else None
        if maker is not None:
            found.append(Found(maker, None))
    return found


def _maker(vendor: int, kind: int, number: int | None) -> Maker | None:
    maker = MAKERS.get(vendor)
    if maker is None:
        return None
    if maker.numbers:
        return maker if number in maker.numbers else None
    if vendor == GOOGLE:
        # Its network and storage controllers have classes of their own.
        return maker if number in TPUS or kind >> 16 in (ACCELERATOR_CLASS, 0x08, 0xFF) else None
    if maker.name == "intel" and number in NO_NPUS:
        return None
    # Intel's co-processors encrypt and compress.
    accepted = kind >> 16 == ACCELERATOR_CLASS or (kind >> 8 == COPROCESSOR_CLASS and maker.name != "intel")
    return maker if accepted else None

"""AMD GPUs by their driver's files: memory, processors with graphics (APUs), and partitions by the KFD topology."""

import errno
from collections.abc import Mapping, Sequence

import attrs

from .facades import Facades, is_linux
from .findings import Findings, Gpu, readable
from .jetson import machine_memory_mb
from .pci import AMD, PciDevice, gpu_devices, product_name
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader, integer

NODES = "/sys/class/kfd/kfd/topology/nodes"
DRIVERS = frozenset({"amdgpu", "radeon"})
MIB = 1024 * 1024

# Processors with graphics, by PCI device: their "VRAM" is a carve-out of the machine's memory.
APU_DEVICES = frozenset({
    0x15D8, 0x15DD, 0x15E7, 0x1636, 0x1638, 0x164C, 0x164D, 0x164E, 0x1681, 0x163F, 0x1506, 0x13C0, 0x15BF, 0x15C8,
    0x1900, 0x1901, 0x150E, 0x1586, 0x1114, 0x1435, 0x13FE, 0x143F, 0x74A0, 0x98E4, 0x9870, 0x9874, 0x9875, 0x9876,
    0x9877, *range(0x1304, 0x131E), *range(0x9830, 0x9840), *range(0x9850, 0x9860), *range(0x9990, 0x99A5),
})  # fmt: skip
# The same by the graphics version that the KFD tells (9.0.2 is 90002).
APU_VERSIONS = frozenset({
    70000, 80001, 90002, 90009, 90012, 100303, 100305, 100306, 100307, 110003, 110500, 110501, 110502, 110503,
})  # fmt: skip
# No card that amdgpu computes on has so little; firmware carves out this much by default.
CARVE_OUT_MB = 1024
# Heaps of the KFD that are a device's own memory.
OWN_HEAPS = frozenset({1, 2})


@attrs.frozen
class Node:
    """A GPU as the KFD sees it: one per card, or one per partition of a card."""

    address: str
    device: int
    version: int
    cpu_cores: int
    memory_mb: int | None


def probe(reader: Reader, facades: Facades) -> Findings:
    """GPUs of AMD, and `gpu_amd_count`."""
    findings = Findings("amd")
    if not is_linux(facades):
        return findings
    look = Look(reader, findings)
    devices = gpu_devices(look)
    nodes = _nodes(look)
    for device in devices or ():
        own = [node for node in nodes if node.address == device.address]
        if device.vendor == AMD and _is_usable(look, device, own):
            findings.gpus.extend(_gpus(look, device, own))
    if not any(device.vendor == AMD for device in devices or ()):
        findings.gpus.extend(_by_node(look, node) for node in nodes)
    if devices is not None or nodes:
        findings.label("gpu_amd_count", len(findings.gpus), "/sys/bus/pci/devices")
    return findings


def _is_usable(look: Look, device: PciDevice, nodes: Sequence[Node]) -> bool:
    """Whether AMD's driver has the device: by its link, or by what only that driver shows."""
    if device.driver is not None:
        return device.driver in DRIVERS
    return bool(nodes) or look.exists(f"{device.path}/mem_info_vram_total")


def _gpus(look: Look, device: PciDevice, nodes: Sequence[Node]) -> list[Gpu]:
    """The device, or its partitions when the KFD shows several."""
    total = _mebibytes(look, f"{device.path}/mem_info_vram_total")
    used = _mebibytes(look, f"{device.path}/mem_info_vram_used")
    name = readable(product_name(look, device))
    gpu = Gpu(vendor="amd", name=name, numa=device.numa, source=device.path)
    if _is_apu(device, nodes, total):
        shared = _mebibytes(look, f"{device.path}/mem_info_gtt_total") or machine_memory_mb(look)
        return [attrs.evolve(gpu, unified=True, integrated=True, shared_mb=shared)]
    shares = False if total is not None or nodes else None
    gpu = attrs.evolve(gpu, unified=shares, integrated=shares)
    if len(nodes) > 1:
        return [attrs.evolve(gpu, vram_mb=node.memory_mb) for node in nodes]
    free = total - used if total is not None and used is not None and used <= total else None
    return [attrs.evolve(gpu, vram_mb=total, free_mb=free)]


def _is_apu(device: PciDevice, nodes: Sequence[Node], total: int | None) -> bool:
    if device.device in APU_DEVICES or any(node.version in APU_VERSIONS or node.cpu_cores for node in nodes):
        return True
    return total is not None and total <= CARVE_OUT_MB


def _by_node(look: Look, node: Node) -> Gpu:
    """A GPU of which only the KFD tells."""
    gpu = Gpu(vendor="amd", source=NODES, unified=False, integrated=False, vram_mb=node.memory_mb)
    if node.version in APU_VERSIONS or node.device in APU_DEVICES or node.cpu_cores:
        return attrs.evolve(gpu, unified=True, integrated=True, vram_mb=None, shared_mb=machine_memory_mb(look))
    return gpu


def _nodes(look: Look) -> list[Node]:
    """The KFD's nodes that compute. In a container, those of devices that it was not given refuse to be read."""
    found: list[Node] = []
    for name in look.listing(NODES) or ():
        text = look.text(f"{NODES}/{name}/properties", quiet=(errno.EPERM, *NOT_FOR_THIS_DEVICE))
        properties = _properties(text or "")
        if not properties.get("simd_count") or properties.get("vendor_id", AMD) != AMD:
            continue
        location = properties.get("location_id", 0) & 0xFFFF
        bus, slot, function = location >> 8, location >> 3 & 0x1F, location & 0x7
        found.append(
            Node(
                address=f"{properties.get('domain', 0):04x}:{bus:02x}:{slot:02x}.{function}",
                device=properties.get("device_id", 0),
                version=properties.get("gfx_target_version", 0),
                cpu_cores=properties.get("cpu_cores_count", 0),
                memory_mb=_own_memory_mb(look, f"{NODES}/{name}/mem_banks"),
            )
        )
    return found


def _own_memory_mb(look: Look, banks: str) -> int | None:
    sizes: list[int] = []
    for bank in look.listing(banks) or ():
        properties = _properties(look.text(f"{banks}/{bank}/properties", quiet=(errno.EPERM,)) or "")
        if properties.get("heap_type") in OWN_HEAPS:
            sizes.append(properties.get("size_in_bytes", 0))
    return sum(sizes) // MIB or None


def _properties(text: str) -> Mapping[str, int]:
    """Lines of a name and a number."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        number = integer(value)
        if number is not None and 0 <= number < 2**63:
            found[name] = number
    return found


def _mebibytes(look: Look, path: str) -> int | None:
    """A positive amount of bytes, in MiB."""
    value = look.integer(path, quiet=NOT_FOR_THIS_DEVICE)
    return value // MIB if value is not None and 0 <= value < 2**60 else None

"""PCI devices as far as GPUs and accelerators need them: who made them, what class they are, which driver has them."""

import re

import attrs

from .reader import NOT_FOR_THIS_DEVICE, Look

PCI = "/sys/bus/pci/devices"
DRM = "/sys/class/drm"

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086

# Makers of GPUs that people compute or draw on. Board controllers (ASPEED, Matrox) and the displays that hypervisors
# emulate have other vendors and are no GPUs.
GPU_VENDORS = {NVIDIA: "nvidia", AMD: "amd", INTEL: "intel", 0x1ED5: "moore_threads"}

# Board controllers that carry a GPU maker's number: ES1000, RV100 and Rage chips, and QEMU's copies of old ATI cards.
BOARD_DISPLAYS = frozenset({(AMD, 0x515E), (AMD, 0x5969), (AMD, 0x4752), (AMD, 0x5046), (AMD, 0x5159)})

DISPLAY_CLASS, ACCELERATOR_CLASS = 0x03, 0x12
COPROCESSOR_CLASS = 0x0B40

# Drivers that hold a device for a guest: the host cannot use it.
PASSED_THROUGH = frozenset({"vfio-pci", "pci-stub", "xen-pciback", "pciback"})

# What must have made a card of this vendor when its driver's link cannot be read.
CARD_DRIVERS = {AMD: "amdgpu", INTEL: "i915"}

NAME_LISTS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")


@attrs.frozen
class PciDevice:
    """One function on the bus; `kind` is the 24-bit class, `driver` None when none is bound."""

    address: str
    kind: int
    vendor: int
    device: int | None
    driver: str | None
    numa: int | None
    path: str

    @property
    def base_class(self) -> int:
        return self.kind >> 16

    @property
    def passed_through(self) -> bool:
        return self.driver in PASSED_THROUGH

    @property
    def is_gpu(self) -> bool:
        """Any display class, and for NVIDIA and AMD also accelerators and co-processors without a display part."""
        if self.vendor not in GPU_VENDORS or (self.vendor, self.device) in BOARD_DISPLAYS:
            return False
        if self.base_class == DISPLAY_CLASS:
            return True
        compute = self.base_class == ACCELERATOR_CLASS or self.kind >> 8 == COPROCESSOR_CLASS
        return compute and self.vendor in (NVIDIA, AMD)


def pci_devices(look: Look) -> list[PciDevice] | None:
    """Every device on the bus whose vendor can be read (`kind` 0: its class cannot); None when there is no list."""
    names = look.listing(PCI)
    if names is None:
        return None
    found: list[PciDevice] = []
    for name in names:
        kind = hexadecimal(look, f"{PCI}/{name}/class")
        vendor = hexadecimal(look, f"{PCI}/{name}/vendor")
        if vendor is None:
            continue
        found.append(
            PciDevice(
                address=name,
                kind=kind or 0,
                vendor=vendor,
                device=hexadecimal(look, f"{PCI}/{name}/device"),
                driver=look.link_name(f"{PCI}/{name}/driver"),
                numa=numa_node(look, name),
                path=f"{PCI}/{name}",
            )
        )
    return found


def gpu_devices(look: Look) -> list[PciDevice] | None:
    """The GPUs on the bus, or where it cannot be listed those of graphics drivers. None when neither can be read."""
    devices = pci_devices(look)
    if devices is None:
        devices = _cards(look)
    return [device for device in devices if device.is_gpu] if devices is not None else None


def _cards(look: Look) -> list[PciDevice] | None:
    names = look.listing(DRM)
    if names is None:
        return None
    found: dict[str, PciDevice] = {}
    for name in names:
        base = f"{DRM}/{name}/device"
        vendor = hexadecimal(look, f"{base}/vendor") if re.fullmatch(r"card[0-9]+", name) else None
        if vendor is None:
            continue
        address = look.link_name(base) or name
        found[address] = PciDevice(
            address=address,
            kind=hexadecimal(look, f"{base}/class") or DISPLAY_CLASS << 16,
            vendor=vendor,
            device=hexadecimal(look, f"{base}/device"),
            driver=look.link_name(f"{base}/driver") or CARD_DRIVERS.get(vendor),
            numa=numa_node(look, address),
            path=base,
        )
    return list(found.values())


def hexadecimal(look: Look, path: str) -> int | None:
    """A sysfs attribute such as `0x10de`."""
    line = look.line(path)
    if line is None:
        return None
    if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", line) is None:
        look.findings.warn(path, f"no hexadecimal number: {line[:40]!r}")
        return None
    return int(line, 16)


def numa_node(look: Look, address: str) -> int | None:
    """The NUMA node of a device; the kernel says -1 when firmware does not tell."""
    node = look.integer(f"{PCI}/{address}/numa_node", quiet=NOT_FOR_THIS_DEVICE)
    return node if node is not None and node >= 0 else None


def normal_address(bus_id: str) -> str:
    """NVML writes the domain with eight digits, the kernel with four: `00000000:07:00.0` is `0000:07:00.0`."""
    domain, separator, rest = bus_id.strip().lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest}" if separator else bus_id.strip().lower()


def product_name(look: Look, device: PciDevice) -> str | None:
    """What the board says that it is, or its name in the system's list of PCI ids."""
    name = look.line(f"{device.path}/product_name", quiet=NOT_FOR_THIS_DEVICE)
    if name is not None:
        return name
    for path in NAME_LISTS:
        text = look.text(path)
        if text is not None:
            return listed_name(text, device.vendor, device.device)
    return None


def listed_name(pci_ids: str, vendor: int, device: int | None) -> str | None:
    """The device's name in the text of a pci.ids file. Marketing names stand in brackets behind the chip's."""
    start = pci_ids.find(f"\n{vendor:04x}  ")
    if device is None or start < 0:
        return None
    for line in pci_ids[start + 1 :].splitlines()[1:]:
        if line and line[0] not in "\t#":
            return None
        if line.startswith(f"\t{device:04x}  "):
            name = line[7:].strip()
            marketing = re.search(r"\[([^\]]+)\]\s*$", name)
            return marketing[1] if marketing is not None else name
    return None

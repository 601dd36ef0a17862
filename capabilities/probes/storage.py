"""Disks: what lies under the root file system, through LVM, RAID and partitions, and how many there are by class."""

import errno
import re
from collections.abc import Mapping, Sequence

from .deadline import Work, run_all
from .facades import DiskUsage, Facades, is_linux
from .findings import Findings
from .mounts import Mount, mount_at, mounts
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader

BLOCK = "/sys/class/block"
WHOLE = "/sys/block"
NUMBERS = "/sys/dev/block"

# A dead mount never answers; a live one does within milliseconds.
USAGE_SECONDS = 2.0
# More devices under one file system than any stack of LVM on RAID on partitions has.
STACK = 512
MIB = 1024 * 1024

# Names that are no disks: loop, memory and optical devices, floppies, and nodes that only show a part of one.
NOT_DISKS = re.compile(
    r"(loop|ram|zram|sr|scd|fd|dm-|md|bcache|zd|nullb|mtd|mtdblock|ubiblock|pmem)[0-9_]"
    r"|mmcblk[0-9]+(boot|rpmb|gp)|nvme[0-9]+c[0-9]+n"
)
# SCSI device types that are disks: direct access, simplified direct access, zoned.
SCSI_DISKS = frozenset({0, 14, 20})
# Disks of hypervisors that are plugged in as SCSI: their own claim to rotate or not means nothing.
VIRTUAL_VENDORS = frozenset({"QEMU", "VMware", "VMware,", "VBOX", "Msft", "Virtio", "Google", "Xen"})
VIRTUAL_MODELS = ("QEMU", "VBOX", "VMware", "PersistentDisk")
VIRTUAL_NAMES = re.compile(r"(vd|xvd|ubd)[a-z]")
PARTITION = re.compile(
    r"((?:nvme[0-9]+n|mmcblk|md|nbd|loop|pmem|bcache|drbd|rbd)[0-9]+)p[0-9]+|((?:sd|vd|xvd|hd|dasd|ubd)[a-z]+)[0-9]+"
)
NETWORK_NAMES = re.compile(r"(nbd|rbd|drbd|etherd)")
# NVMe disks that are a cloud's network storage.
NETWORK_MODELS = ("Amazon Elastic Block Store", "nvme_card-pd", "MSFT NVMe Accelerator")
NETWORK_TRANSPORTS = frozenset({"tcp", "rdma", "fc"})

NETWORK_SYSTEMS = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "fuse.glusterfs", "lustre", "beegfs", "gpfs", "afs",
    "ocfs2", "gfs2", "fuse.sshfs", "fuse.s3fs", "orangefs", "pvfs2", "quobyte", "fuse.juicefs",
})  # fmt: skip
VIRTUAL_SYSTEMS = frozenset({"9p", "virtiofs", "vboxsf", "fuse.vmhgfs-fuse", "prl_fs", "drvfs", "tmpfs", "ramfs"})

# From slow to fast: what is made of several disks is as slow as its slowest.
CLASSES = ("network", "hdd", "virtual", "ssd", "nvme")


def probe(reader: Reader, facades: Facades) -> Findings:
    """All labels that begin with `disk_`."""
    findings = Findings("storage")
    for path, usage in usages(facades, ("/",), findings).items():
        findings.label("disk_root_mb", usage.total // MIB or None, f"statvfs {path}")
    if not is_linux(facades):
        return findings
    look = Look(reader, findings)
    root = mount_at(mounts(look), "/")
    if root is not None:
        _root(look, root)
    _counts(look)
    return findings


def usages(facades: Facades, paths: Sequence[str], findings: Findings) -> Mapping[str, DiskUsage]:
    """Size and free bytes of the file systems of `paths`; one that does not answer in time is a warning."""
    works = {f"statvfs {path}": Work(lambda path=path: facades.disk_usage(path), USAGE_SECONDS) for path in paths}
    found: dict[str, DiskUsage] = {}
    for path, outcome in zip(paths, run_all(works).values(), strict=True):
        if outcome.answer is not None and 0 <= outcome.answer.free <= outcome.answer.total:
            found[path] = outcome.answer
        elif outcome.answer is not None or outcome.error_number != errno.ENOENT:
            findings.warn(f"statvfs {path}", outcome.problem or "more free than there is")
    return found


def _root(look: Look, root: Mount) -> None:
    """Class and name of the disk under `/`; an overlay of a container hides them."""
    if root.kind in NETWORK_SYSTEMS or root.kind in VIRTUAL_SYSTEMS:
        look.findings.label(
            "disk_root_class", "network" if root.kind in NETWORK_SYSTEMS else "virtual", f"mount {root.kind}"
        )
        return
    name = _device_name(look, root)
    if name is None:
        return
    disks = sorted(_disks_under(look, name))
    classes = {_class_of(look, disk) for disk in disks} - {None}
    look.findings.label("disk_root_device", ",".join(disks), f"{BLOCK}/{name}")
    look.findings.label("disk_root_class", next((name for name in CLASSES if name in classes), None), f"{BLOCK}/{name}")


def _device_name(look: Look, root: Mount) -> str | None:
    """The kernel's name of the mounted device: by number, else by the name that was mounted."""
    if root.device and not root.device.startswith("0:"):
        name = look.link_name(f"{NUMBERS}/{root.device}")
        if name is not None:
            return name
        for name in look.listing(BLOCK) or ():
            if look.line(f"{BLOCK}/{name}/dev", quiet=NOT_FOR_THIS_DEVICE) == root.device:
                return name
    # A file system of several disks names them all, with colons between them: the first stands for all.
    source = root.source.partition(":")[0]
    if not source.startswith("/dev/") or source == "/dev/root":
        return None
    target = look.link_name(source)
    if target is not None:
        return target
    name = source.removeprefix("/dev/")
    return _mapped_name(look, name.removeprefix("mapper/")) if name.startswith("mapper/") else name.replace("/", "!")


def _mapped_name(look: Look, name: str) -> str | None:
    """The kernel's name of a device-mapper disk."""
    for directory in (BLOCK, WHOLE):
        for candidate in look.listing(directory) or ():
            if look.line(f"{directory}/{candidate}/dm/name", quiet=NOT_FOR_THIS_DEVICE) == name:
                return candidate
    return None


def _disks_under(look: Look, name: str) -> set[str]:
    """The whole disks that a block device is made of, each device looked at once."""
    disks: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting and len(seen) < STACK:
        device = waiting.pop()
        if device in seen:
            continue
        seen.add(device)
        slaves = look.listing(f"{_base(look, device)}/slaves")
        whole = _whole_of(look, device)
        if slaves:
            waiting.extend(slaves)
        elif whole != device:
            # A partition of a RAID or device-mapper disk has the slaves of its whole.
            waiting.append(whole)
        else:
            disks.add(device)
    return disks


def _base(look: Look, name: str) -> str:
    return f"{BLOCK}/{name}" if look.exists(f"{BLOCK}/{name}") else f"{WHOLE}/{name}"


def _whole_of(look: Look, name: str) -> str:
    """The disk of a partition: the directory that its link lies in, or by the form of its name."""
    target = look.link(f"{BLOCK}/{name}")
    if target is not None:
        parent = target.rstrip("/").split("/")[-2:-1]
        # The directory over an NVMe disk is its controller, which is no disk.
        if not parent or re.fullmatch(r"block|nvme[0-9]+", parent[0]) or not name.startswith(parent[0]):
            return name
        return parent[0]
    if look.exists(f"{WHOLE}/{name}"):
        return name
    match = PARTITION.fullmatch(name)
    return (match[1] or match[2]) if match is not None else name


def _class_of(look: Look, disk: str) -> str | None:
    """nvme, ssd, hdd, virtual or network; None when the disk does not tell."""
    base = _base(look, disk)
    model = look.line(f"{base}/device/model", quiet=NOT_FOR_THIS_DEVICE) or ""
    if disk.startswith("nvme"):
        return "network" if _is_remote_nvme(look, base, model) else "nvme"
    if NETWORK_NAMES.match(disk):
        return "network"
    vendor = look.line(f"{base}/device/vendor", quiet=NOT_FOR_THIS_DEVICE) or ""
    if VIRTUAL_NAMES.match(disk) or vendor in VIRTUAL_VENDORS or model.startswith(VIRTUAL_MODELS):
        return "virtual"
    path = look.link(f"{BLOCK}/{disk}") or look.link(f"{WHOLE}/{disk}") or ""
    if "/session" in path or "/rport-" in path:
        return "network"
    if disk.startswith("mmcblk"):
        return "ssd"
    rotational = look.line(f"{base}/queue/rotational", quiet=NOT_FOR_THIS_DEVICE)
    return {"0": "ssd", "1": "hdd"}.get(rotational or "")


def _is_remote_nvme(look: Look, base: str, model: str) -> bool:
    """By its controller, or all of its controllers where the kernel joins several paths; or by a cloud's model."""
    transport = look.line(f"{base}/device/transport", quiet=NOT_FOR_THIS_DEVICE)
    paths = {transport} if transport is not None else set[str]()
    for name in look.listing(f"{base}/device") or () if transport is None else ():
        path = look.line(f"{base}/device/{name}/transport") if re.fullmatch(r"nvme[0-9]+", name) else None
        if path is not None:
            paths.add(path)
    return (bool(paths) and paths <= NETWORK_TRANSPORTS) or model.startswith(NETWORK_MODELS)


def _counts(look: Look) -> None:
    """Disks by class, removable ones on their own; none of partitions, optical drives and pretended devices."""
    listed = [names for names in (look.listing(BLOCK), look.listing(WHOLE)) if names is not None]
    if not listed:
        return
    counts = {"ssd": 0, "hdd": 0, "nvme": 0, "removable": 0}
    for disk in sorted({name for names in listed for name in names}):
        kind = _counted_as(look, disk)
        if kind in counts:
            counts[kind] += 1
    for kind, count in counts.items():
        look.findings.label(f"disk_{kind}_count", count, BLOCK)


def _counted_as(look: Look, disk: str) -> str | None:
    base = _base(look, disk)
    if NOT_DISKS.match(disk) or look.exists(f"{base}/partition") or _whole_of(look, disk) != disk:
        return None
    if look.line(f"{base}/hidden", quiet=NOT_FOR_THIS_DEVICE) == "1":
        return None
    # An empty card reader or an unused network block device has no sectors.
    if look.line(f"{base}/size", quiet=NOT_FOR_THIS_DEVICE) == "0":
        return None
    kind = look.line(f"{base}/device/type", quiet=NOT_FOR_THIS_DEVICE)
    if kind is not None and kind.isdecimal() and int(kind[:4]) not in SCSI_DISKS:
        return None
    if _is_removable(look, base, disk, kind):
        return "removable"
    return _class_of(look, disk)


def _is_removable(look: Look, base: str, disk: str, kind: str | None) -> bool:
    """By its own flag, by hanging on USB, or as an SD card (an eMMC chip says MMC)."""
    path = look.link(f"{BLOCK}/{disk}") or look.link(f"{WHOLE}/{disk}") or ""
    flagged = look.line(f"{base}/removable", quiet=NOT_FOR_THIS_DEVICE) == "1"
    return flagged or re.search(r"/usb[0-9]", path) is not None or kind == "SD"

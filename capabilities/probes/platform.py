"""What this system runs on and in: hypervisor, cloud, container, WSL, TPM, and whether virtual machines can be run.

Nothing is asked over the network: clouds are known by their firmware tables.
"""

import errno
import re
from collections.abc import Iterable

from .cpuinfo import hypervisor_flag, processors
from .facades import Facades, is_linux
from .findings import Findings
from .mounts import mount_at, mounts
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader, reason
from .system import architecture, shell_fields

DMI = "/sys/class/dmi/id"
CLOCKS = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
TPM = "/sys/class/tpm"

# Firmware words of hypervisors; the first that is found in vendor or product names counts.
FIRMWARE = (
    ("KVM", "kvm"), ("KubeVirt", "kvm"), ("OpenStack", "kvm"), ("Amazon EC2", "kvm"), ("Google Compute Engine", "kvm"),
    ("RHEV", "kvm"), ("oVirt", "kvm"), ("VMware", "vmware"), ("VMW", "vmware"), ("innotek GmbH", "virtualbox"),
    ("VirtualBox", "virtualbox"), ("Xen", "xen"), ("HVM domU", "xen"), ("Bochs", "bochs"), ("Parallels", "parallels"),
    ("BHYVE", "bhyve"), ("Hyper-V", "hyperv"), ("Apple Virtualization", "apple"), ("QEMU", "qemu"),
)  # fmt: skip

# A clock source that only a guest of this hypervisor has.
GUEST_CLOCKS = (("kvm-clock", "kvm"), ("hyperv", "hyperv"), ("xen", "xen"))

# (file under the firmware table, how its text begins, cloud): all that can be told by one text.
CLOUDS = (
    ("sys_vendor", "Amazon EC2", "aws"), ("bios_vendor", "Amazon EC2", "aws"), ("product_version", "amazon", "aws"),
    ("product_name", "Google Compute Engine", "gcp"), ("sys_vendor", "DigitalOcean", "digitalocean"),
    ("sys_vendor", "Hetzner", "hetzner"), ("chassis_asset_tag", "OracleCloud.com", "oracle"),
    ("sys_vendor", "Alibaba Cloud", "alibaba"), ("product_name", "Alibaba Cloud", "alibaba"),
    ("sys_vendor", "Vultr", "vultr"), ("sys_vendor", "Scaleway", "scaleway"), ("sys_vendor", "Akamai", "linode"),
    ("sys_vendor", "Linode", "linode"), ("sys_vendor", "UpCloud", "upcloud"), ("sys_vendor", "Exoscale", "exoscale"),
    ("product_name", "Exoscale", "exoscale"), ("sys_vendor", "Tencent Cloud", "tencent"),
    ("sys_vendor", "Huawei Cloud", "huawei"), ("chassis_asset_tag", "HUAWEICLOUD", "huawei"),
    ("sys_vendor", "OVHcloud", "ovh"), ("sys_vendor", "CloudStack", "cloudstack"),
    ("product_name", "CloudStack", "cloudstack"), ("chassis_asset_tag", "ibmcloud", "ibm"),
    ("chassis_vendor", "IBM:Cloud Compute Server", "ibm"), ("sys_vendor", "OpenStack Foundation", "openstack"),
    ("product_name", "OpenStack", "openstack"), ("sys_vendor", "Yandex", "yandex"),
    ("sys_vendor", "Nutanix", "nutanix"),
)  # fmt: skip
# Azure shares its vendor with every Hyper-V machine; only this asset tag is its own.
AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"

# A Google or Amazon machine of its own, not a slice.
_BARE_METAL = re.compile(r"metal\b", re.IGNORECASE)

# Own control group of a container, for runtimes that leave no other mark. Hosts of containers are not in such groups.
GROUP_MARKS = (
    (re.compile(r"/kubepods"), "kubernetes"),
    (re.compile(r"/docker[-/][0-9a-f]{12}"), "docker"),
    (re.compile(r"/libpod[-_]"), "podman"),
    (re.compile(r"/lxc(\.payload[./]|/)"), "lxc"),
    (re.compile(r"/ecs/"), "ecs"),
    (re.compile(r"/garden/"), "garden"),
    (re.compile(r"cri-containerd-[0-9a-f]{12}"), "containerd"),
)
# Files that runtimes mount over a container's own, and where they come from.
MOUNT_MARKS = (("/kubelet/pods/", "kubernetes"), ("/docker/containers/", "docker"), ("/overlay-containers/", "podman"))
MOUNTED_FILES = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"})
# Words of the `container` variable that are not the kind's own name; WSL is no container.
CONTAINER_WORDS = {"wsl": None, "lxc-libvirt": "lxc"}


def probe(reader: Reader, facades: Facades) -> Findings:
    """Labels `virt`, `cloud`, `container*`, `wsl`, `kvm`, `tpm`. A machine that is not virtual has no `virt`."""
    findings = Findings("platform")
    if not is_linux(facades):
        return findings
    look = Look(reader, findings)
    firmware = _firmware(look)
    wsl = _wsl(look, facades)
    findings.label("wsl", wsl, "/proc/sys/kernel/osrelease")
    virt, source = _virt(look, firmware, architecture(facades.uname().machine))
    if virt is None and wsl and "WSL2" in (look.line("/proc/sys/kernel/osrelease") or ""):
        virt, source = "hyperv", "/proc/sys/kernel/osrelease"
    findings.label("virt", virt, source)
    findings.label("cloud", _cloud(look, firmware), DMI)
    _container(look, facades)
    _kvm(findings, facades)
    findings.label("tpm", _tpm(look), TPM)
    return findings


def _firmware(look: Look) -> dict[str, str]:
    """The texts of the firmware's table by name; those that only root may read are left out."""
    found: dict[str, str] = {}
    for name in sorted({name for name, _, _ in CLOUDS} | {"board_vendor", "bios_version"}):
        for directory in (DMI, "/sys/devices/virtual/dmi/id"):
            text = look.line(f"{directory}/{name}", quiet=(*NOT_FOR_THIS_DEVICE, errno.EACCES))
            if text is not None:
                found.setdefault(name, text)
    return found


def _virt(look: Look, firmware: dict[str, str], arch: str) -> tuple[str | None, str]:
    """The hypervisor's name and where it is said."""
    xen = look.line("/sys/hypervisor/type")
    if xen == "xen":
        # Domain 0 runs on Xen but owns the machine.
        return (None if "control_d" in (look.text("/proc/xen/capabilities") or "") else "xen"), "/sys/hypervisor/type"
    tree = _by_tree(look)
    if tree is not None:
        return tree, "/proc/device-tree"
    if arch == "s390x":
        return _by_sysinfo(look), "/proc/sysinfo"
    blocks = processors(look)
    virtual = hypervisor_flag(blocks)
    if arch in ("amd64", "386") and not virtual and any("flags" in block.fields for block in blocks):
        return None, "/proc/cpuinfo"
    clocks = look.line(CLOCKS) or ""
    for word, name in GUEST_CLOCKS if virtual else ():
        if word in clocks:
            return name, CLOCKS
    text = " ".join(firmware.get(name, "") for name in ("sys_vendor", "product_name", "board_vendor", "bios_vendor"))
    if _BARE_METAL.search(firmware.get("product_name", "")):
        return None, DMI
    if "Microsoft Corporation" in text and "Virtual Machine" in text:
        return "hyperv", DMI
    named = next((name for word, name in FIRMWARE if word in text), None)
    return named or ("vm-other" if virtual else None), DMI if named else "/proc/cpuinfo"


def _by_tree(look: Look) -> str | None:
    """What firmware without DMI says: the hypervisor node of the device tree, and POWER's partitions."""
    compatible = look.text("/proc/device-tree/hypervisor/compatible")
    if compatible is not None:
        words = compatible.split("\0")
        return next((name for word, name in (("linux,kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware"))
                     if any(text.startswith(word) for text in words)), "vm-other")  # fmt: skip
    if look.exists("/proc/device-tree/ibm,partition-name"):
        emulated = "qemu" in (look.text("/proc/device-tree/model") or "").lower()
        return "kvm" if emulated else "powervm"
    return None


def _by_sysinfo(look: Look) -> str | None:
    """On IBM Z the innermost virtual machine's control program; a logical partition alone is the machine itself."""
    text = look.text("/proc/sysinfo") or ""
    match = re.search(r"^VM00 Control Program:\s*(.+)$", text, re.MULTILINE)
    if match is None:
        return None
    return "zvm" if "z/VM" in match[1] else "kvm"


def _cloud(look: Look, firmware: dict[str, str]) -> str | None:
    if firmware.get("chassis_asset_tag") == AZURE_TAG:
        return "azure"
    for name, text, cloud in CLOUDS:
        if firmware.get(name, "").startswith(text):
            return cloud
    # Older Amazon machines are Xen guests whose id begins so.
    if (look.line("/sys/hypervisor/uuid") or "").startswith("ec2"):
        return "aws"
    return "aws" if ".amazon" in firmware.get("bios_version", "") else None


def _wsl(look: Look, facades: Facades) -> bool | None:
    release = look.line("/proc/sys/kernel/osrelease") or facades.uname().release or look.line("/proc/version")
    if not release:
        return None
    marked = re.search(r"microsoft|WSL", release, re.IGNORECASE) is not None
    return marked or look.exists("/proc/sys/fs/binfmt_misc/WSLInterop") or look.exists("/run/WSL")


def _container(look: Look, facades: Facades) -> None:
    kind, source = _container_kind(look, facades)
    if kind is not None:
        look.findings.label("container", True, source)
        look.findings.label("container_kind", kind, source)
    elif any(look.exists(path) for path in ("/proc/self/cgroup", "/proc/self/mountinfo", "/proc/1/environ")):
        look.findings.label("container", False, "no mark of any container")


def _container_kind(look: Look, facades: Facades) -> tuple[str | None, str]:
    """The kind of the container, and its mark. An orchestrator's mark comes before that of the runtime under it."""
    if facades.environment("KUBERNETES_SERVICE_HOST") or look.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes", "env KUBERNETES_SERVICE_HOST"
    groups = look.text("/proc/self/cgroup") or ""
    if "/kubepods" in groups:
        return "kubernetes", "/proc/self/cgroup"
    stale = _owns_its_disk(look)
    for path, kind in (("/.dockerenv", "docker"), ("/.flatpak-info", "flatpak"), ("/.singularity.d", "apptainer")):
        if look.exists(path) and not stale:
            return kind, path
    if look.exists("/run/.containerenv") and not stale:
        engine = shell_fields(look.text("/run/.containerenv") or "").get("engine", "")
        return re.split(r"[^a-z]", engine.lower(), maxsplit=1)[0] or "podman", "/run/.containerenv"
    named = _named_kind(look, facades)
    if named[0] is not None:
        return named
    grouped = _grouped_kind(look)
    if grouped[0] is not None:
        return grouped
    if look.exists("/proc/vz") and not look.exists("/proc/bc"):
        return "openvz", "/proc/vz"
    return _mounted_kind(look)


def _owns_its_disk(look: Look) -> bool:
    """Whether `/` is a whole file system of a disk and nothing is mounted over a container's own files.

    A machine whose image was made from a container keeps the container's mark without being one.
    """
    found = mounts(look)
    root = mount_at(found, "/")
    whole = (
        root is not None and root.root == "/" and root.source.startswith("/dev/") and root.kind not in ("overlay", "")
    )
    return whole and not any(mount.point in MOUNTED_FILES for mount in found)


def _named_kind(look: Look, facades: Facades) -> tuple[str | None, str]:
    """What the container's manager told the first process, or wrote down."""
    environ = look.text("/proc/1/environ", quiet=(errno.EACCES, errno.EPERM)) or ""
    variables: Iterable[str] = environ.split("\0")
    told = next((text.removeprefix("container=") for text in variables if text.startswith("container=")), None)
    for word, source in (
        (look.line("/run/systemd/container"), "/run/systemd/container"),
        (look.line("/run/host/container-manager"), "/run/host/container-manager"),
        (told, "/proc/1/environ"),
        (facades.environment("container"), "env container"),
    ):
        if word is not None and re.fullmatch(r"[a-z][a-z0-9-]{0,31}", word) and CONTAINER_WORDS.get(word, word):
            return CONTAINER_WORDS.get(word, word), source
    if facades.environment("APPTAINER_CONTAINER") or facades.environment("SINGULARITY_CONTAINER"):
        return "apptainer", "env APPTAINER_CONTAINER"
    return None, ""


def _grouped_kind(look: Look) -> tuple[str | None, str]:
    for path in ("/proc/self/cgroup", "/proc/1/cgroup"):
        groups = look.text(path, quiet=(errno.EACCES, errno.EPERM)) or ""
        for pattern, kind in GROUP_MARKS:
            if pattern.search(groups):
                return kind, path
    return None, ""


def _mounted_kind(look: Look) -> tuple[str | None, str]:
    for mount in mounts(look):
        if mount.kind == "fuse.lxcfs" and mount.point.startswith("/proc/"):
            return "lxc", "/proc/self/mountinfo"
        for mark, kind in MOUNT_MARKS:
            if mount.point in MOUNTED_FILES and mark in mount.root:
                return kind, "/proc/self/mountinfo"
    return None, ""


def _kvm(findings: Findings, facades: Facades) -> None:
    """By permission: a device file that may not be opened runs no virtual machine."""
    try:
        facades.open_for_write("/dev/kvm")
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENODEV, errno.ENXIO):
            findings.warn("/dev/kvm", reason(error))
            return
        findings.label("kvm", False, f"/dev/kvm ({reason(error)})")
        return
    findings.label("kvm", True, "/dev/kvm")


def _tpm(look: Look) -> int | None:
    for name in look.listing(TPM) or ():
        base = f"{TPM}/{name}"
        version = look.integer(f"{base}/tpm_version_major", quiet=NOT_FOR_THIS_DEVICE)
        if version in (1, 2):
            return version
        # Kernels before 5.6 only describe it.
        for path in (f"{base}/device/description", f"{base}/device/caps", f"{base}/caps"):
            match = re.search(r"(?:TPM |TCG version: )([12])\.", look.text(path, quiet=NOT_FOR_THIS_DEVICE) or "")
            if match is not None:
                return int(match[1])
    return None

import pytest

BLOCK = "/sys/class/block"
PCI = "../../devices/pci0000:00/0000:00:17.0"


def root(device, source, kind="ext4"):
    return {"/proc/self/mountinfo": f"22 1 {device} / / rw,relatime shared:1 - {kind} {source} rw\n"}


def disk(name, path=None, **files):
    given = {f"{BLOCK}/{name}": {"symlink": path or f"{PCI}/ata1/host0/block/{name}"}}
    return given | {f"{BLOCK}/{name}/{file.replace('__', '/')}": text for file, text in files.items()}


NVME = disk("nvme0n1", f"{PCI}/nvme/nvme0/nvme0n1", queue__rotational="0\n", removable="0\n")
NVME_PART = {
    f"{BLOCK}/nvme0n1p2": {"symlink": f"{PCI}/nvme/nvme0/nvme0n1/nvme0n1p2"},
    f"{BLOCK}/nvme0n1p2/partition": "2\n",
}
SDA = disk("sda", queue__rotational="1\n", device__type="0\n", device__vendor="ATA     \n")
VDA = {f"{BLOCK}/vda": {"dir": []}, f"{BLOCK}/vda/queue/rotational": "1\n"}
QEMU = disk("sda", queue__rotational="1\n", device__vendor="QEMU    \n")
NUMBERED = {"/sys/dev/block/8:1": {"symlink": "../../block/sda/sda1"}}
FABRIC = {f"{BLOCK}/nvme0n1/device/transport": "tcp\n"}
EBS = {f"{BLOCK}/nvme0n1/device/model": "Amazon Elastic Block Store   \n"}
SDA_PART = {f"{BLOCK}/sda1": {"symlink": f"{PCI}/ata1/host0/block/sda/sda1"}, f"{BLOCK}/sda1/partition": "1\n"}


@pytest.mark.parametrize(
    ("given", "kind", "device"),
    [
        ({**root("259:2", "/dev/nvme0n1p2"), **NVME, **NVME_PART}, "nvme", "nvme0n1"),
        ({**root("0:25", "/dev/nvme0n1p2", "btrfs"), **NVME, **NVME_PART}, "nvme", "nvme0n1"),
        ({**root("8:1", "/dev/sda1"), **SDA, **SDA_PART}, "hdd", "sda"),
        ({**root("8:1", "/dev/root"), **SDA, **SDA_PART, **NUMBERED}, "hdd", "sda"),
        ({**root("8:1", "/dev/root"), **SDA, **SDA_PART, f"{BLOCK}/sda1/dev": "8:1\n"}, "hdd", "sda"),
        ({**root("8:1", "/dev/root")}, None, None),
        (
            {
                **root("253:0", "/dev/mapper/vg-root"), **NVME, **NVME_PART,
                "/dev/mapper/vg-root": {"symlink": "../dm-0"},
                f"{BLOCK}/dm-0/slaves": {"dir": ["nvme0n1p2"]},
            },
            "nvme", "nvme0n1",
        ),
        (
            {
                **root("253:1", "/dev/mapper/crypt"), **SDA, **SDA_PART,
                f"{BLOCK}/dm-1/dm/name": "crypt\n",
                f"{BLOCK}/dm-1/slaves": {"dir": ["dm-0"]},
                f"{BLOCK}/dm-0/slaves": {"dir": ["md0"]},
                f"{BLOCK}/md0/slaves": {"dir": ["sda1", "nvme0n1p2"]},
                **NVME, **NVME_PART,
            },
            "hdd", "nvme0n1,sda",
        ),
        ({**root("254:1", "/dev/vda1"), **VDA}, "virtual", "vda"),
        (
            {**root("8:1", "/dev/sda1"), **QEMU, **SDA_PART},
            "virtual", "sda",
        ),
        ({**root("8:2", "/dev/sda2"), "/sys/block/sda/queue/rotational": "0\n"}, "ssd", "sda"),
        ({**root("179:2", "/dev/mmcblk0p2"), "/sys/block/mmcblk0/device/type": "MMC\n"}, "ssd", "mmcblk0"),
        ({**root("0:40", "server:/export", "nfs4")}, "network", None),
        ({**root("0:40", "root", "virtiofs")}, "virtual", None),
        ({**root("0:40", "overlay", "overlay")}, None, None),
        ({**root("0:30", "rpool/ROOT/ubuntu", "zfs")}, None, None),
        (
            {**root("259:1", "/dev/nvme0n1p1"), **NVME, **EBS},
            "network", "nvme0n1",
        ),
        ({**root("259:1", "/dev/nvme0n1p1"), **NVME, **FABRIC}, "network", "nvme0n1"),
        ({"/proc/mounts": "rootfs / rootfs rw 0 0\n/dev/sda1 / ext4 rw 0 0\n", **SDA, **SDA_PART}, "hdd", "sda"),
    ],
)  # fmt: skip
def test_root(detected, given, kind, device):
    facts = detected(given)
    assert (facts.get("disk_root_class"), facts.get("disk_root_device")) == (kind, device)


def test_counts_by_class(detected):
    facts = detected(
        {
            **NVME, **NVME_PART, **SDA, **SDA_PART,
            **disk("sdb", queue__rotational="0\n", device__type="0\n"),
            **disk("sdc", f"{PCI}/usb1/1-2/host4/block/sdc", queue__rotational="1\n", device__type="0\n"),
            **disk("sdd", removable="1\n", queue__rotational="0\n", device__type="0\n"),
            **disk("sde", size="0\n", queue__rotational="0\n", device__type="0\n"),
            **disk("sdf", queue__rotational="0\n", device__type="13\n"),
            **disk("sr0", queue__rotational="0\n", device__type="5\n"),
            **disk("mmcblk0", device__type="SD\n"),
            **disk("mmcblk0boot0"),
            **disk("nvme1c0n1", f"{PCI}/nvme/nvme1/nvme1c0n1", hidden="1\n"),
            **{f"{BLOCK}/{name}/size": "9\n" for name in ("loop0", "zram0", "dm-0", "md127", "ram0", "fd0")},
        }
    )  # fmt: skip
    counts = {name: facts[f"disk_{name}_count"] for name in ("ssd", "hdd", "nvme", "removable")}
    assert counts == {"ssd": 1, "hdd": 1, "nvme": 1, "removable": 3}


def test_size_of_the_root_file_system(detected):
    assert detected({"call:shutil.disk_usage(/)": {"total": 10 * 2**30, "free": 2**30}})["disk_root_mb"] == 10240


def test_a_dead_mount_is_a_warning_and_costs_only_its_deadline(pretend, monkeypatch):
    import threading

    import attrs
    from shoal.capabilities.probes import storage
    from shoal.capabilities.probes.findings import Findings

    release = threading.Event()
    machine = pretend({"call:shutil.disk_usage(/)": {"total": 2**30, "free": 2**20}})
    facades = attrs.evolve(
        machine.facades,
        disk_usage=lambda path: release.wait(10) if path == "/dead-test" else machine.facades.disk_usage(path),
    )
    monkeypatch.setattr(storage, "USAGE_SECONDS", 0.05)
    findings = Findings("storage")
    try:
        found = storage.usages(facades, ("/", "/dead-test"), findings)
    finally:
        release.set()
    assert list(found) == ["/"]
    assert "/dead-test" in str(findings.warnings[0])


def test_free_space_of_paths(pretend):
    from shoal.capabilities.survey import free_space

    machine = pretend({"call:shutil.disk_usage(/var/lib/shoal)": {"total": 2**30, "free": 2**29}})
    assert free_space(["/var/lib/shoal", "/gone"], machine.facades) == {"/var/lib/shoal": 512, "/gone": None}

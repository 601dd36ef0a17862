"""Siblings of the cases in detection.json: the same kinds on other machines, in the same form of input."""

import importlib.util
from pathlib import Path

import pytest
from shoal.capabilities.probes.deadline import Outcome
from shoal.capabilities.survey import PROBES, joined

HERE = Path(__file__).parent
CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
BLOCK = "/sys/class/block"
PCI = "/sys/bus/pci/devices"
POWER = "/sys/class/power_supply"
DMI = "/sys/class/dmi/id"
NET = "/sys/class/net"
DOCKER = "3f2b1c0d9e8a7b6c5d4e3f2b1c0d9e8a7b6c5d4e3f2b1c0d9e8a7b6c5d4e3f2b"
GIB = 2**30


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PRETEND = load("machine").Pretend


def facts_of(given):
    machine = PRETEND(given)
    probes = {name: Outcome(probe(machine.reader, machine.facades), None, 0.0) for name, probe in PROBES.items()}
    found = joined(probes)
    warnings = "\n".join(map(str, found.warnings))
    return {**found.vitals, **found.engines, **found.record.labels, "warnings": warnings}


def check(given, expected):
    facts = facts_of(given)
    found = {key: facts.get(key) for key in expected}
    assert found == expected, facts["warnings"]
    assert {key: type(value) for key, value in found.items()} == {key: type(expected[key]) for key in expected}


def under(base, files):
    return {f"{base}/{name}": text for name, text in files.items()}


def pci(address, kind, vendor, device=None, driver=None, **files):
    given = under(f"{PCI}/{address}", {"class": f"{kind}\n", "vendor": f"{vendor}\n"} | files)
    if device is not None:
        given[f"{PCI}/{address}/device"] = f"{device}\n"
    if driver is not None:
        given[f"{PCI}/{address}/driver"] = {"symlink": f"../../../../bus/pci/drivers/{driver}"}
    return given


def nvml(*gpus):
    """GPUs as (name, GiB or fault, further calls)."""
    given = {"nvml:nvmlInit": 0, "nvml:nvmlDeviceGetCount": len(gpus)}
    for index, (name, memory, *more) in enumerate(gpus):
        given[f"nvml:nvmlDeviceGetName({index})"] = name
        given[f"nvml:nvmlDeviceGetMemoryInfo({index})"] = (
            memory if isinstance(memory, dict) else {"total": memory * GIB, "free": memory * GIB, "used": 0}
        )
        for call, answer in (more[0] if more else {}).items():
            given[f"nvml:{call.replace('#', str(index))}"] = answer
    return given


def topology(cpus):
    """CPUs as number -> (package, core, siblings)."""
    given = {}
    for cpu, (package, core, siblings) in cpus.items():
        base = f"{CPU}/cpu{cpu}/topology"
        given[f"{base}/physical_package_id"] = f"{package}\n"
        given[f"{base}/core_id"] = f"{core}\n"
        given[f"{base}/core_cpus_list"] = f"{siblings}\n"
    return given


def supply(name, kind, **files):
    return under(f"{POWER}/{name}", {"type": f"{kind}\n"} | {key: f"{value}\n" for key, value in files.items()})


def dmi(**fields):
    return {f"{DMI}/{name}": f"{text}\n" for name, text in fields.items()}


MEMINFO = {"/proc/meminfo": "MemTotal:       32768000 kB\nMemAvailable:   30000000 kB\n"}
EIGHT = {f"{CPU}/online": "0-7\n"}
UNKNOWN = {"nvml_error": 999}
LOST = {"nvml_error": 15}
REFUSED = {"nvml_error": 3}
MIG = {"nvmlDeviceGetMigMode(#)": [1, 1], "nvmlDeviceGetMaxMigDeviceCount(#)": 7}
MIG_ONE = {**MIG, "nvmlDeviceGetMigDeviceHandleByIndex(#,0)": "mig0", "nvmlDeviceGetUUID(mig0)": "MIG-11112222-aaaa"}
MIG_MEMORY = {"nvml:nvmlDeviceGetMemoryInfo(mig0)": {"total": 10 * GIB, "free": 9 * GIB, "used": GIB}}

MEMORY = {
    "a docker group of version 1, seen from within without its path": (
        {
            **MEMINFO,
            "/proc/self/cgroup": f"9:memory:/docker/{DOCKER}\n1:name=systemd:/docker/{DOCKER}\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n",
            "/sys/fs/cgroup/memory/memory.stat": "total_inactive_file 536870912\n",
        },
        {"ram_limit_mb": 2048, "ram_limited": True, "ram_available_mb": 1536, "cgroup_version": 1},
    ),
    "a limit that only the hierarchy of version 1 tells, seen from within": (
        {
            **MEMINFO,
            "/proc/self/cgroup": f"9:memory:/docker/{DOCKER}\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/memory/memory.stat": "cache 1\nhierarchical_memory_limit 4294967296\n",
        },
        {"ram_limit_mb": 4096, "ram_limited": True},
    ),
    "no limit on pages of 64 KiB": (
        {
            **MEMINFO,
            "/proc/self/cgroup": "4:memory:/\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854710272\n",
        },
        {"ram_limit_mb": 32000, "ram_limited": False},
    ),
    "the tightest of three nested groups": (
        {
            **MEMINFO,
            "/proc/self/cgroup": "0::/kubepods.slice/pod1.slice/cri-containerd-a.scope\n",
            "/sys/fs/cgroup/kubepods.slice/memory.max": "34359738368\n",
            "/sys/fs/cgroup/kubepods.slice/pod1.slice/memory.max": "1073741824\n",
            "/sys/fs/cgroup/kubepods.slice/pod1.slice/cri-containerd-a.scope/memory.max": "max\n",
        },
        {"ram_limit_mb": 1024, "ram_limited": True},
    ),
    "hybrid: memory is limited in version 2 at its own mount": (
        {
            **MEMINFO,
            "/proc/self/cgroup": "2:cpu,cpuacct:/a\n0::/a\n",
            "/sys/fs/cgroup/unified/cgroup.controllers": "memory\n",
            "/sys/fs/cgroup/unified/a/memory.max": "1073741824\n",
        },
        {"ram_limit_mb": 1024, "ram_limited": True, "cgroup_version": 1},
    ),
    "a limit of nothing that is no number": (
        {
            **MEMINFO,
            "/proc/self/cgroup": "0::/\n",
            "/sys/fs/cgroup/cgroup.controllers": "memory\n",
            "/sys/fs/cgroup/memory.max": "\n",
        },
        {"ram_limit_mb": 32000, "ram_limited": False},
    ),
    "no swap is a fact, huge pages of another size are none of ours": (
        {
            "/proc/meminfo": "MemTotal: 1024000 kB\nMemAvailable: 512000 kB\nSwapTotal: 0 kB\nHugePages_Total: 7\n",
            "/sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages": "7\n",
        },
        {"swap_mb": 0, "hugepages_2m": None, "hugepages_1g": None},
    ),
    "pages glued to names, negative sizes, carriage returns": (
        {
            "/proc/meminfo": "MemTotal: 1024000 kB\r\nMemFree: 1000 kB\r\nMemAvailable: 512000 kB\r\n"
            "ShadowCallStack:10373888 kB\nCmaFree: -5 kB\nVmallocTotal: 34359738367 kB\n"
        },
        {"ram_mb": 1000, "ram_available_mb": 500},
    ),
}

PROCESSORS = {
    "shares of 2 are no limit": (
        {
            **EIGHT,
            "/proc/self/cgroup": f"3:cpu,cpuacct:/docker/{DOCKER}\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.shares": "2\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
        {"cpu_usable_milli": 8000, "cpu_guaranteed_milli": None},
    ),
    "shares that a container was given": (
        {
            **EIGHT,
            "/proc/self/cgroup": f"3:cpu,cpuacct:/docker/{DOCKER}\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.shares": "512\n",
        },
        {"cpu_usable_milli": 8000, "cpu_guaranteed_milli": 500},
    ),
    "a weight that a container was given, in its own namespace": (
        {
            **EIGHT,
            "/proc/self/cgroup": "0::/\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu\n",
            "/sys/fs/cgroup/cpu.weight": "20\n",
            "/sys/fs/cgroup/cpu.max": "max 100000\n",
        },
        {"cpu_usable_milli": 8000, "cpu_guaranteed_milli": 488},
    ),
    "a quota of another period, on an ancestor": (
        {
            **EIGHT,
            "/proc/self/cgroup": "0::/a/b\n",
            "/sys/fs/cgroup/a/cpu.max": "25000 10000\n",
            "/sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        },
        {"cpu_usable_milli": 2500},
    ),
    "a quota above the machine": (
        {**EIGHT, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "1600000 100000\n"},
        {"cpu_usable_milli": 8000},
    ),
    "a set with gaps within what is online": (
        {
            f"{CPU}/online": "0-3,8-11\n",
            f"{CPU}/offline": "4-7\n",
            f"{CPU}/present": "0-11\n",
            "/proc/self/cgroup": "0::/p\n",
            "/sys/fs/cgroup/p/cpuset.cpus.effective": "2,8,10-11\n",
            "/sys/fs/cgroup/p/cpuset.cpus.partition": "isolated\n",
        },
        {"cpu_count": 8, "cpu_usable_milli": 4000},
    ),
    "SMT off: the siblings are offline": (
        {
            f"{CPU}/online": "0-3\n",
            f"{CPU}/smt/active": "0\n",
            **topology({0: (0, 0, "0"), 1: (0, 1, "1"), 2: (0, 2, "2"), 3: (0, 3, "3")}),
        },
        {"cpu_count": 4, "cpu_physical": 4, "cpu_smt": False, "cpu_sockets": 1},
    ),
    "SMT by its switch, where nothing else tells": (
        {f"{CPU}/online": "0-3\n", f"{CPU}/smt/active": "1\n"},
        {"cpu_smt": True, "cpu_physical": None},
    ),
    "core numbers with gaps on two sockets with SMT": (
        {
            f"{CPU}/online": "0-7\n",
            **topology(
                {
                    0: (0, 0, "0,4"),
                    1: (0, 9, "1,5"),
                    2: (1, 0, "2,6"),
                    3: (1, 9, "3,7"),
                    4: (0, 0, "0,4"),
                    5: (0, 9, "1,5"),
                    6: (1, 0, "2,6"),
                    7: (1, 9, "3,7"),
                }
            ),
        },
        {"cpu_physical": 4, "cpu_sockets": 2, "cpu_smt": True},
    ),
    "three clusters of an arm64 phone chip": (
        {
            f"{CPU}/online": "0-7\n",
            **{f"{CPU}/cpu{n}/cpu_capacity": f"{250 if n < 4 else 700 if n < 7 else 1024}\n" for n in range(8)},
        },
        {"cpu_hybrid": True, "cpu_efficiency_cores": 4, "cpu_performance_cores": 4},
    ),
    "frequency of an Intel server: base in kHz, nothing current": (
        {
            f"{CPU}/online": "0\n",
            f"{CPU}/cpufreq/policy0/base_frequency": "2100000\n",
            f"{CPU}/cpufreq/policy0/cpuinfo_max_freq": "4100000\n",
            f"{CPU}/cpufreq/policy0/cpuinfo_cur_freq": {"errno": "EACCES"},
            "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Xeon CPU @ 2.20GHz\ncpu MHz\t\t: 800.0\n",
            **MEMINFO,
        },
        {"cpu_base_mhz": 2100, "cpu_max_mhz": 4100, "warnings": ""},
    ),
    "only a current frequency": (
        {"/proc/cpuinfo": "processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 2199.998\n"},
        {"cpu_base_mhz": None, "cpu_max_mhz": None, "cpu_count": 1},
    ),
    "memory expanders and GPU memory are nodes without processors": (
        {f"{NODE}/online": "0-1,8,252-255\n", f"{NODE}/has_cpu": "0,8\n", f"{NODE}/has_memory": "0,8,252-255\n"},
        {"numa_nodes": 7, "numa_cpu_nodes": 2},
    ),
    "a node that lists no processors, without the summary": (
        {f"{NODE}/node0/cpulist": "0-7\n", f"{NODE}/node1/cpulist": "\n"},
        {"numa_nodes": 2, "numa_cpu_nodes": 1},
    ),
    "loongson": (
        {
            "/proc/cpuinfo": "system type\t\t: generic\n\nprocessor\t\t: 0\nCPU Family\t\t: Loongson-64bit\n"
            "Model Name\t\t: Loongson-3A5000\nFeatures\t\t: cpucfg lam fpu lsx lasx\n"
        },
        {"arch": "loong64", "cpu_model": "Loongson-3A5000", "cpu_count": 1},
    ),
}

GPUS = {
    "one of two is lost while its memory is asked": (
        nvml(("A100", 40), ("A100", LOST)),
        {"gpu_count": 1, "gpu_physical_count": 2, "gpu_failed_count": 1, "gpu_error": "nvml:15", "gpu_vram_mb": 40960},
    ),
    "a chip with unified memory that cannot tell it": (
        {**nvml(("NVIDIA GB10", REFUSED)), **MEMINFO},
        {"gpu_count": 1, "gpu_memory_unified": True, "gpu_vram_mb": None, "gpu_shared_memory_mb": 32000},
    ),
    "Grace Hopper has memory of its own": (
        {
            **nvml(("NVIDIA GH200 480GB", 96, {"nvmlDeviceGetCudaComputeCapability(#)": [9, 0]})),
            "/proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n",
        },
        {"gpu_memory_unified": False, "gpu_vram_mb": 98304, "gpu_compute_capability": 900, "arch": "arm64"},
    ),
    "a slice of a GPU in a virtual machine": (
        nvml(("GRID T4-16Q", 16, {"nvmlDeviceGetBrand(#)": 11, "nvmlDeviceGetEccMode(#)": REFUSED})),
        {"gpu_count": 1, "gpu_vram_mb": 16384, "gpu_models": "grid-t4-16q", "gpu_ecc": None},
    ),
    "MIG instances hidden by a duplicate parent, beside a whole GPU": (
        {**nvml(("A100", 40, MIG_ONE), ("A100", 40)), **MIG_MEMORY},
        {"gpu_count": 2, "gpu_physical_count": 2, "gpu_mig": True, "gpu_vram_mb": 10240, "gpu_vram_max_mb": 40960},
    ),
    "an instance is visible by its name": (
        {**nvml(("A100", 40, MIG_ONE)), **MIG_MEMORY, "env:CUDA_VISIBLE_DEVICES": "MIG-11112222-aaaa"},
        {"gpu_visible_count": 1},
    ),
    "two instances are named and CUDA shows one": (
        {**nvml(("A100", 40, MIG_ONE)), **MIG_MEMORY, "env:CUDA_VISIBLE_DEVICES": "MIG-11112222-aaaa,MIG-b"},
        {"gpu_visible_count": 1},
    ),
    "an instance on a machine that has none": (
        {**nvml(("A100", 40)), "env:CUDA_VISIBLE_DEVICES": "MIG-11112222-aaaa"},
        {"gpu_visible_count": 0},
    ),
    "an instance that is not there": (
        {**nvml(("A100", 40, MIG_ONE)), **MIG_MEMORY, "env:CUDA_VISIBLE_DEVICES": "MIG-99999999-aaaa"},
        {"gpu_visible_count": 0},
    ),
    "an Arc card whose memory the class tells": (
        {
            **pci("0000:03:00.0", "0x030000", "0x8086", "0x56a0", "i915"),
            "/sys/class/drm/card1/device": {"symlink": "../../../0000:03:00.0"},
            "/sys/class/drm/card1/lmem_total_bytes": "17079205888\n",
        },
        {"gpu_count": 1, "gpu_intel_count": 1, "gpu_vram_mb": 16288},
    ),
    "processor graphics and a board controller are no cards": (
        {
            **pci("0000:00:02.0", "0x030000", "0x8086", "0xa780", "i915"),
            **pci("0000:06:00.0", "0x030000", "0x1a03", "0x2000", "ast"),
            **nvml(("NVIDIA L4", 23)),
        },
        {"gpu_count": 1, "gpu_intel_count": 1, "gpu_pci_count": 1, "gpu_vram_mb": 23552},
    ),
    "a card without any driver": (
        {**pci("0000:05:00.0", "0x030000", "0x1002", "0x744c")},
        {"gpu_count": 0, "gpu_amd_count": 0, "gpu_pci_count": 1},
    ),
    "a TPU that only its numbers tell": (
        {f"{PCI}/0000:00:04.0/vendor": "0x1ae0\n", f"{PCI}/0000:00:04.0/device": "0x0063\n"},
        {"tpu_count": 1, "accelerator_google": 1},
    ),
    "a TPU through vfio": (
        pci("0000:00:05.0", "0xff0000", "0x1ae0", "0x0062", "vfio-pci"),
        {"tpu_count": 1},
    ),
    "Google's network and disk are no TPU": (
        {
            **pci("0000:00:04.0", "0x020000", "0x1ae0", "0x0042", "gvnic"),
            **pci("0000:00:05.0", "0x010802", "0x1ae0", "0x001f", "nvme"),
        },
        {"tpu_count": 0, "accelerator_google": None},
    ),
    "a programmable card of Intel is no NPU": (
        pci("0000:3b:00.0", "0x120000", "0x8086", "0x09c4", "dfl-pci"),
        {"npu_count": 0},
    ),
    "Gaudi cards": (
        {
            **pci("0000:33:00.0", "0x120000", "0x1da3", "0x1020", "habanalabs"),
            **pci("0000:34:00.0", "0x120000", "0x1da3", "0x1020", "habanalabs"),
        },
        {"accelerator_habana": 2, "gpu_count": 0, "tpu_count": 0, "npu_count": 0},
    ),
    "NVML works and shows no card to this process": (
        {**nvml(), **pci("0000:01:00.0", "0x030200", "0x10de", None, "nvidia")},
        {"gpu_nvidia": False, "gpu_count": 0, "gpu_error": None, "gpu_pci_count": 1},
    ),
    "a card and no library": (
        pci("0000:01:00.0", "0x030200", "0x10de", None, "nvidia"),
        {"gpu_nvidia": False, "gpu_count": 0, "gpu_error": "nvml:12", "gpu_pci_count": 1},
    ),
    "the subsystem of Windows has the library and no bus": (
        {
            **nvml(("NVIDIA GeForce RTX 4070", 12)),
            **pci("e9c7:00:00.0", "0x030200", "0x1414", "0x008e", "dxgkrnl"),
            "/proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n",
        },
        {"gpu_nvidia": True, "gpu_count": 1, "gpu_pci_count": 0, "wsl": True, "virt": "hyperv"},
    ),
    "an error of no name": (
        {"nvml:nvmlInit": {"nvml_error": 77}, **pci("0000:01:00.0", "0x030200", "0x10de", None, "nvidia")},
        {"gpu_nvidia": False, "gpu_error": "nvml:77", "gpu_pci_count": 1},
    ),
}

DISKS = {
    "a disk of virtio says that it rotates": (
        {
            f"{BLOCK}/vda/queue/rotational": "1\n",
            f"{BLOCK}/vda/size": "100\n",
            "/proc/self/mountinfo": "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n",
        },
        {"disk_root_class": "virtual", "disk_hdd_count": 0, "disk_ssd_count": 0},
    ),
    "NVMe over fabrics with several paths": (
        {
            "/proc/self/mountinfo": "22 1 259:1 / / rw - ext4 /dev/nvme0n1 rw\n",
            f"{BLOCK}/nvme0n1": {"symlink": "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"},
            "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0/transport": "tcp\n",
            f"{BLOCK}/nvme0n1/device": {"symlink": "../../nvme-subsys0"},
            f"{BLOCK}/nvme0n1/size": "9\n",
        },
        {"disk_root_class": "network", "disk_nvme_count": 0},
    ),
    "a local NVMe disk with several paths": (
        {
            "/proc/self/mountinfo": "22 1 259:1 / / rw - ext4 /dev/nvme0n1 rw\n",
            f"{BLOCK}/nvme0n1": {"symlink": "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"},
            "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0/transport": "pcie\n",
            f"{BLOCK}/nvme0n1/device": {"symlink": "../../nvme-subsys0"},
        },
        {"disk_root_class": "nvme", "disk_nvme_count": 1},
    ),
    "a cloud's network disk as NVMe": (
        {
            "/proc/self/mountinfo": "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n",
            f"{BLOCK}/nvme0n1/device/model": "nvme_card-pd                            \n",
            f"{BLOCK}/nvme0n1p1/partition": "1\n",
            f"{BLOCK}/nvme0n1p1": {"symlink": "../../devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1/nvme0n1p1"},
        },
        {"disk_root_class": "network", "disk_root_device": "nvme0n1"},
    ),
    "bcache over two disks is as slow as the slower": (
        {
            "/proc/self/mountinfo": "22 1 252:0 / / rw - ext4 /dev/bcache0 rw\n",
            f"{BLOCK}/bcache0/slaves": {"dir": ["sda", "nvme0n1"]},
            f"{BLOCK}/sda/queue/rotational": "1\n",
            f"{BLOCK}/nvme0n1/queue/rotational": "0\n",
        },
        {"disk_root_class": "hdd", "disk_root_device": "nvme0n1,sda"},
    ),
    "a network block device and a floppy": (
        {
            "/sys/class/block": {"dir": ["nbd0", "fd0"]},
            f"{BLOCK}/nbd0/size": "0\n",
            f"{BLOCK}/nbd0/queue/rotational": "0\n",
            f"{BLOCK}/fd0/queue/rotational": "1\n",
        },
        {"disk_ssd_count": 0, "disk_hdd_count": 0},
    ),
    "a mapped root whose disks are only where old kernels list them": (
        {
            "/proc/mounts": "/dev/mapper/vg0-root / ext4 rw 0 0\n",
            "/sys/block/dm-0/dm/name": "vg0-root\n",
            "/sys/block/dm-0/slaves": {"dir": ["nvme0n1p3"]},
            "/sys/block/nvme0n1/queue/rotational": "0\n",
        },
        {"disk_root_class": "nvme", "disk_root_device": "nvme0n1"},
    ),
    "iSCSI": (
        {
            "/proc/self/mountinfo": "22 1 8:0 / / rw - xfs /dev/sda rw\n",
            f"{BLOCK}/sda": {"symlink": "../../devices/platform/host7/session1/target7:0:0/7:0:0:1/block/sda"},
            f"{BLOCK}/sda/queue/rotational": "1\n",
        },
        {"disk_root_class": "network"},
    ),
}

NETWORKS = {
    "16 bits of unknown speed": (
        {f"{NET}/eth0/speed": "65535\n", f"{NET}/eth0/operstate": "up\n", f"{NET}/eth0/device/vendor": "x"},
        {"net_max_mbps": None},
    ),
    "wireless, a pair of containers, a bridge, and a link that is down": (
        {
            **MEMINFO,
            f"{NET}/wlan0/speed": {"errno": "EINVAL"},
            f"{NET}/wlan0/operstate": "up\n",
            f"{NET}/wlan0/device/vendor": "x",
            f"{NET}/wlan0/wireless/status": "0",
            f"{NET}/veth1/speed": "10000\n",
            f"{NET}/veth1/operstate": "up\n",
            f"{NET}/docker0/speed": "10000\n",
            f"{NET}/docker0/operstate": "up\n",
            f"{NET}/docker0/bridge/x": "",
            f"{NET}/eth1/speed": "40000\n",
            f"{NET}/eth1/operstate": "down\n",
            f"{NET}/eth1/device/vendor": "x",
        },
        {"net_max_mbps": None, "warnings": ""},
    ),
    "a device that is a link to somewhere": (
        {
            f"{NET}/eth0/speed": "25000\n",
            f"{NET}/eth0/operstate": "up\n",
            f"{NET}/eth0/device": {"symlink": "../../../0000:01:00.0"},
        },
        {"net_max_mbps": 25000},
    ),
    "a port of a kernel that knew no other layer": (
        {
            "/sys/class/infiniband/mthca0/ports/1/state": "4: ACTIVE\n",
            "/sys/class/infiniband/mthca0/ports/1/rate": "20 Gb/sec (4X DDR)\n",
        },
        {"rdma_active_ports": 1, "infiniband": None, "rdma_max_gbps": 20},
    ),
    "a bond counts as its fastest link": (
        {
            f"{NET}/bond0/speed": "50000\n",
            f"{NET}/bond0/operstate": "up\n",
            f"{NET}/bond0/bonding/mode": "802.3ad 4\n",
            f"{NET}/eth0/speed": "25000\n",
            f"{NET}/eth0/operstate": "up\n",
            f"{NET}/eth0/device/vendor": "x",
            f"{NET}/eth1/speed": "25000\n",
            f"{NET}/eth1/operstate": "up\n",
            f"{NET}/eth1/device/vendor": "x",
            f"{NET}/eth0.7/speed": "25000\n",
            f"{NET}/eth0.7/operstate": "up\n",
        },
        {"net_max_mbps": 25000},
    ),
}

PLATFORMS = {
    "WSL 1": ({"/proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft\n"}, {"wsl": True, "virt": None}),
    "WSL 2 by the only file that can be read": (
        {"/proc/version": "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@x) (gcc) #1 SMP\n"},
        {"wsl": True},
    ),
    "docker of version 1 by the first process": (
        {"/proc/self/cgroup": "4:memory:/\n", "/proc/1/cgroup": f"4:memory:/docker/{DOCKER}\n"},
        {"container": True, "container_kind": "docker"},
    ),
    "a Xen guest of Amazon": (
        {
            "/sys/hypervisor/type": "xen\n",
            "/sys/hypervisor/uuid": "ec2e1916-9099-7caf-fd21-012345abcdef\n",
            **dmi(sys_vendor="Xen", product_name="HVM domU", bios_version="4.11.amazon"),
        },
        {"virt": "xen", "cloud": "aws"},
    ),
    "Nitro": (
        {
            "/proc/cpuinfo": "processor : 0\nflags : fpu hypervisor\n",
            **dmi(sys_vendor="Amazon EC2", product_name="c5.large", bios_vendor="Amazon EC2", bios_version="1.0"),
        },
        {"virt": "kvm", "cloud": "aws"},
    ),
    "Alibaba": (dmi(sys_vendor="Alibaba Cloud", product_name="Alibaba Cloud ECS"), {"cloud": "alibaba"}),
    "a chip of TPM 1.2 without a version file": (
        {"/sys/class/tpm/tpm0/device/caps": "Manufacturer: 0x49465800\nTCG version: 1.2\nFirmware version: 4.40\n"},
        {"tpm": 1},
    ),
}

POWERS = {
    "a port that gives power and an adapter that is plugged in": (
        {
            **supply("BAT0", "Battery", status="Charging", capacity=50),
            **supply("AC", "Mains", online=1),
            **supply("ucsi-source-psy-USBC000:001", "USB", online=0),
        },
        {"battery": True, "power_source": "ac", "battery_percent": 50},
    ),
    "charging, while a port is idle": (
        {**supply("BAT0", "Battery", status="Charging", capacity=50), **supply("ucsi-source-psy", "USB", online=0)},
        {"power_source": "ac"},
    ),
    "not charging because full enough, while a port is idle": (
        {**supply("BAT0", "Battery", status="Not charging", capacity=80), **supply("ucsi-source-psy", "USB", online=0)},
        {"power_source": "ac"},
    ),
    "unplugged a moment ago": (
        {**supply("BAT0", "Battery", status="Full", capacity=100), **supply("AC", "Mains", online=0)},
        {"power_source": "battery"},
    ),
    "peripherals of kernels that give no scope": (
        {
            **supply("hidpp_battery_0", "Battery", status="Discharging", capacity=10),
            **supply("wacom_battery_0", "Battery", capacity=5),
            **supply("ps-controller-battery-aa", "Battery", capacity=5),
            **supply("hid-0018:04F3-battery", "Battery", capacity=0),
        },
        {"battery": False, "battery_percent": None, "power_source": "ac"},
    ),
    "a UPS is no battery of this machine": (
        supply("hid-ups", "UPS", status="Discharging", capacity=60),
        {"battery": False, "power_source": "ac"},
    ),
    "a full charge of nothing": (
        supply("BAT0", "Battery", charge_now=1000, charge_full=0, status="Discharging"),
        {"battery": True, "battery_percent": None, "power_source": "battery"},
    ),
    "two batteries, one of which tells nothing": (
        {**supply("BAT0", "Battery", capacity=40, status="Unknown"), **supply("BAT1", "Battery", status="Discharging")},
        {"battery_percent": 40, "power_source": "battery"},
    ),
    "temperatures that no chip has": (
        {
            f"/sys/class/thermal/thermal_zone{n}/temp": f"{value}\n"
            for n, value in enumerate((-274000, 0, 65261850, -32768000, 255000, 51234))
        },
        {"thermal_max_celsius": 51},
    ),
}

TOOLS = {
    "podman in docker's clothes": (
        {
            "cmd:docker --version": "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n"
            "podman version 4.3.1\n",
            "cmd:podman --version": "podman version 4.3.1\n",
        },
        {"tool_podman": True, "tool_podman_version": "4.3.1", "tool_docker_version": None},
    ),
    "a server without its program": (
        {
            "/var/run/docker.sock": "",
            "http:GET unix:/var/run/docker.sock:/version": {"status": 200, "json": {"Version": "26.1.0"}},
        },
        {"tool_docker": True, "tool_docker_version": "26.1.0"},
    ),
    "podman behind docker's socket": (
        {
            "/var/run/docker.sock": "",
            "http:GET unix:/var/run/docker.sock:/version": {
                "status": 200,
                "json": {"Version": "4.9.3", "Components": [{"Name": "Podman Engine"}]},
            },
        },
        {"tool_docker": None, "tool_docker_version": None},
    ),
    "a server of ollama that does not know its version": (
        {"http:GET http://127.0.0.1:11434/api/version": {"status": 200, "json": {"version": ""}}},
        {"tool_ollama": True, "tool_ollama_version": None, "ollama_running": True},
    ),
    "versions with a vendor behind them": (
        {"cmd:git --version": "git version 2.39.3 (Apple Git-146)\n", "cmd:python3 --version": "Python 3.13.0rc1+\n"},
        {"tool_git_version": "2.39.3", "tool_python_version": "3.13.0rc1"},
    ),
    "a development build of go": (
        {"cmd:go version": "go version devel go1.24-a1b2c3d Tue Jan 1 00:00:00 2025 +0000 linux/amd64\n"},
        {"tool_go": True, "tool_go_version": None},
    ),
    "ollama on every address and another port": (
        {
            "env:OLLAMA_HOST": "0.0.0.0:11500",
            "http:GET http://127.0.0.1:11500/api/version": {"status": 200, "json": {"version": "0.6.1"}},
            "http:GET http://127.0.0.1:11500/api/ps": {
                "status": 200,
                "json": {"models": [{"name": "b"}, {"name": "a"}]},
            },
        },
        {"ollama_running": True, "tool_ollama_version": "0.6.1", "models_resident": "a,b"},
    ),
    "llama-server at its usual port, its model by an equals sign": (
        {"/proc/9/comm": "llama-server\n", "/proc/9/cmdline": "llama-server\0--model=/m/Qwen-7B-00001-of-00002.gguf\0"},
        {"llama_server_port": 8080, "models_resident": "Qwen-7B"},
    ),
}

SYSTEMS = {
    "no file in /etc": (
        {"/usr/lib/os-release": "ID=fedora\nVERSION_ID=41\n"},
        {"distro": "fedora", "distro_version": "41"},
    ),
    "Windows line ends and quotes": (
        {"/etc/os-release": 'ID="ol"\r\nVERSION_ID="9.4"\r\n'},
        {"distro": "ol", "distro_version": "9.4"},
    ),
    "a kernel of Void": (
        {"/proc/sys/kernel/osrelease": "6.12.13_1\n"},
        {"kernel_major": 6, "kernel_minor": 12, "kernel": "6.12.13_1"},
    ),
    "binary junk in every text": (
        {
            "/etc/os-release": "ID=\ufffd\ufffd\0\n",
            "/proc/sys/kernel/osrelease": "\ufffd\0\x1b[31m\n",
            "/proc/cpuinfo": "\0\ufffd:\ufffd\nprocessor\t: 0\nmodel name\t: \x1b[2J\ufffd\n",
        },
        {"distro": None, "kernel": None, "cpu_model": None, "cpu_count": 1},
    ),
}

ALL = {
    f"{kind}: {title}": case
    for kind, cases in (
        ("memory", MEMORY),
        ("processors", PROCESSORS),
        ("gpus", GPUS),
        ("disks", DISKS),
        ("networks", NETWORKS),
        ("platforms", PLATFORMS),
        ("power", POWERS),
        ("tools", TOOLS),
        ("systems", SYSTEMS),
    )
    for title, case in cases.items()
}


@pytest.mark.parametrize("title", ALL)
def test_sibling(title):
    check(*ALL[title])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"uname": "aarch64\n"}, {"arch": "arm64"}),
        ({"uname": {"machine": "riscv64", "sysname": "Linux"}}, {"arch": "riscv64", "os": "linux"}),
        ({"call:os.sched_getaffinity": {"raises": "OSError"}, **EIGHT}, {"cpu_usable_milli": 8000}),
        ({"/etc/os-release": {"bytes_hex": "49443df8780a"}}, {"distro": None}),
        ({"cmd:/opt/go/bin/go version": "go version go1.22.3 linux/amd64\n", "env:PATH": "/opt/go/bin"},
         {"tool_go_version": "1.22.3"}),
        ({"http:http://127.0.0.1:11434/api/version": {"status": 200, "json": {"version": "0.9.0"}}},
         {"ollama_running": True}),
    ],
)  # fmt: skip
def test_every_form_of_input_is_understood(given, expected):
    check(given, expected)

"""The well-known names: labels with their integer codes, vitals, engine facts and families of labels.

A code is what a label is called on the wire. **A code never changes its meaning and is never used again**: a new
label takes a free code, a retired one leaves its row. Codes below 128 take one byte: those are for what most machines
have.
"""

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from .values import Kind

BOOL, INT, STR = Kind.BOOL, Kind.INT, Kind.STR

# Two bytes on the wire: far more names than will ever be well known.
MAX_CODE = 65_535


class Form(enum.Enum):
    """How people write an Int of this label: as it is, as an amount of memory (24GB), or as a version (12.4)."""

    PLAIN = "a number"
    MEBIBYTES = "MiB, or an amount with a unit"
    HUNDREDS = "a version a.b, held as a*100+b"


class Role(enum.Enum):
    """Where the fact lives: only labels and devices can be asked for in a requirement."""

    LABEL = "label"
    VITAL = "vital"
    ENGINE = "engine"
    DEVICE = "device field"


@attrs.frozen
class Label:
    """One well-known name. `code` is None for what never travels by code; `only_true`: false is never written."""

    name: str
    kind: Kind
    meaning: str
    code: int | None = None
    unit: str = ""
    form: Form = Form.PLAIN
    role: Role = Role.LABEL
    only_true: bool = False


_TABLE: tuple[tuple[int, str, Kind, str, str], ...] = (
    (0, "arch", STR, "", "processor architecture: amd64, arm64, riscv64, s390x, ppc64le ..."),
    (1, "os", STR, "", "linux, darwin or windows"),
    (2, "hostname", STR, "", "host name as the system says it"),
    (3, "kernel", STR, "", "kernel release as the system says it"),
    (4, "kernel_major", INT, "", "first number of the kernel release"),
    (5, "kernel_minor", INT, "", "second number of the kernel release"),
    (6, "distro", STR, "", "id of the distribution: debian, ubuntu, arch ..."),
    (7, "distro_version", STR, "", "version of the distribution; absent when it has none"),
    (8, "cpu_count", INT, "CPUs", "online logical CPUs of the machine"),
    (9, "cpu_usable_milli", INT, "milli-CPUs", "what this process tree may use: affinity, cpuset and quotas"),
    (10, "cpu_guaranteed_milli", INT, "milli-CPUs", "lower bound from cgroup requests, when set"),
    (11, "cpu_physical", INT, "cores", "physical cores"),
    (12, "cpu_sockets", INT, "sockets", "processor packages"),
    (13, "cpu_smt", BOOL, "", "several threads run on one core"),
    (14, "cpu_hybrid", BOOL, "", "cores of different strength"),
    (15, "cpu_performance_cores", INT, "cores", "fast cores of a hybrid processor"),
    (16, "cpu_efficiency_cores", INT, "cores", "slow cores of a hybrid processor"),
    (17, "cpu_model", STR, "", "name of the processor model"),
    (18, "cpu_base_mhz", INT, "MHz", "nominal frequency"),
    (19, "cpu_max_mhz", INT, "MHz", "highest frequency"),
    (20, "numa_nodes", INT, "nodes", "NUMA nodes, memory-only ones included"),
    (21, "numa_cpu_nodes", INT, "nodes", "NUMA nodes that have CPUs"),
    (22, "ram_mb", INT, "MiB", "memory of the machine"),
    (23, "ram_limit_mb", INT, "MiB", "effective memory limit; equals ram_mb when unlimited"),
    (24, "ram_limited", BOOL, "", "a cgroup limits memory below the machine's"),
    (25, "swap_mb", INT, "MiB", "swap space"),
    (26, "hugepages_2m", INT, "pages", "reserved huge pages of 2 MiB"),
    (27, "hugepages_1g", INT, "pages", "reserved huge pages of 1 GiB"),
    (28, "cgroup_version", INT, "", "1 or 2"),
    (29, "gpu_nvidia", BOOL, "", "a usable NVIDIA device is there; false when there is none"),
    (30, "gpu_count", INT, "GPUs", "usable GPUs of any vendor; 0 when none"),
    (31, "gpu_name", STR, "", "the most frequent GPU model, as its driver names it"),
    (32, "gpu_models", STR, "", "all GPU models as slugs, sorted, joined by comma"),
    (33, "gpu_vram_mb", INT, "MiB", "memory of the smallest GPU; absent when any is unknown or shared"),
    (34, "gpu_vram_max_mb", INT, "MiB", "memory of the largest GPU"),
    (35, "gpu_vram_total_mb", INT, "MiB", "memory of all GPUs together"),
    (36, "gpu_compute_capability", INT, "a*100+b", "lowest NVIDIA compute capability: 8.9 is 809"),
    (37, "gpu_memory_unified", BOOL, "", "GPU and CPU share one memory"),
    (38, "gpu_integrated", BOOL, "", "the GPU is part of the processor"),
    (39, "gpu_mig", BOOL, "", "a GPU is divided into instances"),
    (40, "gpu_ecc", BOOL, "", "GPU memory is error-corrected"),
    (41, "gpu_homogeneous", BOOL, "", "all GPUs are of one model"),
    (42, "gpu_shared_memory_mb", INT, "MiB", "memory that a unified GPU can reach"),
    (43, "gpu_physical_count", INT, "GPUs", "GPU boards or chips, before division into instances"),
    (44, "gpu_visible_count", INT, "GPUs", "GPUs that this process tree is allowed to see"),
    (45, "gpu_failed_count", INT, "GPUs", "GPUs that answered with an error"),
    (46, "gpu_pci_count", INT, "GPUs", "GPUs on the PCI bus, usable or not"),
    (47, "gpu_amd_count", INT, "GPUs", "usable AMD GPUs"),
    (48, "gpu_intel_count", INT, "GPUs", "usable Intel GPUs"),
    (49, "gpu_error", STR, "", "why a library refused: nvml:18"),
    (50, "gpu_brand", STR, "", "NVIDIA product line: geforce, tesla, rtx ..."),
    (51, "nvidia_driver", STR, "", "version of the NVIDIA driver"),
    (52, "cuda", INT, "a*100+b", "highest CUDA version that the driver serves: 12.4 is 1204"),
    (53, "tpu_count", INT, "devices", "usable Google TPU chips"),
    (54, "npu_count", INT, "devices", "usable neural processors"),
    (55, "disk_root_class", STR, "", "disk under the root file system: nvme, ssd, hdd, virtual, network"),
    (56, "disk_root_device", STR, "", "name of the disk under the root file system"),
    (57, "disk_root_mb", INT, "MiB", "size of the root file system"),
    (58, "disk_ssd_count", INT, "disks", "solid-state disks that are not NVMe"),
    (59, "disk_hdd_count", INT, "disks", "rotating disks"),
    (60, "disk_nvme_count", INT, "disks", "NVMe disks"),
    (61, "disk_removable_count", INT, "disks", "removable disks"),
    (62, "net_max_mbps", INT, "Mbit/s", "fastest link that is up"),
    (63, "rdma_devices", INT, "devices", "RDMA devices"),
    (64, "rdma_active_ports", INT, "ports", "RDMA ports that are active"),
    (65, "rdma_max_gbps", INT, "Gbit/s", "fastest active RDMA port"),
    (66, "infiniband", BOOL, "", "an active InfiniBand port"),
    (67, "virt", STR, "", "hypervisor under this system: kvm, vmware, hyperv ..."),
    (68, "container", BOOL, "", "this process runs in a container"),
    (69, "container_kind", STR, "", "docker, podman, lxc, kubernetes ..."),
    (70, "cloud", STR, "", "cloud provider by firmware tables: aws, gcp, azure ..."),
    (71, "wsl", BOOL, "", "Windows Subsystem for Linux"),
    (72, "kvm", BOOL, "", "virtual machines can be run"),
    (73, "tpm", INT, "", "major version of the trusted platform module"),
    (74, "psi_available", BOOL, "", "the kernel reports pressure stalls"),
)

# Instruction sets: (code, name after `cpu_feature_`). Common to all online CPUs, true only.
_FEATURES: tuple[tuple[int, str], ...] = (
    (76, "avx"), (77, "avx2"), (78, "avx512"), (79, "amx"), (80, "fma"), (81, "bf16"), (82, "neon"), (83, "sve"),
    (84, "sve2"), (85, "sse4_1"), (86, "sse4_2"), (87, "ssse3"), (88, "aes"), (89, "sha"), (90, "f16c"),
    (91, "avx_vnni"), (92, "avx512_vnni"), (93, "avx512_bf16"), (94, "avx512_fp16"), (95, "amx_bf16"),
    (96, "amx_int8"), (97, "fp16"), (98, "dotprod"), (99, "i8mm"), (100, "crc32"), (101, "atomics"), (102, "sme"),
    (103, "rvv"), (104, "vx"), (105, "altivec"), (106, "vsx"), (107, "bmi2"), (108, "popcnt"), (109, "rdrand"),
    (110, "vmx"), (111, "svm"),
)  # fmt: skip

# Programs: (code, name after `tool_`); the next code is the program's version.
_TOOLS: tuple[tuple[int, str], ...] = (
    (112, "docker"), (114, "podman"), (116, "git"), (118, "go"), (120, "python"), (122, "ollama"),
    (124, "llama_server"), (126, "containerd"), (128, "gcc"), (130, "clang"), (132, "cmake"), (134, "make"),
    (136, "node"), (138, "npm"), (140, "cargo"), (142, "rustc"), (144, "java"), (146, "ffmpeg"), (148, "kubectl"),
    (150, "nerdctl"), (152, "apptainer"), (154, "singularity"), (156, "nvcc"), (158, "nvidia_smi"), (160, "rocm_smi"),
    (162, "uv"), (164, "conda"), (166, "bazel"), (168, "curl"), (170, "rsync"), (172, "tmux"), (174, "ssh"),
    (176, "bash"), (178, "perl"), (180, "ruby"), (182, "php"), (184, "dotnet"), (186, "terraform"), (188, "ansible"),
    (190, "qemu"), (192, "llama_cli"), (194, "vllm"), (196, "mlx_lm"), (198, "apple_foundation_models"),
    (200, "systemctl"), (202, "tar"), (204, "zig"), (206, "psql"), (208, "redis_server"), (210, "helm"),
)  # fmt: skip

# Accelerators that are no GPU, by vendor: (code, name after `accelerator_`); the value counts usable devices.
_ACCELERATORS: tuple[tuple[int, str], ...] = (
    (256, "google"), (257, "intel"), (258, "amd"), (259, "nvidia"), (260, "habana"), (261, "huawei"),
    (262, "cambricon"), (263, "tenstorrent"), (264, "graphcore"), (265, "furiosa"), (266, "qualcomm"),
    (267, "amazon"), (268, "rebellions"), (269, "hailo"), (270, "xilinx"), (271, "apple"), (272, "moore_threads"),
    (273, "hygon"), (274, "metax"), (275, "enflame"), (276, "cerebras"), (277, "groq"), (278, "rockchip"),
)  # fmt: skip

_VITALS: tuple[tuple[str, Kind, str, str], ...] = (
    ("ram_available_mb", INT, "MiB", "memory that can be had without swapping"),
    ("load1_centi", INT, "1/100", "load average over one minute"),
    ("gpu_vram_free_mb", INT, "MiB", "free memory of the GPU that has most"),
    ("gpu_vram_free_total_mb", INT, "MiB", "free memory of all GPUs together"),
    ("psi_cpu_some_avg10_centi", INT, "1/100 %", "time in which some task waited for a CPU"),
    ("psi_memory_some_avg10_centi", INT, "1/100 %", "time in which some task waited for memory"),
    ("psi_memory_full_avg10_centi", INT, "1/100 %", "time in which all tasks waited for memory"),
    ("thermal_max_celsius", INT, "C", "hottest zone"),
    ("battery", BOOL, "", "the machine has a battery of its own"),
    ("battery_percent", INT, "%", "charge of the battery"),
    ("power_source", STR, "", "ac or battery; ac when there is no system battery"),
)

_ENGINES: tuple[tuple[str, Kind, str, str], ...] = (
    ("ollama_running", BOOL, "", "an ollama server answers"),
    ("llama_server_running", BOOL, "", "a llama-server runs"),
    ("llama_server_port", INT, "port", "where it listens"),
    ("models_resident", STR, "", "loaded models, sorted, joined by comma; empty when there are none"),
)

# Words that people use for what has another name here, and that no spelling distance would find.
_OTHER_WORDS = {
    "cpus": "cpu_count", "cores": "cpu_physical", "sockets": "cpu_sockets", "ram": "ram_mb", "mem": "ram_mb",
    "memory": "ram_mb", "swap": "swap_mb", "gpu": "gpu_count", "gpus": "gpu_count", "nvidia": "gpu_nvidia",
    "vram": "gpu_vram_mb", "gpu_memory": "gpu_vram_mb", "gpu_model": "gpu_models", "disk": "disk_root_mb",
    "host": "hostname", "architecture": "arch", "cuda_version": "cuda", "driver": "nvidia_driver",
}  # fmt: skip


def form_for(name: str, unit: str = "") -> Form:
    """The written form of an Int: `_mb` is always MiB, whoever made the label."""
    if name.endswith("_mb"):
        return Form.MEBIBYTES
    return Form.HUNDREDS if unit == "a*100+b" else Form.PLAIN


def _feature(name: str, code: int | None = None) -> Label:
    meaning = "instruction set common to all online CPUs"
    return Label(name="cpu_feature_" + name, kind=BOOL, meaning=meaning, code=code, only_true=True)


def _tool(name: str, code: int | None = None) -> Label:
    return Label(name="tool_" + name, kind=BOOL, meaning="the program is there", code=code, only_true=True)


def _tool_version(name: str, code: int | None = None) -> Label:
    return Label(name=f"tool_{name}_version", kind=STR, meaning="version of the program", code=code)


def _accelerator(name: str, code: int | None = None) -> Label:
    meaning = "usable accelerators of this vendor that are no GPU"
    return Label(name="accelerator_" + name, kind=INT, meaning=meaning, code=code, unit="devices")


def _all_labels() -> dict[str, Label]:
    rows = [
        Label(name=name, kind=kind, meaning=meaning, code=code, unit=unit, form=form_for(name, unit))
        for code, name, kind, unit, meaning in _TABLE
    ]
    rows.extend(_feature(name, code) for code, name in _FEATURES)
    for code, name in _TOOLS:
        rows.extend((_tool(name, code), _tool_version(name, code + 1)))
    rows.extend(_accelerator(name, code) for code, name in _ACCELERATORS)
    return {row.name: row for row in rows}


def _unlabelled(table: Iterable[tuple[str, Kind, str, str]], role: Role) -> Mapping[str, Label]:
    rows = (
        Label(name=name, kind=kind, meaning=meaning, unit=unit, form=form_for(name, unit), role=role)
        for name, kind, unit, meaning in table
    )
    return MappingProxyType({row.name: row for row in rows})


LABELS: Mapping[str, Label] = MappingProxyType(_all_labels())
BY_CODE: Mapping[int, Label] = MappingProxyType({row.code: row for row in LABELS.values() if row.code is not None})
VITALS: Mapping[str, Label] = _unlabelled(_VITALS, Role.VITAL)
ENGINES: Mapping[str, Label] = _unlabelled(_ENGINES, Role.ENGINE)


def lookup(name: str) -> Label | None:
    """What is known about a name: a label, a vital, an engine fact, or a member of an open family (`tool_*`)."""
    known = LABELS.get(name) or VITALS.get(name) or ENGINES.get(name)
    if known is not None:
        return known
    family, _, rest = name.partition("_")
    if family == "tool" and rest:
        program = rest.removesuffix("_version")
        return _tool(rest) if program in (rest, "") else _tool_version(program)
    if family == "accelerator" and rest:
        return _accelerator(rest)
    return _feature(rest.removeprefix("feature_")) if name.startswith("cpu_feature_") else None


def tool_label(program: str) -> str:
    """The label of a program by its command: `llama-server` is `tool_llama_server`."""
    return "tool_" + "".join(letter if letter.isalnum() else "_" for letter in program.lower())


def tool_version_label(program: str) -> str:
    return tool_label(program) + "_version"


def nearest(name: str, among: Iterable[str] | None = None) -> str | None:
    """The most similar of the names (default: all well-known labels), or None when nothing is similar."""
    import difflib

    candidates = sorted(LABELS if among is None else among)
    other = _OTHER_WORDS.get(name.lower().removesuffix("_mb"))
    if other in candidates:
        return other
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if not found and name.lower() != name:
        found = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    return found[0] if found else None

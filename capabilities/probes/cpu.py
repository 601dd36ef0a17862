"""Processors: how many there are, how many may be used, how they are built, and how fast they run."""

from collections.abc import Iterable

from .cgroup import cpu_quota_milli, cpuset, locate
from .cpuinfo import features, model, processors
from .facades import Facades, is_linux
from .findings import Findings
from .reader import NOT_FOR_THIS_DEVICE, Look, Reader, reason
from .system import architecture

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
ONLINE = f"{CPU}/online"

# Frequencies outside this range (MHz) are no processor's: a driver's placeholder or another unit.
SLOWEST_MHZ, FASTEST_MHZ = 50, 20_000


def probe(reader: Reader, facades: Facades) -> Findings:
    """All labels that begin with `cpu_` or `numa_`, but `cpu_guaranteed_milli`."""
    findings = Findings("cpu")
    if not is_linux(facades):
        return _foreign(findings, facades)
    look = Look(reader, findings)
    blocks = processors(look)
    arch = architecture(facades.uname().machine)
    online = look.members(ONLINE) or frozenset()
    source = ONLINE if online else "/proc/cpuinfo"
    if not online:
        online = frozenset(block.number for block in blocks)
    if not online:
        source, online = "sysconf", frozenset(range(facades.cpu_count() or 0))
    findings.label("cpu_count", len(online) or None, source)
    _usable(look, facades, online)
    _topology(look, online, arch)
    _frequency(look, online)
    _numa(look)
    findings.label("cpu_model", model(look, blocks, arch), "/proc/cpuinfo")
    for name in sorted(features(look, blocks, arch)):
        findings.label(f"cpu_feature_{name}", True, "/proc/cpuinfo")
    return findings


def _usable(look: Look, facades: Facades, online: frozenset[int]) -> None:
    """The smallest of affinity, cpuset and quota; affinity and cpuset are sets of CPUs and are cut with each other."""
    groups = locate(look)
    usable, source = online, ONLINE
    try:
        allowed = frozenset(facades.affinity())
    except OSError as error:
        look.findings.warn("sched_getaffinity", reason(error))
        allowed = frozenset[int]()
    by_set, set_path = cpuset(look, groups)
    for cpus, where in ((allowed, "sched_getaffinity"), (by_set, set_path)):
        if cpus and not usable <= cpus:
            # A sandbox may number its CPUs otherwise than /sys does: then the set's own size is what is known.
            usable, source = (usable & cpus) or cpus, where
    milli = len(usable) * 1000
    quota, quota_path = cpu_quota_milli(look, groups)
    if quota is not None and (quota < milli or not milli):
        milli, source = quota, quota_path
    look.findings.label("cpu_usable_milli", milli or None, source)


def _topology(look: Look, online: frozenset[int], arch: str) -> None:
    """Cores, sockets, SMT and hybrid cores of the online CPUs."""
    cores: dict[int, object] = {}
    packages: set[int] = set()
    threads = 0
    for cpu in sorted(online):
        base = f"{CPU}/cpu{cpu}/topology"
        package = look.integer(f"{base}/physical_package_id")
        if package is not None and package >= 0:
            packages.add(package)
        siblings = look.members(f"{base}/core_cpus_list") or look.members(f"{base}/thread_siblings_list")
        core = look.integer(f"{base}/core_id") if siblings is None else None
        if siblings:
            shared = siblings & online
            cores[cpu] = min(shared, default=cpu)
            threads = max(threads, len(shared))
        elif core is not None:
            cores[cpu] = (package, core)
    if not cores:
        _topology_by_cpuinfo(look, online)
    elif len(cores) == len(online):
        count = len(set(cores.values()))
        look.findings.label("cpu_physical", count, f"{CPU}/cpu*/topology")
        look.findings.label("cpu_smt", max(threads, 2 if count < len(online) else 1) > 1, f"{CPU}/cpu*/topology")
    if "cpu_smt" not in look.findings.labels:
        active = look.line(f"{CPU}/smt/active", quiet=NOT_FOR_THIS_DEVICE)
        look.findings.label("cpu_smt", {"0": False, "1": True}.get(active or ""), f"{CPU}/smt/active")
    if packages:
        look.findings.label("cpu_sockets", len(packages), f"{CPU}/cpu*/topology/physical_package_id")
    _hybrid(look, online, cores, arch)


def _topology_by_cpuinfo(look: Look, online: frozenset[int]) -> None:
    """What x86 says in /proc/cpuinfo, for systems without topology files."""
    blocks = [block for block in processors(look) if block.number in online]
    pairs = {(block.fields.get("physical id"), block.fields.get("core id")) for block in blocks}
    if not pairs or any(package is None or core is None for package, core in pairs):
        return
    look.findings.label("cpu_physical", len(pairs), "/proc/cpuinfo")
    look.findings.label("cpu_sockets", len({package for package, _ in pairs}), "/proc/cpuinfo")
    look.findings.label("cpu_smt", len(pairs) < len(blocks), "/proc/cpuinfo")


def _hybrid(look: Look, online: frozenset[int], cores: dict[int, object], arch: str) -> None:
    """Two kinds of cores: by Intel's two PMUs, or by capacities that differ; never by a missing SMT sibling."""
    fast = look.members("/sys/devices/cpu_core/cpus")
    slow = look.members("/sys/devices/cpu_atom/cpus")
    source = "/sys/devices/cpu_core, cpu_atom"
    both = look.exists("/sys/devices/cpu_core") and look.exists("/sys/devices/cpu_atom")
    if not both and not (fast and slow):
        source = f"{CPU}/cpu*/cpu_capacity"
        capacities = {cpu: look.integer(f"{CPU}/cpu{cpu}/cpu_capacity") for cpu in sorted(online)}
        known = {cpu: capacity for cpu, capacity in capacities.items() if capacity is not None and capacity > 0}
        if len(known) < len(online) or not known:
            if arch in ("amd64", "386", "s390x") and online:
                look.findings.label("cpu_hybrid", False, source)
            return
        least = min(known.values())
        slow = frozenset(cpu for cpu, capacity in known.items() if capacity == least)
        fast = frozenset(known) - slow
        both = bool(fast)
    look.findings.label("cpu_hybrid", both, source)
    if both and fast and slow:
        look.findings.label("cpu_performance_cores", _core_count(fast & online, cores), source)
        look.findings.label("cpu_efficiency_cores", _core_count(slow & online, cores), source)


def _core_count(cpus: Iterable[int], cores: dict[int, object]) -> int:
    """How many cores some CPUs are; CPUs whose core is unknown count as one each."""
    return len({cores.get(cpu, ("cpu", cpu)) for cpu in cpus})


def _frequency(look: Look, online: frozenset[int]) -> None:
    """The fastest online CPU's maximum and base. Files of cpufreq are in kHz, those of CPPC in MHz."""
    fastest: dict[str, tuple[int, str]] = {}

    def note(key: str, path: str, divisor: int) -> bool:
        value = look.integer(path, quiet=NOT_FOR_THIS_DEVICE)
        mhz = value // divisor if value is not None else 0
        if not SLOWEST_MHZ <= mhz <= FASTEST_MHZ:
            return False
        if key not in fastest or mhz > fastest[key][0]:
            fastest[key] = mhz, path
        return True

    policies = [name for name in look.listing(f"{CPU}/cpufreq") or () if name.startswith("policy")]
    bases = [f"{CPU}/cpufreq/{policy}" for policy in policies]
    bases.extend(f"{CPU}/cpu{cpu}/cpufreq" for cpu in sorted(online) if not policies)
    for base in bases:
        if not note("cpu_max_mhz", f"{base}/cpuinfo_max_freq", 1000):
            note("cpu_max_mhz", f"{base}/scaling_max_freq", 1000)
        note("cpu_base_mhz", f"{base}/base_frequency", 1000)
    if "cpu_base_mhz" not in fastest:
        for cpu in sorted(online):
            note("cpu_base_mhz", f"{CPU}/cpu{cpu}/acpi_cppc/nominal_freq", 1)
    for key, (mhz, path) in fastest.items():
        look.findings.label(key, mhz, path)


def _numa(look: Look) -> None:
    """All NUMA nodes, and those that have CPUs: memory expanders and HBM are nodes without."""
    nodes = look.members(f"{NODE}/online")
    if not nodes:
        names = look.listing(NODE) or ()
        nodes = frozenset(int(name[4:]) for name in names if name.startswith("node") and name[4:].isdecimal())
    if not nodes:
        return
    look.findings.label("numa_nodes", len(nodes), f"{NODE}/online")
    with_cpus = look.members(f"{NODE}/has_cpu")
    if with_cpus is None:
        lists = {node: look.members(f"{NODE}/node{node}/cpulist") for node in nodes}
        if any(cpus is None for cpus in lists.values()):
            return
        with_cpus = frozenset(node for node, cpus in lists.items() if cpus)
    look.findings.label("numa_cpu_nodes", len(with_cpus & nodes) or None, f"{NODE}/has_cpu")


def _foreign(findings: Findings, facades: Facades) -> Findings:
    count = facades.cpu_count()
    basics = facades.foreign()
    findings.label("cpu_count", count, "psutil")
    findings.label("cpu_usable_milli", count * 1000 if count else None, "psutil")
    findings.label("cpu_physical", basics.get("cpu_physical"), "psutil")
    findings.label("cpu_model", basics.get("cpu_model"), "sysctl")
    return findings

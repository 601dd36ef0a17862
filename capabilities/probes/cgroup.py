"""Control groups: where this process stands in each hierarchy, and what it and all its ancestors limit.

Version 1 has one hierarchy per controller, version 2 one for all, and hybrid systems have both; a container sees its
own group at the mount's root, with or without a cgroup namespace. So each level from the process's own directory up to
the mount's root is read, and the tightest limit counts. `cpu.shares` and `cpu.weight` are weights, never limits.
"""

import re
from collections.abc import Iterator

import attrs

from .facades import Facades
from .findings import Findings
from .mounts import Mount, mounts
from .reader import Look, Reader, integer

# Deeper nesting than any container runtime makes; ends the walk on a junk path.
LEVELS = 64
# Version 1 knows a dozen controllers; each is in one hierarchy.
HIERARCHIES = 64
# The kernel's word for "no limit" is 2^63 rounded down to a page, older ones print 2^64-1; no machine has an exbibyte.
UNLIMITED = 2**60
# cgroup v2's default period, for a cpu.max that holds only the quota.
PERIOD_MICROSECONDS = 100_000
# Weights that nobody set: a group with these has made no request.
DEFAULT_SHARES, DEFAULT_WEIGHT = 1024, 100
# What an orchestrator writes for "no request at all".
LEAST_SHARES = 2
# Where hybrid systems mount version 2.
UNIFIED = "/sys/fs/cgroup/unified"
# Groups that runtimes of containers make. The weight of a service or a session says nothing that anyone asked for.
_OF_CONTAINERS = re.compile(r"kubepods|^/ecs/|/docker[-/]|/libpod[-_]|^/lxc[./]")


@attrs.frozen
class Groups:
    """The directories of this process's groups per controller, its own first, the mount's root last.

    `contained`: a container's runtime may have made them, so that their weights are requests of someone.
    """

    version: int | None
    one: dict[str, tuple[str, ...]]
    two: tuple[str, ...]
    contained: bool

    def of(self, controller: str) -> tuple[int, tuple[str, ...]]:
        """The version that carries a controller, and its directories."""
        if controller in self.one:
            return 1, self.one[controller]
        return 2, self.two


@attrs.frozen
class MemoryLevel:
    """One group with a memory limit, in bytes; `used` does not count file pages that can be dropped at once."""

    path: str
    limit: int
    used: int | None


def probe(reader: Reader, facades: Facades) -> Findings:
    """Label `cgroup_version` and, where a container was given a share of CPU time, `cpu_guaranteed_milli`."""
    findings = Findings("cgroup")
    look = Look(reader, findings)
    groups = locate(look)
    findings.label("cgroup_version", groups.version, "/proc/self/cgroup")
    if groups.contained or facades.environment("KUBERNETES_SERVICE_HOST"):
        milli, source = _guaranteed_milli(look, groups)
        findings.label("cpu_guaranteed_milli", milli, source)
    return findings


def locate(look: Look) -> Groups:
    """Find the groups of this process, by /proc/self/cgroup and the mounts, or by the usual places."""
    found = [mount for mount in mounts(look) if mount.kind in ("cgroup", "cgroup2")]
    one: dict[str, tuple[str, ...]] = {}
    two: tuple[str, ...] = ()
    contained = False
    for line in (look.text("/proc/self/cgroup") or "").splitlines()[:HIERARCHIES]:
        number, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if not separator or not number.isdigit():
            continue
        contained = contained or path == "/" or _OF_CONTAINERS.search(path) is not None
        if controllers == "":
            two = _levels(_mount_of_two(look, found), path)
        for controller in controllers.split(",") if controllers and not controllers.startswith("name=") else ():
            one[controller] = _levels(_mount_of_one(look, found, controller), path)
    if not two and not one:
        two = ("/sys/fs/cgroup",)
    return Groups(version=_version(look, one, two), one=one, two=two, contained=contained)


def cpu_quota_milli(look: Look, groups: Groups) -> tuple[int | None, str]:
    """The tightest CPU quota in thousandths of a CPU (None: unlimited), and the file that sets it."""
    version, levels = groups.of("cpu")
    tightest: int | None = None
    source = ""
    for level in levels:
        path = f"{level}/cpu.max" if version == 2 else f"{level}/cpu.cfs_quota_us"
        quota = _quota_two(look, path) if version == 2 else _quota_one(look, path, f"{level}/cpu.cfs_period_us")
        if quota is not None and (tightest is None or quota < tightest):
            tightest, source = quota, path
    return tightest, source


def cpuset(look: Look, groups: Groups) -> tuple[frozenset[int] | None, str]:
    """The CPUs of the nearest group that names any, and the file that does."""
    version, levels = groups.of("cpuset")
    names = ("cpuset.cpus.effective", "cpuset.cpus") if version == 2 else ("cpuset.effective_cpus", "cpuset.cpus")
    for level in levels:
        for name in names:
            cpus = look.members(f"{level}/{name}")
            if cpus:
                return cpus, f"{level}/{name}"
    return None, ""


def memory_levels(look: Look, groups: Groups) -> Iterator[MemoryLevel]:
    """Every group of this process that limits memory, and what is known of those out of sight."""
    version, levels = groups.of("memory")
    name = "memory.max" if version == 2 else "memory.limit_in_bytes"
    for index, level in enumerate(levels):
        path = f"{level}/{name}"
        line = look.line(path)
        if line is None or line == "max":
            continue
        limit = integer(line)
        if limit is None or limit <= 0:
            if limit != -1:
                look.findings.warn(path, f"no limit of memory: {line[:40]!r}")
            continue
        # A version 1 ancestor without use_hierarchy counts only its own processes.
        flat = version == 1 and index > 0 and look.line(f"{level}/memory.use_hierarchy") == "0"
        if limit < UNLIMITED and not flat:
            yield MemoryLevel(path=path, limit=limit, used=memory_used(look, level, version))
    if version == 1:
        yield from _hidden_level(look, levels)


def _hidden_level(look: Look, levels: tuple[str, ...]) -> Iterator[MemoryLevel]:
    """What version 1 tells of all ancestors together, those outside of a container's view included.

    The nearest group that can be seen tells it. How much others use of such an ancestor's limit is unknown.
    """
    told = ((level, look.text(f"{level}/memory.stat")) for level in levels)
    level, text = next(((level, text) for level, text in told if text is not None), (levels[0], None))
    path = f"{level}/memory.stat"
    limit = _statistic(text, "hierarchical_memory_limit")
    if limit is not None and 0 < limit < UNLIMITED:
        yield MemoryLevel(path=path, limit=limit, used=memory_used(look, level, version=1))


def memory_used(look: Look, level: str, version: int) -> int | None:
    """Bytes in use in a group, less the file pages that the kernel drops first."""
    current = look.integer(f"{level}/memory.current" if version == 2 else f"{level}/memory.usage_in_bytes")
    if current is None or current < 0:
        return None
    key = "inactive_file" if version == 2 else "total_inactive_file"
    return max(0, current - (_statistic(look.text(f"{level}/memory.stat"), key) or 0))


def _statistic(text: str | None, key: str) -> int | None:
    for line in (text or "").splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return integer(value)
    return None


def _guaranteed_milli(look: Look, groups: Groups) -> tuple[int | None, str]:
    """What the orchestrator's CPU request was, as far as the weight that it wrote still tells."""
    version, levels = groups.of("cpu")
    for level in levels:
        path = f"{level}/cpu.weight" if version == 2 else f"{level}/cpu.shares"
        value = look.integer(path)
        if value is None:
            continue
        if value <= 0 or value == (DEFAULT_WEIGHT if version == 2 else DEFAULT_SHARES):
            return None, path
        # The mapping that runtimes use from shares 2..262144 to weights 1..10000, turned round.
        shares = 2 + (value - 1) * 262142 // 9999 if version == 2 else value
        return (shares * 1000 // 1024 if shares > LEAST_SHARES else None), path
    return None, ""


def _quota_two(look: Look, path: str) -> int | None:
    words = (look.line(path) or "").split()
    if not words or words[0] == "max":
        return None
    quota = integer(words[0])
    period = integer(words[1]) if len(words) > 1 else PERIOD_MICROSECONDS
    return _milli(look, path, quota, period)


def _quota_one(look: Look, quota_path: str, period_path: str) -> int | None:
    quota = look.integer(quota_path)
    if quota is None or quota == -1:
        return None
    return _milli(look, quota_path, quota, look.integer(period_path) or PERIOD_MICROSECONDS)


def _milli(look: Look, path: str, quota: int | None, period: int | None) -> int | None:
    if quota is None or period is None or quota <= 0 or period <= 0:
        look.findings.warn(path, "no CPU quota: neither a number nor a word for unlimited")
        return None
    return max(1, quota * 1000 // period)


def _version(look: Look, one: dict[str, tuple[str, ...]], two: tuple[str, ...]) -> int | None:
    """1 while memory or CPU are in a version 1 hierarchy (hybrid included), else 2."""
    if "memory" in one or "cpu" in one:
        return 1
    if look.exists("/sys/fs/cgroup/cgroup.controllers") or (two and look.exists("/proc/self/cgroup")):
        return 2
    return 1 if look.exists("/sys/fs/cgroup/memory") else None


def _mount_of_two(look: Look, found: list[Mount]) -> Mount:
    for mount in found:
        if mount.kind == "cgroup2":
            return mount
    hybrid = look.exists(f"{UNIFIED}/cgroup.controllers") or look.exists(f"{UNIFIED}/cgroup.procs")
    return Mount.plain(UNIFIED if hybrid else "/sys/fs/cgroup")


def _mount_of_one(look: Look, found: list[Mount], controller: str) -> Mount:
    for mount in found:
        if mount.kind == "cgroup" and controller in mount.options:
            return mount
    for name in (controller, "cpu,cpuacct", "cpuacct,cpu"):
        if controller in name and look.exists(f"/sys/fs/cgroup/{name}"):
            return Mount.plain(f"/sys/fs/cgroup/{name}")
    return Mount.plain(f"/sys/fs/cgroup/{controller}")


def _levels(mount: Mount, path: str) -> tuple[str, ...]:
    """The directories from a group up to its mount's root.

    `path` is as /proc/self/cgroup says; the mount shows only what lies under `mount.root`. A path outside of it (moved
    after the namespace was made: `/../x`) has only the root in common with what can be seen.
    """
    root = mount.root.rstrip("/")
    if ".." in path.split("/") or not (path + "/").startswith(root + "/"):
        return (mount.point,)
    parts = [part for part in path[len(root) :].split("/") if part][:LEVELS]
    return tuple("/".join((mount.point, *parts[:depth])) for depth in range(len(parts), -1, -1))

"""Memory: the machine's total, the effective limit of all ancestor groups, what is available, swap, huge pages."""

from .cgroup import locate, memory_levels
from .facades import Facades, is_linux
from .findings import Findings
from .reader import Look, Reader, integer

MIB = 1024 * 1024
KIB_PER_MIB = 1024
# Sizes of huge pages that have a label, by their directory under /sys/kernel/mm/hugepages.
HUGE_PAGES = {"hugepages_2m": "hugepages-2048kB", "hugepages_1g": "hugepages-1048576kB"}

MEMINFO = "/proc/meminfo"


def probe(reader: Reader, facades: Facades) -> Findings:
    """Labels `ram_*`, `swap_mb`, `hugepages_*` and vital `ram_available_mb`, in MiB (huge pages: a number of pages)."""
    findings = Findings("memory")
    if not is_linux(facades):
        return _foreign(findings, facades)
    look = Look(reader, findings)
    sizes = meminfo(look)
    total = total_kib(look, sizes)
    available = available_kib(sizes, total)
    limit_bytes: int | None = None
    free_bytes: int | None = None
    limit_source = free_source = MEMINFO
    for level in memory_levels(look, locate(look)):
        if limit_bytes is None or level.limit < limit_bytes:
            limit_bytes, limit_source = level.limit, level.path
        if level.used is not None:
            free = max(0, level.limit - level.used)
            if free_bytes is None or free < free_bytes:
                free_bytes, free_source = free, level.path
    if total is not None:
        findings.label("ram_mb", total // KIB_PER_MIB, MEMINFO)
    _limit(findings, total, limit_bytes, limit_source)
    if available is not None:
        left = smaller(available * 1024, smaller(limit_bytes, free_bytes))
        source = MEMINFO if left == available * 1024 else free_source if left == free_bytes else limit_source
        findings.vital("ram_available_mb", (left or 0) // MIB, source)
    swap = sizes.get("SwapTotal")
    if swap is not None:
        findings.label("swap_mb", swap // KIB_PER_MIB, MEMINFO)
    _huge_pages(look)
    return findings


def meminfo(look: Look) -> dict[str, int]:
    """The sizes of /proc/meminfo in KiB by name. Lines of other forms are passed over, absurd numbers left out.

    Names may hold anything up to the colon, and some lines carry values glued to their names (CAPABILITIES.md rule 3).
    """
    text = look.text(MEMINFO)
    if text is None:
        look.findings.warn(MEMINFO, "cannot be read: the memory of the machine is unknown")
        return {}
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        name, separator, rest = line.partition(":")
        words = rest.split()
        if not separator or not words:
            continue
        value = integer(words[0])
        # Above 2^53 KiB it is a negative number printed as an unsigned one.
        if value is not None and 0 <= value < 2**53:
            sizes.setdefault(name.strip(), value)
    return sizes


def total_kib(look: Look, sizes: dict[str, int]) -> int | None:
    total = sizes.get("MemTotal")
    if total:
        return total
    if sizes or look.exists(MEMINFO):
        look.findings.warn(MEMINFO, "MemTotal is 0" if total == 0 else "no MemTotal that can be read")
    return None


def available_kib(sizes: dict[str, int], total: int | None) -> int | None:
    """MemAvailable, or an estimate where the kernel or a container layer says 0 or nothing. None when unknowable."""
    if total is None:
        return None
    available = sizes.get("MemAvailable")
    if available and available <= total:
        return available
    free = sizes.get("MemFree")
    if free is None or free > total:
        return None
    pages = sizes.get("Active(file)", 0) + sizes.get("Inactive(file)", 0)
    # Half of the reclaimable slab: the kernel counts no more of it before it has tried.
    return min(total, free + pages + sizes.get("SReclaimable", 0) // 2)


def smaller(left: int | None, right: int | None) -> int | None:
    """The smaller of two limits, either of which may be unknown."""
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _limit(findings: Findings, total: int | None, limit_bytes: int | None, source: str) -> None:
    """The effective limit: the machine's memory, or less."""
    limited = limit_bytes is not None and (total is None or limit_bytes < total * 1024)
    if limited and limit_bytes is not None:
        findings.label("ram_limit_mb", limit_bytes // MIB, source)
    elif total is not None:
        findings.label("ram_limit_mb", total // KIB_PER_MIB, MEMINFO)
    if limited or total is not None:
        findings.label("ram_limited", limited, source)


def _huge_pages(look: Look) -> None:
    """From the machine's own directory: a memory-less NUMA node has none of its own."""
    for key, directory in HUGE_PAGES.items():
        path = f"/sys/kernel/mm/hugepages/{directory}/nr_hugepages"
        count = look.integer(path)
        if count is not None and count >= 0:
            look.findings.label(key, count, path)


def _foreign(findings: Findings, facades: Facades) -> Findings:
    basics = facades.foreign()
    for key in ("ram_mb", "swap_mb"):
        findings.label(key, basics.get(key), "psutil")
    findings.label("ram_limit_mb", basics.get("ram_mb"), "psutil")
    if "ram_mb" in basics:
        findings.label("ram_limited", False, "psutil")
    findings.vital("ram_available_mb", basics.get("ram_available_mb"), "psutil")
    return findings

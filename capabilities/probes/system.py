"""The system: architecture, operating system, host name, kernel, distribution."""

import re
import shlex

from .facades import Facades, is_linux
from .findings import Findings
from .reader import Look, Reader

# One name per architecture, whatever the system calls it; others keep the system's own name.
ARCHITECTURES = {
    "x86_64": "amd64", "x64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "aarch64_be": "arm64be",
    "i386": "386", "i486": "386", "i586": "386", "i686": "386", "i86pc": "386", "x86": "386", "armv5tel": "arm",
    "armv6l": "arm", "armv7l": "arm", "armv7": "arm", "armv8l": "arm", "arm": "arm", "ppc64le": "ppc64le",
    "ppc64": "ppc64", "ppc": "ppc", "powerpc64le": "ppc64le", "powerpc64": "ppc64", "riscv64": "riscv64",
    "riscv32": "riscv32", "s390x": "s390x", "loongarch64": "loong64", "loong64": "loong64", "mips64": "mips64",
    "mips64el": "mips64le", "mips": "mips", "mipsel": "mipsle", "sparc64": "sparc64",
}  # fmt: skip

SYSTEMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "windows", "FreeBSD": "freebsd"}

# Quoting is parsed letter by letter; files of this kind have about a kilobyte.
FIELDS_CHARACTERS = 32 * 1024

OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")

_RELEASE = re.compile(r"v?([0-9]{1,6})(?:\.([0-9]{1,6}))?", re.ASCII)


def probe(reader: Reader, facades: Facades) -> Findings:
    """Labels `arch` and `os` (always), `hostname`, `kernel*`, `distro*`."""
    findings = Findings("system")
    look = Look(reader, findings)
    uname = facades.uname()
    findings.label("arch", architecture(uname.machine), "uname")
    findings.label("os", SYSTEMS.get(uname.sysname, uname.sysname.lower() or "linux"), "uname")
    if is_linux(facades):
        _named(look, "hostname", "/proc/sys/kernel/hostname", uname.nodename)
        _named(look, "kernel", "/proc/sys/kernel/osrelease", uname.release)
        _distribution(look)
    else:
        findings.label("hostname", uname.nodename, "uname")
        findings.label("kernel", uname.release, "uname")
        findings.label("distro_version", facades.foreign().get("distro_version"), "sysctl")
    _kernel_numbers(findings)
    return findings


def architecture(machine: str) -> str:
    """The one name of an architecture; an unheard-of one keeps its own, an unreadable one is `unknown`."""
    known = ARCHITECTURES.get(machine) or ARCHITECTURES.get(machine.lower())
    if known is not None:
        return known
    plain = machine.strip().lower()
    return plain if re.fullmatch(r"[a-z0-9_.\-]{1,64}", plain) else "unknown"


def _named(look: Look, key: str, path: str, otherwise: str) -> None:
    line = look.line(path)
    look.findings.label(key, line or otherwise, path if line else "uname")


def _kernel_numbers(findings: Findings) -> None:
    """The leading numbers of the release; what follows them has no common form (`5.15.153.1-microsoft-standard`)."""
    match = _RELEASE.match(str(findings.labels.get("kernel", "")))
    if match is not None:
        findings.label("kernel_major", int(match[1]), findings.sources["kernel"])
        if match[2] is not None:
            findings.label("kernel_minor", int(match[2]), findings.sources["kernel"])


def _distribution(look: Look) -> None:
    for path in OS_RELEASE:
        text = look.text(path)
        if text is None:
            continue
        fields = shell_fields(text)
        look.findings.label("distro", fields.get("ID", "").lower(), path)
        look.findings.label("distro_version", fields.get("VERSION_ID"), path)
        return


def shell_fields(text: str) -> dict[str, str]:
    """`NAME=value` lines with shell quoting; comments, blank and broken lines are passed over."""
    fields: dict[str, str] = {}
    for line in text[:FIELDS_CHARACTERS].splitlines():
        name, separator, value = line.strip().partition("=")
        if not separator or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            continue
        try:
            fields[name] = "".join(shlex.split(value))
        except ValueError:
            continue
    return fields

"""Programs that tasks ask for: which are there, and the versions of those that are asked for by version.

Presence is a file in a directory of programs. A version comes from a socket or a file where there is one; running the
program is the last way: an argv list, no input, a deadline, and only when nobody but root and this user can change it.
"""

import errno
import os
import posixpath
import re
from collections.abc import Callable
from typing import cast

import attrs

from ..labels import tool_label, tool_version_label
from .deadline import Outcome, Work, run_all
from .engines import field, ollama_version
from .facades import Facades
from .findings import Findings
from .programs import PROGRAM_SECONDS
from .reader import Look, Reader

# Where programs are, whatever the PATH of a service is.
DIRECTORIES = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/snap/bin", "/usr/local/go/bin",
    "/usr/lib/go/bin", "/opt/homebrew/bin", "/usr/local/cuda/bin", "/opt/rocm/bin", "/opt/conda/bin",
)  # fmt: skip
PATH_ENTRIES = 64

# Programs by the word of their label; the others are called by it. Only presence is told of them.
PRESENT = {
    "containerd": ("containerd",), "gcc": ("gcc",), "clang": ("clang",), "cmake": ("cmake",), "make": ("make",),
    "node": ("node", "nodejs"), "npm": ("npm",), "cargo": ("cargo",), "rustc": ("rustc",), "java": ("java",),
    "ffmpeg": ("ffmpeg",), "kubectl": ("kubectl",), "nerdctl": ("nerdctl",), "apptainer": ("apptainer",),
    "singularity": ("singularity",), "nvcc": ("nvcc",), "nvidia-smi": ("nvidia-smi",), "rocm-smi": ("rocm-smi",),
    "uv": ("uv",), "conda": ("conda",), "bazel": ("bazel",), "curl": ("curl",), "rsync": ("rsync",), "tmux": ("tmux",),
    "ssh": ("ssh",), "bash": ("bash",), "perl": ("perl",), "ruby": ("ruby",), "php": ("php",), "dotnet": ("dotnet",),
    "terraform": ("terraform",), "ansible": ("ansible",),
    "qemu": ("qemu-system-x86_64", "qemu-system-aarch64", "qemu-kvm"),
    "llama-cli": ("llama-cli",), "vllm": ("vllm",), "systemctl": ("systemctl",), "tar": ("tar",), "zig": ("zig",),
    "psql": ("psql",), "redis-server": ("redis-server",), "helm": ("helm",),
}  # fmt: skip

# A dotted version after the word, or after the program's own name at the beginning of a line.
_DOTTED = r"v?([0-9]+(?:\.[0-9]+)+[0-9A-Za-z.+~-]*)"


@attrs.frozen
class Tool:
    """A program whose version is told: its commands, the argument that makes it say so, and what it says then."""

    name: str
    commands: tuple[str, ...]
    argument: str
    says: re.Pattern[str]


TOOLS = (
    Tool("docker", ("docker",), "--version", re.compile(r"Docker version " + _DOTTED)),
    Tool("podman", ("podman",), "--version", re.compile(r"podman version " + _DOTTED)),
    Tool("git", ("git",), "--version", re.compile(r"git version " + _DOTTED)),
    Tool("go", ("go",), "version", re.compile(r"go version go" + _DOTTED)),
    Tool("python", ("python3", "python"), "--version", re.compile(r"Python " + _DOTTED)),
    # A client without its server prints warnings first, and its version in one of them.
    Tool("ollama", ("ollama",), "--version", re.compile(r"version is " + _DOTTED)),
    Tool("llama-server", ("llama-server",), "--version", re.compile(r"version: (?:b|v)?([0-9]+(?:\.[0-9]+)*)")),
)
# Versions that a build prints when nobody told it any.
NO_VERSIONS = frozenset({"0.0.0", "0.0", "0", ""})

DOCKER_SOCKET = "/var/run/docker.sock"


def probe(reader: Reader, facades: Facades) -> Findings:
    """Labels `tool_<name>`, and `tool_<name>_version` of some."""
    findings = Findings("tools")
    look = Look(reader, findings)
    directories = _directories(facades)
    for name, commands in PRESENT.items():
        path = _found(look, directories, commands)
        if path is not None:
            findings.label(tool_label(name), True, path)
    asked: dict[str, Work[tuple[str, str] | None]] = {}
    for tool in TOOLS:
        path = _found(look, directories, tool.commands)
        if path is not None:
            findings.label(tool_label(tool.name), True, path)
        if path is not None or tool.name in BY_SOCKET:
            asked[f"version of {tool.name}"] = Work(_asker(look, facades, tool, path), PROGRAM_SECONDS + 1)
    for tool_name, outcome in run_all(asked).items():
        _note(findings, tool_name.removeprefix("version of "), outcome)
    return findings


def _note(findings: Findings, name: str, outcome: Outcome[tuple[str, str] | None]) -> None:
    if outcome.problem is not None:
        findings.warn(f"version of {name}", outcome.problem)
    if outcome.answer is None:
        return
    version, source = outcome.answer
    # A server that answers is there, whether or not its program can be seen from here.
    if source.startswith("GET "):
        findings.label(tool_label(name), True, source)
    if version not in NO_VERSIONS:
        findings.label(tool_version_label(name), version, source)


def version_in(output: str, says: re.Pattern[str]) -> str | None:
    """The version in what a program printed, whichever line it is on."""
    match = says.search(output)
    version = match[1].rstrip(".-+~") if match is not None else None
    return None if version in NO_VERSIONS else version


def _asker(look: Look, facades: Facades, tool: Tool, path: str | None) -> Callable[[], tuple[str, str] | None]:
    return lambda: _version(look, facades, tool, path)


def _version(look: Look, facades: Facades, tool: Tool, path: str | None) -> tuple[str, str] | None:
    """The version of a tool and where it was said. Runs in its own thread; raises OSError of a program that fails."""
    by_socket = BY_SOCKET.get(tool.name)
    told = by_socket(look, facades) if by_socket is not None else None
    if told is not None and (path is None or told[0] not in NO_VERSIONS):
        return told
    if path is None:
        return None
    if tool.name == "go":
        told = _go_version(look, path)
        if told is not None:
            return told
    if not _is_trusted(facades, path):
        return None
    try:
        answer = facades.run((path, tool.argument))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
            return None
        raise
    version = version_in(f"{answer.output}\n{answer.errors}", tool.says)
    return (version, f"{path} {tool.argument}") if version is not None else None


def _docker_version(look: Look, facades: Facades) -> tuple[str, str] | None:
    """The server's version, when this user may ask it."""
    if not look.exists(DOCKER_SOCKET):
        return None
    try:
        answer = facades.http(f"unix:{DOCKER_SOCKET}:/version")
    except OSError:
        return None
    version = field(answer.json, "Version") if answer.status == 200 else None
    parts = field(answer.json, "Components")
    # Podman serves the same socket where it stands in for docker.
    if isinstance(parts, list) and "Podman Engine" in [field(part, "Name") for part in cast("list[object]", parts)]:
        return None
    return (version, f"GET {DOCKER_SOCKET}/version") if isinstance(version, str) else None


BY_SOCKET: dict[str, Callable[[Look, Facades], tuple[str, str] | None]] = {
    "docker": _docker_version,
    "ollama": ollama_version,
}


def _go_version(look: Look, path: str) -> tuple[str, str] | None:
    """The file beside the toolchain, which its distributions all have."""
    target = look.link(path)
    real = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
    file = posixpath.join(posixpath.dirname(posixpath.dirname(real)), "VERSION")
    match = re.match(r"go" + _DOTTED, look.text(file) or "")
    return (match[1], file) if match is not None else None


def _directories(facades: Facades) -> tuple[str, ...]:
    listed = (facades.environment("PATH") or "").split(":")[:PATH_ENTRIES]
    return tuple(dict.fromkeys((*(entry.rstrip("/") for entry in listed if entry.startswith("/")), *DIRECTORIES)))


def _found(look: Look, directories: tuple[str, ...], commands: tuple[str, ...]) -> str | None:
    for command in commands:
        for directory in directories:
            if look.exists(f"{directory}/{command}"):
                return f"{directory}/{command}"
    return None


def _is_trusted(facades: Facades, path: str) -> bool:
    """Whether only root and this user can change the program."""
    try:
        status = facades.status(path)
    except OSError:
        return False
    mine = status.uid in (0, getattr(os, "geteuid", lambda: 0)())
    return mine and not status.mode & 0o022

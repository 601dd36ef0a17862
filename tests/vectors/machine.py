"""A machine made of a case's `input`: a reader and facades that answer as shared/vectors/README.md says.

Loaded by path (tests import nothing from each other): see `load` in the modules that use it.
"""

import builtins
import errno
import json
import os
import posixpath
import re
from collections.abc import Mapping

from shoal.capabilities.probes.facades import DiskUsage, Facades, FileStatus, Uname
from shoal.capabilities.probes.http import HttpAnswer
from shoal.capabilities.probes.nvml import NvmlFault
from shoal.capabilities.probes.programs import ProgramAnswer
from shoal.capabilities.probes.reader import members

FUNCTION_NOT_FOUND, NOT_SUPPORTED, LIBRARY_NOT_FOUND = 13, 3, 12
ONLINE = "/sys/devices/system/cpu/online"
NOW = 1_760_000_000.0


def failure(name, path=""):
    number = name if isinstance(name, int) else getattr(errno, name)
    return OSError(number, os.strerror(number), path)


class PretendReader:
    """The listed paths as a small file system: links resolved, parents of listed paths there, all else absent."""

    def __init__(self, given):
        self._links = {}
        self._entries = {}
        self._children = {}
        paths = [path for path in given if path.startswith("/")]
        for path in sorted(paths, key=lambda path: path.count("/")):
            value = given[path]
            if isinstance(value, Mapping) and "symlink" in value:
                real = self._real(path, last=False)
                self._links[real] = value["symlink"]
                self._note(real)
        for path in paths:
            value = given[path]
            if value is None or (isinstance(value, Mapping) and "symlink" in value):
                continue
            real = self._real(path)
            self._entries[real] = contents(value)
            self._note(real)
            if isinstance(value, Mapping) and "dir" in value:
                self._children.setdefault(real, set()).update(value["dir"])

    def _note(self, path):
        while path != "/":
            parent, _, name = path.rpartition("/")
            path = parent or "/"
            self._children.setdefault(path, set()).add(name)

    def _real(self, path, *, last=True):
        if not self._links:
            return posixpath.normpath(path) if "/." in path or "//" in path else path
        for _ in range(40):
            parts = path.split("/")
            ends = range(2, len(parts) + 1 if last else len(parts))
            prefixes = ["/".join(parts[:end]) for end in ends]
            link = next((prefix for prefix in prefixes if prefix in self._links), None)
            if link is None:
                return posixpath.normpath(path)
            target = posixpath.join(posixpath.dirname(link), self._links[link])
            path = posixpath.normpath(target) + path[len(link) :]
        raise failure("ELOOP", path)

    def _entry(self, path):
        real = self._real(path)
        value = self._entries.get(real)
        if isinstance(value, Mapping) and "errno" in value:
            raise failure(value["errno"], path)
        return real, value

    def read_text(self, path):
        real, value = self._entry(path)
        if isinstance(value, str):
            return value
        raise failure("EISDIR" if real in self._children else "ENOENT", path)

    def listdir(self, path):
        real, value = self._entry(path)
        if real in self._children:
            return sorted(self._children[real])
        raise failure("ENOTDIR" if isinstance(value, str) else "ENOENT", path)

    def readlink(self, path):
        real = self._real(path, last=False)
        if real in self._links:
            return self._links[real]
        raise failure("EINVAL" if self.exists(path) else "ENOENT", path)

    def exists(self, path):
        try:
            real = self._real(path)
        except OSError:
            return False
        if real in self._entries:
            value = self._entries[real]
            return not (isinstance(value, Mapping) and value.get("errno") in ("ENOENT", "ENOTDIR"))
        parent, _, name = real.rpartition("/")
        return real in self._children or name in self._children.get(parent or "/", ())


class PretendNvml:
    """NVML as listed: plain results, error codes, exceptions of the binding, bytes."""

    def __init__(self, given):
        self._calls = {key.removeprefix("nvml:"): value for key, value in given.items() if key.startswith("nvml:")}
        module = given.get("import:pynvml", {})
        self._missing = set(module.get("missing", ())) if isinstance(module, Mapping) else set()
        self._absent = module is None or (isinstance(module, Mapping) and "error" in module)

    def call(self, name, *arguments, version=None):
        if self._absent:
            raise NvmlFault(LIBRARY_NOT_FOUND)
        if name in self._missing or version in self._missing:
            raise NvmlFault(FUNCTION_NOT_FOUND)
        words = [str(argument) for argument in arguments] + ([f"version={version}"] if version is not None else [])
        key = f"{name}({','.join(words)})" if words else name
        if key in self._calls:
            return self._result(self._calls[key])
        if name == "nvmlInit":
            if not self._calls:
                raise NvmlFault(LIBRARY_NOT_FOUND)
            return None
        if name == "nvmlShutdown":
            return None
        if name == "nvmlDeviceGetHandleByIndex":
            return arguments[0]
        raise NvmlFault(NOT_SUPPORTED)

    @staticmethod
    def _result(value):
        if isinstance(value, Mapping):
            if "nvml_error" in value:
                raise NvmlFault(value["nvml_error"])
            if "raises" in value:
                kind = getattr(builtins, value["raises"])
                raise kind("utf-8", b"\xf8", 0, 1, "invalid start byte") if kind is UnicodeDecodeError else kind("x")
            if "bytes_hex" in value:
                return bytes.fromhex(value["bytes_hex"])
        return value


def machine_of(given):
    """The machine's name as uname says it, by the dialect of cpuinfo."""
    cpuinfo = given.get("/proc/cpuinfo")
    text = cpuinfo if isinstance(cpuinfo, str) else ""
    for sign, machine in (
        ("CPU implementer", "aarch64"), ("IBM/S390", "s390x"), ("hart", "riscv64"), ("\nisa\t", "riscv64"),
        ("POWER", "ppc64le"), ("Loongson", "loongarch64"),
    ):  # fmt: skip
        if sign in text:
            return machine
    return "x86_64"


def online_of(given):
    online = given.get(ONLINE)
    found = members(online) if isinstance(online, str) else None
    if found:
        return found
    cpuinfo = given.get("/proc/cpuinfo")
    numbers = re.findall(r"^processor\s*:?\s*([0-9]+)", cpuinfo if isinstance(cpuinfo, str) else "", re.MULTILINE)
    return frozenset(map(int, numbers)) or frozenset({0})


def contents(value):
    """What a path is listed with; bytes are read as the system's reader reads them."""
    if isinstance(value, Mapping) and "bytes_hex" in value:
        return bytes.fromhex(value["bytes_hex"]).decode("utf-8", "replace")
    return value


def called(given, *names):
    """The listed result of the first of the calls that is listed; raises what it says, LookupError when none is."""
    for name in names:
        key = f"call:{name}"
        if key in given:
            value = given[key]
            if isinstance(value, Mapping) and "errno" in value:
                raise failure(value["errno"])
            if isinstance(value, Mapping) and "raises" in value:
                raise getattr(builtins, value["raises"])(key)
            return value
    raise LookupError(names)


class Pretend:
    """The reader and the facades of one case."""

    def __init__(self, given):
        self.given = dict(given)
        for key in given:
            if key.startswith("cmd:") and not key.startswith("cmd:nvidia-smi --query"):
                program = key[4:].split()[0]
                self.given.setdefault(program if program.startswith("/") else f"/usr/bin/{program}", "")
        self.reader = PretendReader(self.given)
        self.facades = Facades(
            uname=self._uname,
            affinity=self._affinity,
            cpu_count=self._cpu_count,
            environment=lambda name: self.given.get(f"env:{name}"),
            nvml=PretendNvml(self.given),
            http=self._http,
            run=self._run,
            status=self._status,
            disk_usage=self._disk_usage,
            open_for_write=self._open_for_write,
            wall_clock=self._wall_clock,
            foreign=lambda: self.given.get("call:psutil", {}),
        )

    def _uname(self):
        try:
            found = called(self.given, "os.uname", "platform.uname", "uname")
        except LookupError:
            found = self.given.get("uname", self.given.get("cmd:uname -m", {}))
        if isinstance(found, str):
            found = {"machine": found.strip()}
        if isinstance(found, list):
            found = dict(zip(("sysname", "nodename", "release", "version", "machine"), found, strict=False))
        machine = self.given.get("call:platform.machine") or found.get("machine") or machine_of(self.given)
        return Uname(found.get("sysname", "Linux"), found.get("nodename", ""), found.get("release", ""), machine)

    def _affinity(self):
        try:
            return called(self.given, "os.sched_getaffinity", "os.sched_getaffinity(0)")
        except LookupError:
            return online_of(self.given)

    def _cpu_count(self):
        try:
            return called(self.given, "os.cpu_count", "os.sysconf(SC_NPROCESSORS_ONLN)")
        except LookupError:
            return len(online_of(self.given))

    def _http(self, url):
        answer = self.given.get(f"http:GET {url}", self.given.get(f"http:{url}", {"error": "ECONNREFUSED"}))
        if "error" in answer:
            raise failure(answer["error"] if hasattr(errno, answer["error"]) else "ETIMEDOUT")
        body = answer.get("json")
        if body is None and "body" in answer:
            try:
                body = json.loads(answer["body"])
            except ValueError:
                body = None
        return HttpAnswer(status=answer["status"], json=body)

    def _run(self, argv, **limits):
        name = argv[0].rpartition("/")[2]
        lines = (" ".join([program, *argv[1:]]) for program in (name, argv[0]))
        answer = next((self.given[f"cmd:{line}"] for line in lines if f"cmd:{line}" in self.given), {"errno": "ENOENT"})
        if isinstance(answer, str):
            return ProgramAnswer(code=0, output=answer)
        if "errno" in answer or "error" in answer:
            raise failure(answer.get("errno") or answer["error"])
        if answer.get("timeout"):
            raise TimeoutError("did not end in time")
        output = answer.get("output", answer.get("stdout", ""))
        return ProgramAnswer(code=answer.get("code", 0), output=output, errors=answer.get("stderr", ""))

    def _status(self, path):
        try:
            found = called(self.given, f"os.stat({path})", f"os.lstat({path})")
        except LookupError:
            if not self.reader.exists(path):
                raise failure("ENOENT", path) from None
            found = {}
        value = self.given.get(path)
        size = len(value.encode()) if isinstance(value, str) else 0
        return FileStatus(
            uid=found.get("uid", 0),
            gid=found.get("gid", 0),
            mode=found.get("mode", 0o100644 if isinstance(value, str) else 0o040755),
            size=found.get("size", size),
            modified=found.get("mtime", NOW),
        )

    def _disk_usage(self, path):
        try:
            found = called(self.given, f"shutil.disk_usage({path})", f"os.statvfs({path})")
        except LookupError:
            raise failure("ENOENT", path) from None
        if isinstance(found, list):
            found = {"total": found[0], "free": found[-1]}
        if "f_blocks" in found:
            block = found.get("f_frsize", 4096)
            found = {"total": found["f_blocks"] * block, "free": found.get("f_bavail", 0) * block}
        return DiskUsage(total=found["total"], free=found["free"])

    def _open_for_write(self, path):
        allowed = next((self.given[key] for key in self.given if key.startswith(f"call:os.access({path}")), None)
        if allowed is False:
            raise failure("EACCES", path)
        value = self.given.get(path)
        if isinstance(value, Mapping) and "errno" in value:
            raise failure(value["errno"], path)
        if not self.reader.exists(path):
            raise failure("ENOENT", path)

    def _wall_clock(self):
        return self.given.get("call:time.time", NOW)

"""Whatever files, NVML, servers and programs answer: `detect` returns in time, raises nothing, and warns."""

import errno
import importlib.util
import json
import os
import random
import time
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal.capabilities import NodeCapabilities
from shoal.capabilities.probes.facades import DiskUsage, FileStatus, Uname
from shoal.capabilities.probes.http import HttpAnswer
from shoal.capabilities.probes.nvml import NvmlFault
from shoal.capabilities.probes.programs import ProgramAnswer
from shoal.capabilities.survey import detect, sample_vitals

VECTORS = Path(__file__).parents[1] / "vectors"
CASES = json.loads((VECTORS / "data" / "detection.json").read_text())
SECONDS = 5.0


def load(name):
    spec = importlib.util.spec_from_file_location(name, VECTORS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Pretend = load("machine").Pretend

# Names that real directories hold, so that junk reaches the files below them.
NAMES = [
    "cpu0",
    "cpu1",
    "cpufreq",
    "policy0",
    "node0",
    "node1",
    "hugepages-2048kB",
    "eth0",
    "lo",
    "bond0",
    "bonding_masters",
    "mlx5_0",
    "1",
    "2",
    "sda",
    "sda1",
    "sr0",
    "dm-0",
    "md0",
    "nvme0n1",
    "nvme0n1p1",
    "mmcblk0",
    "loop0",
    "card0",
    "accel0",
    "0000:01:00.0",
    "0000:00:02.0",
    "thermal_zone0",
    "hwmon0",
    "temp1_input",
    "BAT0",
    "ACAD",
    "tpm0",
    "0",
    "4242",
    "10-a.toml",
    "20-b",
    "x\ny",
    "\udcff",
    "..",
    "a/b",
    "\0",
]
TEXTS = [
    "",
    "\n",
    "0",
    "1\n",
    "-1\n",
    "18446744073709551615\n",
    "9" * 400,
    "max 100000\n",
    "max",
    "150000 0\n",
    "0-3\n",
    "0-3,",
    "3-0",
    "0-999999999999\n",
    "4: ACTIVE\n",
    "200 Gb/sec (4X HDR)\n",
    "InfiniBand\n",
    "up\n",
    "Battery\n",
    "Mains\n",
    "Device\n",
    "0x030000\n",
    "0x10de\n",
    "0x1002\n",
    "0x8086\n",
    "0x1ae0\n",
    "0x120000\n",
    "0xzz",
    "MemTotal: 0 kB\n",
    "MemTotal: 16384000 kB\nMemAvailable: 99999999999 kB\nMemFree: -5 kB\n",
    "some avg10=1.00 avg60",
    "some avg10=999.99 x",
    "0::/\n",
    "0::/../..\n",
    "4:memory:/a:b\n1:cpu,cpuset:/x\n",
    "::::\n",
    "processor : 0\nflags : fpu avx\nmodel name :\n",
    "processor\t: 99999999999999999999\nCPU implementer\t: 0x41\nCPU part : 0xd0c\n",
    "processor 0: version\n",
    "ID='x\n",
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
    "1 2 0:0 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "22 1 - \n",
    " - - - \n",
    "llama-server\0--port\0999999\0-m\0" + "x" * 5000,
    "ollama\n",
    "llama-server\n",
    "container=\0container=\x01\0",
    "a = 1\nb = [",
    "k=v\n=\n# +expiry-time=9999-99-99\nx" + "y" * 500 + "=1\n",
    "\x00" * 100,
    "\ufffd\ud800\x1b[31m",
    "x" * 300,
    "simd_count 4\nvendor_id 4098\nlocation_id 4294967295\ndomain 99999999999999999999\n",
    "ID=" + "'\"" * 1000,
]
ERRORS = ["ENOENT", "EACCES", "EINVAL", "EIO", "ENODATA", "EOPNOTSUPP", "ENOTDIR", "EISDIR", "ELOOP", "EFBIG"]
JUNK = [
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    "",
    "x",
    "\ud800",
    b"",
    b"\xff",
    b"GPU\0\0",
    [],
    [None],
    [1, 1],
    [1, "x"],
    [8, 9],
    [9] * 9,
    {},
    {"total": -1},
    {"total": 2**80, "free": 1},
    {"total": 5, "free": "x"},
    {"busId": b"\xff:"},
    {"busId": "../../etc"},
    object(),
]


MACHINES = ["x86_64", "aarch64", "riscv64", "s390x", "ppc64le", "", "\x00", "x" * 500]


class JunkReader:
    """Every path exists and answers junk, always the same for a seed; huge files now and then."""

    def __init__(self, seed, error_share=0.2):
        self._seed = seed
        self._error_share = error_share

    def _chance(self, path):
        chance = random.Random(f"{self._seed}:{path}")
        if chance.random() < self._error_share:
            raise OSError(getattr(errno, chance.choice(ERRORS)), "fuzz", path)
        return chance

    def read_text(self, path):
        chance = self._chance(path)
        text = "".join(chance.choice(TEXTS) for _ in range(chance.choice((1, 1, 1, 3))))
        return text[: chance.randrange(len(text) + 1)] if chance.random() < 0.2 else text

    def listdir(self, path):
        chance = self._chance("list " + path)
        return chance.sample(NAMES, chance.randrange(12))

    def readlink(self, path):
        chance = self._chance("link " + path)
        return chance.choice(
            ("", "/", "x", "../drivers/amdgpu", "../drivers/vfio-pci", "../../block/sda/sda1", "a\0b", "../" * 50)
        )

    def exists(self, path):
        return random.Random(f"{self._seed}?{path}").random() < 0.5


class JunkNvml:
    def __init__(self, seed):
        self._seed = seed

    def call(self, name, *arguments, version=None):
        chance = random.Random(f"{self._seed}:{name}:{arguments!r:.60}:{version}")
        odds = chance.random()
        if odds < 0.2:
            raise NvmlFault(chance.choice((3, 4, 6, 9, 12, 13, 15, 18, 28, 999, -5)))
        if odds < 0.3:
            raise chance.choice((KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError))("fuzz")
        if name == "nvmlDeviceGetCount" and odds < 0.9:
            return chance.randrange(9)
        return chance.choice(JUNK)


def junk_facades(seed):
    chance = random.Random(seed)

    def http(url):
        odds = random.Random(f"{seed}:{url}")
        if odds.random() < 0.3:
            raise OSError(errno.ECONNREFUSED, "fuzz")
        models = {"models": [odds.choice([*JUNK, {"name": odds.choice(JUNK), "size_vram": odds.choice(JUNK)}])]}
        return HttpAnswer(
            status=odds.choice((200, 200, 500)), json=odds.choice([*JUNK, {"version": odds.choice(JUNK)}, models])
        )

    def run(argv, **limits):
        odds = random.Random(f"{seed}:{argv}")
        if odds.random() < 0.3:
            raise odds.choice((TimeoutError("fuzz"), OSError(errno.ENOEXEC, "fuzz"), OSError("fuzz")))
        return ProgramAnswer(code=odds.choice((0, 0, 1, -9)), output=odds.choice(TEXTS), errors=odds.choice(TEXTS))

    def maybe(answer):
        def ask(*arguments):
            if random.Random(f"{seed}:{arguments}").random() < 0.2:
                raise OSError(errno.EIO, "fuzz")
            return answer

        return ask

    base = Pretend({}).facades
    names = Uname(chance.choice(("Linux", "")), chance.choice(TEXTS), chance.choice(TEXTS), chance.choice(MACHINES))
    return attrs.evolve(
        base,
        uname=lambda: names,
        affinity=maybe(chance.choice([[], [0], [0, 1, 5000], range(10**5)])),
        environment=lambda name: random.Random(f"{seed}:{name}").choice([None, None, *TEXTS]),
        nvml=JunkNvml(seed),
        http=http,
        run=run,
        status=maybe(
            FileStatus(uid=0, gid=0, mode=chance.choice((0o100755, 0o100644, 0o040755)), size=1, modified=0.0)
        ),
        disk_usage=maybe(DiskUsage(total=chance.choice((0, -1, 2**80)), free=chance.choice((0, 5)))),
        open_for_write=maybe(None),
    )


def checked(reader, facades):
    """A detection whose promises hold; raises AssertionError otherwise."""
    started = time.monotonic()
    found = detect(reader, facades)
    assert time.monotonic() - started < SECONDS
    assert isinstance(found.record.labels["arch"], str)
    assert isinstance(found.record.labels["os"], str)
    assert type(found.record.labels["gpu_nvidia"]) is bool
    assert type(found.record.labels["gpu_count"]) is int
    assert not any("Error: " in str(warning) and " probe: " in f" {warning}" for warning in found.warnings)
    assert NodeCapabilities.from_wire(found.record.to_wire()) == found.record
    assert not any(type(value) is int and value < 0 for key, value in found.record.labels.items() if key != "x")
    sample_vitals(reader, facades)
    return found


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_junk_in_every_file_and_call(seed):
    found = checked(JunkReader(seed), junk_facades(seed))
    broken = [str(warning) for warning in found.warnings if ": probe: " in str(warning)]
    assert broken == []


@pytest.mark.parametrize("name", ERRORS)
def test_every_file_fails(name):
    class Failing:
        def read_text(self, path):
            raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)), path)

        listdir = readlink = read_text

        def exists(self, path):
            return name not in ("ENOENT", "ENOTDIR")

    found = checked(Failing(), Pretend({}).facades)
    assert found.record.get("gpu_nvidia") is False
    assert found.record.get("ram_mb") is None
    assert found.warnings


CALLS = [
    "nvmlInit",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetUUID",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlShutdown",
]
HEALTHY = {
    "nvmlInit": None, "nvmlDeviceGetCount": 2, "nvmlDeviceGetName": "NVIDIA A30", "nvmlDeviceGetMigMode": [1, 1],
    "nvmlDeviceGetMemoryInfo": {"total": 2**34, "free": 2**33, "used": 2**33}, "nvmlDeviceGetMaxMigDeviceCount": 2,
    "nvmlDeviceGetCudaComputeCapability": [8, 0], "nvmlDeviceGetPciInfo": {"busId": "0000:01:00.0"},
    "nvmlDeviceGetEccMode": [1, 1], "nvmlDeviceGetBrand": 14, "nvmlDeviceGetUUID": "GPU-1",
    "nvmlSystemGetDriverVersion": "550.1", "nvmlSystemGetCudaDriverVersion_v2": 12040, "nvmlShutdown": None,
}  # fmt: skip


class OneBadCall:
    """A healthy NVML of two divided GPUs, of which one function fails or answers junk."""

    def __init__(self, name, how):
        self._name, self._how = name, how

    def call(self, name, *arguments, version=None):
        if name == self._name:
            return self._how()
        if name == "nvmlDeviceGetHandleByIndex":
            return arguments[0]
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            return f"mig{arguments}"
        return HEALTHY[name]


def raising(error):
    def how():
        raise error

    return how


@pytest.mark.parametrize("name", CALLS)
def test_each_nvml_call_fails_with_each_code(name):
    base = attrs.evolve(Pretend({"env:CUDA_VISIBLE_DEVICES": "GPU-1"}).facades)
    for code in (3, 4, 6, 9, 12, 13, 15, 18, 28, 999):
        found = checked(Pretend({}).reader, attrs.evolve(base, nvml=OneBadCall(name, raising(NvmlFault(code)))))
        assert found.record.get("gpu_count") in (0, 2, 4, 14)
        assert found.record.get("gpu_nvidia") is (found.record.get("gpu_count") > 0)


@pytest.mark.parametrize("name", CALLS)
def test_each_nvml_call_answers_junk(name):
    base = Pretend({"env:CUDA_VISIBLE_DEVICES": "GPU-1"}).facades
    for junk in JUNK:
        checked(Pretend({}).reader, attrs.evolve(base, nvml=OneBadCall(name, lambda junk=junk: junk)))
    garbled = UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "x")
    checked(Pretend({}).reader, attrs.evolve(base, nvml=OneBadCall(name, raising(garbled))))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CASES), st.integers(0, 2**32))
def test_cases_with_one_thing_broken(case, seed):
    chance = random.Random(seed)
    broken = dict(case["input"])
    key = chance.choice(sorted(broken))
    if key.startswith("/"):
        text = broken[key] if isinstance(broken[key], str) else ""
        broken[key] = chance.choice(
            (chance.choice(TEXTS), text[: len(text) // 2], text * 500, {"errno": chance.choice(ERRORS)}, {"dir": []})
        )
    elif key.startswith("nvml:"):
        broken[key] = chance.choice(
            ({"nvml_error": chance.choice((3, 4, 15, 999))}, "junk", None, [], {"raises": "ValueError"})
        )
    else:
        broken.pop(key)
    machine = Pretend(broken)
    checked(machine.reader, machine.facades)


HUGE = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/etc/os-release",
    "/proc/self/cgroup",
]


@pytest.mark.parametrize(
    "line", ["x" * 99 + "\n", "flags : " + "a " * 50 + "\n", "A='\"" * 20, "0-3,", "\0\n", ": \n", " - \n"]
)
def test_huge_files(line):
    text = line * (4_000_000 // len(line))
    machine = Pretend(dict.fromkeys(HUGE, text) | {"/sys/devices/system/cpu/online": text})
    checked(machine.reader, machine.facades)

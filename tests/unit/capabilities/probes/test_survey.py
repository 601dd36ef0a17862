import subprocess
import sys
import threading

import attrs
import pytest
from shoal.capabilities import survey
from shoal.capabilities.probes import nvidia
from shoal.capabilities.probes.findings import Findings
from shoal.capabilities.survey import detect, sample_vitals


def test_detect_basics():
    found = detect()
    assert isinstance(found.record.get("arch"), str)
    assert found.record.get("arch") not in ("", "unknown")
    assert found.record.get("os") in ("linux", "darwin", "windows")
    assert type(found.record.get("gpu_nvidia")) is bool
    assert found.record.get("cpu_count") >= 1
    assert 0 < found.record.get("cpu_usable_milli") <= found.record.get("cpu_count") * 1000
    assert found.record.get("ram_limit_mb") <= found.record.get("ram_mb")


def test_arch_and_os_are_there_on_a_machine_that_tells_nothing(pretend):
    machine = pretend({"call:os.uname": {"sysname": "", "machine": "", "nodename": "", "release": ""}})
    machine.given["call:platform.machine"] = ""
    labels = detect(machine.reader, machine.facades).record.labels
    assert (labels["os"], labels["arch"]) == ("linux", "amd64")
    assert (labels["gpu_nvidia"], labels["gpu_count"]) == (False, 0)


def test_every_label_has_a_source():
    found = detect()
    assert set(found.record.labels) <= set(found.sources)
    assert set(found.vitals) <= set(found.sources)


def test_import_brings_neither_psutil_nor_pynvml():
    code = "import sys, shoal.capabilities; print(sorted({'psutil', 'pynvml'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are read through psutil")
def test_linux_is_read_without_psutil():
    code = (
        "import sys; from shoal.capabilities.survey import detect, sample_vitals; detect(); sample_vitals();"
        "print('psutil' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_probe_that_raises_is_a_warning(pretend, monkeypatch):
    def broken(reader, facades):
        raise RuntimeError("bad day")

    monkeypatch.setattr(survey, "PROBES", {**survey.PROBES, "cpu": broken})
    machine = pretend({"/proc/meminfo": "MemTotal: 2048000 kB\nMemAvailable: 1024000 kB\n"})
    found = detect(machine.reader, machine.facades)
    assert found.record.get("ram_mb") == 2000
    assert any("bad day" in str(warning) for warning in found.warnings)


def test_a_probe_that_hangs_is_left_behind_and_not_started_again(pretend, monkeypatch):
    release = threading.Event()
    started = []

    def hangs(reader, facades):
        started.append(1)
        release.wait(10)
        return Findings("cpu")

    monkeypatch.setattr(survey, "PROBES", {"system": survey.PROBES["system"], "hanging-test": hangs})
    monkeypatch.setattr(survey, "PROBE_SECONDS", 0.05)
    machine = pretend({})
    try:
        first = detect(machine.reader, machine.facades)
        second = detect(machine.reader, machine.facades)
    finally:
        release.set()
    assert first.record.get("os") == second.record.get("os") == "linux"
    assert any("no answer within" in str(warning) for warning in first.warnings)
    assert any("still hangs" in str(warning) for warning in second.warnings)
    assert len(started) == 1


def test_nvml_that_hangs_says_so(pretend, monkeypatch):
    release = threading.Event()

    class Hanging:
        def call(self, name, *arguments, version=None):
            release.wait(10)

    monkeypatch.setattr(nvidia, "NVML_SECONDS", 0.05)
    machine = pretend({})
    try:
        found = detect(machine.reader, attrs.evolve(machine.facades, nvml=Hanging()))
    finally:
        release.set()
    assert found.record.get("gpu_nvidia") is False
    assert found.record.get("gpu_error") == "nvml:timeout"


def test_sample_has_the_memory_and_load_of_now():
    found = sample_vitals()
    assert found["ram_available_mb"] > 0
    assert found["load1_centi"] >= 0
    assert type(found["battery"]) is bool


def test_sample_reads_lists_once_and_slow_sensors_rarely(pretend):
    from shoal.capabilities.probes.sampler import SLOW_SAMPLES, Sampler

    machine = pretend(
        {
            "/proc/meminfo": "MemTotal: 2048000 kB\nMemAvailable: 1024000 kB\n",
            "/proc/loadavg": "0.52 0.58 0.59 1/467 12345\n",
            "/proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n",
            "/sys/class/thermal/thermal_zone0/temp": "43999\n",
            "/proc/pressure/memory": "some avg10=1.25 avg60=0.00 avg300=0.00 total=0\n",
            "/proc/self/cgroup": "0::/a/b\n",
            "/sys/fs/cgroup/a/memory.max": "524288000\n",
            "/sys/fs/cgroup/a/memory.current": "104857600\n",
        }
    )
    reads = []

    class Counting:
        def __getattr__(self, name):
            def ask(path):
                reads.append((name, path))
                return getattr(machine.reader, name)(path)

            return ask

    sampler = Sampler(Counting(), machine.facades)
    first = sampler.sample()
    assert first == {
        "ram_available_mb": 400,
        "load1_centi": 52,
        "thermal_max_celsius": 43,
        "psi_memory_some_avg10_centi": 125,
        "battery": False,
        "power_source": "ac",
    }
    reads.clear()
    assert sampler.sample() == first
    assert not any(name == "listdir" for name, _ in reads)
    assert len(reads) <= 6
    machine.reader._entries["/proc/stat"] = "cpu  150 0 150 900 0 0 0 0 0 0\n"
    for _ in range(SLOW_SAMPLES - 1):
        sampler.sample()
    sampler._thread.join()
    assert sampler.sample()["cpu_busy_permille"] == 500


def test_what_many_probes_run_into_is_told_once(pretend):
    machine = pretend({"/proc/self/cgroup": {"errno": "EACCES"}})
    sources = [warning.source for warning in detect(machine.reader, machine.facades).warnings]
    assert sources.count("/proc/self/cgroup") == 1


def test_a_sensor_that_hangs_does_not_hold_up_a_sample(pretend):
    import time

    from shoal.capabilities.probes.sampler import Sampler

    release = threading.Event()
    machine = pretend({"/sys/class/thermal/thermal_zone0/temp": "43000\n", "/proc/loadavg": "1.00 1.00 1.00 1/1 1\n"})

    class Hanging:
        def __getattr__(self, name):
            def ask(path):
                if path.endswith("/temp"):
                    release.wait(10)
                return getattr(machine.reader, name)(path)

            return ask

    sampler = Sampler(Hanging(), machine.facades)
    started = time.monotonic()
    try:
        assert [sampler.sample()["load1_centi"] for _ in range(30)] == [100] * 30
    finally:
        release.set()
    assert time.monotonic() - started < 1
    sampler._thread.join()
    assert sampler.sample()["thermal_max_celsius"] == 43


def test_basics_of_other_systems_come_from_psutil():
    from shoal.capabilities.probes.foreign import basics

    found = basics()
    assert found["ram_mb"] > 0
    assert type(found["battery"]) is bool
    assert found["power_source"] in ("ac", "battery")

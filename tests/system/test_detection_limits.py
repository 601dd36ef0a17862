"""Detection inside a real control group shows its limits, and those of its parents."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")]

ROOT = Path("/sys/fs/cgroup")
MIB = 1024 * 1024
CODE = """
import json
from shoal.capabilities.survey import detect, sample_vitals
found = detect()
keys = ("cpu_count", "cpu_usable_milli", "ram_mb", "ram_limit_mb", "ram_limited")
labels = {key: found.record.get(key) for key in keys}
sampled = sample_vitals()["ram_available_mb"]
print(json.dumps(labels | {"available": found.vitals["ram_available_mb"], "sampled": sampled}))
"""


def write(path, value):
    try:
        path.write_text(f"{value}\n")
    except OSError as error:
        pytest.skip(f"{path} cannot be written: {error}")


@pytest.fixture
def groups():
    """Directories of a new group with a child, per controller; the child holds the processes, the parent the limits."""
    if os.geteuid() != 0:
        pytest.skip("only root may make control groups")
    unified = (ROOT / "cgroup.controllers").exists()
    parents = {
        name: (ROOT if unified else ROOT / name) / f"shoal-test-{os.getpid()}" for name in ("memory", "cpu", "cpuset")
    }
    made = []
    try:
        for parent in dict.fromkeys(parents.values()):
            for path in (parent, parent / "child"):
                try:
                    path.mkdir()
                except OSError as error:
                    pytest.skip(f"no control group can be made here: {error}")
                made.append(path)
                if unified and path == parent:
                    write(ROOT / "cgroup.subtree_control", "+memory +cpu +cpuset")
        yield parents, unified
    finally:
        for path in reversed(made):
            path.rmdir()


def detected_in(parents):
    """What a process in the children detects. It enters them by itself before it becomes Python."""
    entries = " ".join(f"echo $$ > {parent}/child/cgroup.procs;" for parent in dict.fromkeys(parents.values()))
    command = ["/bin/sh", "-c", f'{entries} exec "$0" -c "$1"', sys.executable, CODE]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


def test_limits_of_the_parent_are_seen(groups):
    parents, unified = groups
    write(parents["memory"] / ("memory.max" if unified else "memory.limit_in_bytes"), 300 * MIB)
    if unified:
        write(parents["cpu"] / "cpu.max", "70000 100000")
    else:
        write(parents["cpu"] / "cpu.cfs_quota_us", 70000)
        for path in (parents["cpuset"], parents["cpuset"] / "child"):
            write(path / "cpuset.mems", "0")
            write(path / "cpuset.cpus", "0")
    found = detected_in(parents)
    assert (found["ram_limit_mb"], found["ram_limited"]) == (300, True)
    assert found["cpu_usable_milli"] == 700
    assert found["ram_mb"] > 300
    assert 0 < found["available"] <= 300
    assert 0 < found["sampled"] <= 300
    if unified:
        write(parents["cpu"] / "cpu.max", "max")
        write(parents["cpuset"] / "cpuset.cpus", "0")
    else:
        write(parents["cpu"] / "cpu.cfs_quota_us", -1)
    assert detected_in(parents)["cpu_usable_milli"] == 1000

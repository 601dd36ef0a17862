"""What is detected on this machine agrees with the programs that people check it with, where they are right."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from shoal.capabilities.survey import detect

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the programs compared with are Linux's")


def output(*argv):
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    return subprocess.run(argv, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


@pytest.fixture(scope="module")
def labels():
    return detect().record.labels


def test_lscpu(labels):
    rows = {row["field"].rstrip(":"): row["data"] for row in _flat(json.loads(output("lscpu", "-J"))["lscpu"])}
    assert labels["cpu_count"] == int(rows["CPU(s)"]) - len(_members(rows.get("Off-line CPU(s) list", "")))
    if rows.get("Socket(s)", "-").isdigit() and "cpu_sockets" in labels:
        assert labels["cpu_sockets"] == int(rows["Socket(s)"])
        assert labels["cpu_physical"] == int(rows["Socket(s)"]) * int(rows["Core(s) per socket"])
        assert labels["cpu_smt"] is (int(rows["Thread(s) per core"]) > 1)
    if "NUMA node(s)" in rows and "numa_nodes" in labels:
        assert labels["numa_nodes"] == int(rows["NUMA node(s)"])
    assert (labels.get("virt") is not None) is ("Hypervisor vendor" in rows)
    for flag in ("avx2", "fma"):
        assert labels.get(f"cpu_feature_{flag}", False) is (flag in rows.get("Flags", "").split())


def _flat(rows):
    for row in rows:
        yield row
        yield from _flat(row.get("children", ()))


def _members(text):
    from shoal.capabilities.probes.reader import members

    return members(text) or frozenset()


def test_nproc(labels):
    assert labels["cpu_count"] >= int(output("nproc"))
    assert labels["cpu_usable_milli"] <= int(output("nproc")) * 1000


def test_free(labels):
    words = output("free", "-m").splitlines()[1].split()
    assert labels["ram_mb"] == int(words[1])
    assert abs(detect().vitals["ram_available_mb"] - int(words[6])) < max(300, labels["ram_mb"] // 20) or (
        labels["ram_limited"] is True
    )


def test_lsblk(labels):
    disks = json.loads(output("lsblk", "-J", "-o", "NAME,TYPE,RM,MOUNTPOINTS"))["blockdevices"]
    if "disk_root_device" in labels:
        names = {disk["name"] for disk in disks}
        assert set(labels["disk_root_device"].split(",")) <= names
    nvme = [disk for disk in disks if disk["name"].startswith("nvme") and disk["type"] == "disk"]
    assert labels.get("disk_nvme_count", 0) <= len(nvme)


def test_os_release(labels):
    assert labels["kernel"] == output("uname", "-r").strip()
    assert labels["hostname"] == output("uname", "-n").strip()

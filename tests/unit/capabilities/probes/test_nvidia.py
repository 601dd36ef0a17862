import pytest
from shoal.capabilities.devices import DeviceGroup
from shoal.capabilities.probes.smi import import_query
from shoal.capabilities.probes.visible import visible_count
from shoal.capabilities.survey import detect

GIB = 1024**3
MEMINFO = {"/proc/meminfo": "MemTotal: 131072000 kB\nMemAvailable: 100000000 kB\n"}


def gpus(count, name="NVIDIA A100-SXM4-80GB", total=80 * GIB, **calls):
    given = {"nvml:nvmlInit": 0, "nvml:nvmlDeviceGetCount": count}
    for index in range(count):
        given[f"nvml:nvmlDeviceGetName({index})"] = name
        given[f"nvml:nvmlDeviceGetMemoryInfo({index})"] = {"total": total, "free": total - GIB, "used": GIB}
        given[f"nvml:nvmlDeviceGetCudaComputeCapability({index})"] = [8, 0]
    return given | {f"nvml:{key}": value for key, value in calls.items()}


def pci(address, vendor, kind="0x030000", driver=None, **files):
    base = f"/sys/bus/pci/devices/{address}"
    given = {f"{base}/class": kind + "\n", f"{base}/vendor": vendor + "\n"}
    given |= {f"{base}/{name}": text for name, text in files.items()}
    return given | ({f"{base}/driver": {"symlink": f"../../../bus/pci/drivers/{driver}"}} if driver else {})


def test_eight_equal_gpus_are_one_group(pretend):
    given = gpus(
        8,
        nvmlSystemGetDriverVersion="550.54.15",
        nvmlSystemGetCudaDriverVersion_v2=12040,
        **{f"nvmlDeviceGetEccMode({n})": [1, 1] for n in range(8)},
        **{f"nvmlDeviceGetBrand({n})": 14 for n in range(8)},
    )
    machine = pretend(given)
    found = detect(machine.reader, machine.facades)
    assert found.record.devices == (
        DeviceGroup(
            kind="gpu", vendor="nvidia", model="a100-sxm4-80gb", vram_mb=81920, compute=800, count=8, unified=False
        ),
    )
    labels = found.record.labels
    assert (labels["gpu_count"], labels["gpu_physical_count"], labels["gpu_failed_count"]) == (8, 8, 0)
    assert (labels["gpu_vram_mb"], labels["gpu_vram_total_mb"]) == (81920, 8 * 81920)
    assert (labels["cuda"], labels["nvidia_driver"], labels["gpu_compute_capability"]) == (1204, "550.54.15", 800)
    assert (labels["gpu_ecc"], labels["gpu_homogeneous"], labels["gpu_memory_unified"]) == (True, True, False)
    assert labels["gpu_brand"] == "nvidia"
    assert (found.vitals["gpu_vram_free_mb"], found.vitals["gpu_vram_free_total_mb"]) == (80896, 8 * 80896)


def test_the_node_of_a_gpu_comes_from_the_bus(pretend):
    given = gpus(
        2, **{"nvmlDeviceGetPciInfo(0)": {"busId": "00000000:07:00.0"}, "nvmlDeviceGetPciInfo(1)": {"busId": {}}}
    )
    machine = pretend(given | {"/sys/bus/pci/devices/0000:07:00.0/numa_node": "1\n"})
    assert sorted(str(group.numa) for group in detect(machine.reader, machine.facades).record.devices) == ["1", "None"]


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetHandleByIndex(1)", "nvmlDeviceGetName(1)", "nvmlDeviceGetMemoryInfo(1)"]
)
@pytest.mark.parametrize("code", [15, 16])
def test_a_lost_gpu_does_not_count_and_hides_no_other(detected, call, code):
    facts = detected(gpus(3, **{call: {"nvml_error": code}}))
    assert (facts["gpu_count"], facts["gpu_failed_count"], facts["gpu_physical_count"]) == (2, 1, 3)
    assert facts["gpu_vram_total_mb"] == 2 * 81920
    assert facts["gpu_error"] == f"nvml:{code}"


def test_a_gpu_that_answers_nothing_but_unknown_errors_has_failed(detected):
    calls = (
        "GetName",
        "GetMemoryInfo",
        "GetCudaComputeCapability",
        "GetMigMode",
        "GetPciInfo",
        "GetEccMode",
        "GetBrand",
    )
    facts = detected(gpus(2, **{f"nvmlDevice{call}(0)": {"nvml_error": 999} for call in calls}))
    assert (facts["gpu_count"], facts["gpu_failed_count"]) == (1, 1)


def test_one_unknown_attribute_is_only_that(detected):
    facts = detected(
        gpus(2, **{"nvmlDeviceGetName(0)": {"nvml_error": 999}, "nvmlDeviceGetMemoryInfo(1)": {"nvml_error": 999}})
    )
    assert (facts["gpu_count"], facts["gpu_failed_count"]) == (2, 0)
    assert facts["gpu_name"] == "NVIDIA A100-SXM4-80GB"
    assert "gpu_vram_mb" not in facts
    assert "gpu_vram_total_mb" not in facts
    assert facts["gpu_vram_max_mb"] == 81920


def test_a_gpu_of_someone_else_is_not_counted_and_not_broken(detected):
    facts = detected(gpus(2, **{"nvmlDeviceGetHandleByIndex(0)": {"nvml_error": 4}}))
    assert (facts["gpu_count"], facts["gpu_failed_count"]) == (1, 0)
    assert "gpu_error" not in facts


@pytest.mark.parametrize("code", [3, 4, 6, 9, 13, 15, 18, 28, 999])
def test_a_library_that_refuses_says_why(detected, code):
    facts = detected({"nvml:nvmlInit": {"nvml_error": code}})
    assert (facts["gpu_nvidia"], facts["gpu_count"], facts["gpu_error"]) == (False, 0, f"nvml:{code}")


def test_a_card_without_a_library_gets_a_reason_unless_a_guest_has_it(detected):
    assert detected(pci("0000:01:00.0", "0x10de", driver="nvidia"))["gpu_error"] == "nvml:12"
    guest = detected(pci("0000:01:00.0", "0x10de", driver="vfio-pci"))
    assert "gpu_error" not in guest
    assert (guest["gpu_pci_count"], guest["gpu_count"]) == (1, 0)


@pytest.mark.parametrize("name", ["NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Thor", "Xavier"])
def test_a_chip_that_shares_memory_has_no_memory_of_its_own(detected, name):
    facts = detected(MEMINFO | gpus(1, name, **{"nvmlDeviceGetMemoryInfo(0)": {"nvml_error": 3}}))
    assert (facts["gpu_memory_unified"], facts["gpu_integrated"], facts["gpu_shared_memory_mb"]) == (True, True, 128000)
    assert "gpu_vram_mb" not in facts


def test_grace_and_blackwell_servers_have_their_own(detected):
    facts = detected(gpus(4, "NVIDIA GB200", 186 * GIB))
    assert (facts["gpu_memory_unified"], facts["gpu_vram_mb"]) == (False, 186 * 1024)


@pytest.mark.parametrize(
    ("given", "compute"),
    [
        ({"/proc/device-tree/compatible": "nvidia,p3737-0000\0nvidia,tegra234\0"}, 807),
        ({"/sys/firmware/devicetree/base/compatible": "nvidia,p2972-0000\0nvidia,tegra194\0"}, 702),
        ({"/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0"}, 807),
        ({"/etc/nv_tegra_release": "# R32 (release), REVISION: 7.1\n"}, None),
    ],
)
def test_a_jetson_without_nvml(detected, given, compute):
    facts = detected(MEMINFO | given)
    assert (facts["gpu_nvidia"], facts["gpu_count"], facts["gpu_memory_unified"]) == (True, 1, True)
    assert facts["gpu_shared_memory_mb"] == 128000
    assert facts.get("gpu_compute_capability") == compute
    assert "gpu_vram_mb" not in facts


def test_mig_without_instances_has_nothing_to_use(detected):
    facts = detected(gpus(1, **{"nvmlDeviceGetMigMode(0)": [1, 1]}))
    assert (facts["gpu_count"], facts["gpu_physical_count"], facts["gpu_mig"]) == (0, 1, True)
    assert facts["gpu_nvidia"] is False


def test_mig_that_is_only_pending_is_off(detected):
    facts = detected(gpus(1, **{"nvmlDeviceGetMigMode(0)": [0, 1]}))
    assert (facts["gpu_count"], facts["gpu_mig"], facts["gpu_vram_mb"]) == (1, False, 81920)


def test_mig_beside_a_whole_gpu(pretend):
    given = gpus(
        2,
        **{
            "nvmlDeviceGetMigMode(0)": [1, 1],
            "nvmlDeviceGetMigMode(1)": [0, 0],
            "nvmlDeviceGetMigDeviceHandleByIndex(0,3)": "mig3",
            "nvmlDeviceGetMemoryInfo(mig3)": {"total": 10 * GIB, "free": 10 * GIB, "used": 0},
            "nvmlDeviceGetName(mig3)": "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        },
    )
    machine = pretend(given)
    found = detect(machine.reader, machine.facades)
    assert found.record.get("gpu_count") == 2
    assert found.record.get("gpu_homogeneous") is False
    assert {(group.model, group.mig) for group in found.record.devices} == {
        ("a100-sxm4-80gb-mig-1g-10gb", True),
        ("a100-sxm4-80gb", False),
    }


@pytest.mark.parametrize("garbage", [None, -1, 10**6, "8", [8], {"x": 1}, True, {"raises": "KeyError"}])
def test_a_count_that_is_none(detected, garbage):
    facts = detected(gpus(1) | {"nvml:nvmlDeviceGetCount": garbage})
    assert (facts["gpu_nvidia"], facts["gpu_count"]) == (False, 0)


@pytest.mark.parametrize(
    ("memory", "vram"),
    [
        ({"total": 0, "free": 0}, None),
        ({"total": -1}, None),
        ({"total": "80"}, None),
        (None, None),
        ({"total": GIB, "free": 2 * GIB}, 1024),
    ],
)
def test_memory_that_cannot_be_believed(detected, memory, vram):
    facts = detected(gpus(1, **{"nvmlDeviceGetMemoryInfo(0)": memory}))
    assert facts.get("gpu_vram_mb") == vram
    assert "gpu_vram_free_mb" not in facts


def test_only_the_new_memory_structure(detected):
    calls = {
        "nvmlDeviceGetMemoryInfo(0)": {"nvml_error": 13},
        "nvmlDeviceGetMemoryInfo(0,version=nvmlMemory_v2)": {"total": GIB, "free": GIB, "reserved": 0, "used": 0},
    }
    assert detected(gpus(1, **calls))["gpu_vram_mb"] == 1024


UUIDS = ["GPU-1a2b", "GPU-1a3c", "GPU-ffff"]
INSTANCES = ["MIG-12345678-aaaa", "MIG-GPU-1a2b/1/0"]


@pytest.mark.parametrize(
    ("variable", "visible"),
    [
        ("0,1,2", 3), (" 0 , 1 ", 2), ("2,1,0", 3), ("0,1,1", 0), ("0,-1,1", 1), ("all", 0), ("none", 0), ("3", 0),
        ("GPU-1a2b", 1), ("GPU-1a", 0), ("GPU-1a2,GPU-f", 2), ("GPU-f,GPU-ffff", 0), ("GPU-zzz,GPU-f", 0),
        ("MIG-12345678-aaaa", 1), ("MIG-12", 1), ("MIG-GPU-1a2b/1/0,0", 1), ("MIG-9", 0), ("0,MIG-12", 1),
        ("0,1,", 2), (",0", 0), ("1,GPU-f", 2), ("0x1", 0), ("99999999999999999999", 0),
    ],
)  # fmt: skip
def test_visible_devices(variable, visible):
    assert visible_count(variable, 3, UUIDS, INSTANCES) == visible


def test_visible_devices_by_uuid(detected):
    given = gpus(2, **{"nvmlDeviceGetUUID(0)": "GPU-aa", "nvmlDeviceGetUUID(1)": {"bytes_hex": "4750552d6262"}})
    assert detected(given | {"env:CUDA_VISIBLE_DEVICES": "GPU-bb"})["gpu_visible_count"] == 1
    assert "gpu_visible_count" not in detected(given)


def test_importing_csv():
    text = "name, memory.total [MiB], compute_cap\nNVIDIA L4, 23034 MiB, 8.9\nNVIDIA L4, 23034 MiB, 8.9\n\nbroken\n"
    findings = import_query(text, ["name", "memory.total", "compute_cap"])
    assert findings.labels["gpu_count"] == 2
    assert findings.labels["gpu_vram_mb"] == 23034
    assert findings.labels["gpu_compute_capability"] == 809
    assert len(findings.warnings) == 1


def test_the_real_facade_tells_what_the_binding_raises(monkeypatch):
    import sys
    import types

    from shoal.capabilities.probes.nvml import NvmlFault, SystemNvml

    class NVMLError(Exception):
        value = 15

    def lost(handle):
        raise NVMLError

    def garbled(handle):
        raise UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "x")

    module = types.ModuleType("pynvml")
    module.lost, module.garbled, module.missing_version = lost, garbled, lambda handle, version: version
    module.odd = lambda handle: 1 / 0
    monkeypatch.setitem(sys.modules, "pynvml", module)
    facade = SystemNvml()
    facade._library = module
    for name, code in (("lost", 15), ("no_such_call", 13), ("odd", 999)):
        with pytest.raises(NvmlFault) as fault:
            facade.call(name, 0)
        assert fault.value.code == code
    with pytest.raises(NvmlFault) as fault:
        facade.call("missing_version", 0, version="nvmlMemory_v2")
    assert fault.value.code == 13
    with pytest.raises(UnicodeDecodeError):
        facade.call("garbled", 0)


def test_no_library_is_told_without_the_binding(monkeypatch):
    import ctypes

    from shoal.capabilities.probes.nvml import NvmlFault, SystemNvml

    def absent(name):
        raise OSError("cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(NvmlFault) as fault:
        SystemNvml().call("nvmlInit")
    assert fault.value.code == 12
    assert "not installed" in str(fault.value)

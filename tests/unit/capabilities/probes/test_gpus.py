import pytest
from shoal.capabilities.probes.findings import model_slug
from shoal.capabilities.probes.pci import listed_name, normal_address
from shoal.capabilities.survey import detect

GIB = 1024**3
MEMINFO = {"/proc/meminfo": "MemTotal: 32768000 kB\nMemAvailable: 20000000 kB\n"}
NODES = "/sys/class/kfd/kfd/topology/nodes"


def pci(address, vendor, kind="0x030000", driver=None, **files):
    base = f"/sys/bus/pci/devices/{address}"
    given = {f"{base}/class": kind + "\n", f"{base}/vendor": vendor + "\n"}
    given |= {f"{base}/{name}": text + "\n" for name, text in files.items()}
    return given | ({f"{base}/driver": {"symlink": f"../../../bus/pci/drivers/{driver}"}} if driver else {})


def node(number, location, **properties):
    lines = {
        "cpu_cores_count": 0,
        "simd_count": 304,
        "vendor_id": 4098,
        "domain": 0,
        "location_id": location,
    } | properties
    text = "".join(f"{name} {value}\n" for name, value in lines.items())
    return {f"{NODES}/{number}/properties": text, f"{NODES}/0/properties": "cpu_cores_count 64\nsimd_count 0\n"}


NVIDIA = {
    "nvml:nvmlInit": 0,
    "nvml:nvmlDeviceGetCount": 1,
    "nvml:nvmlDeviceGetName(0)": "NVIDIA GeForce RTX 4090",
    "nvml:nvmlDeviceGetMemoryInfo(0)": {"total": 24564 * 2**20, "free": 24000 * 2**20, "used": 564 * 2**20},
}
INTEL = pci("0000:00:02.0", "0x8086", driver="i915", device="0xa780")
CARD = pci(
    "0000:03:00.0", "0x1002", driver="amdgpu", device="0x744c",
    mem_info_vram_total=str(24 * GIB), mem_info_vram_used=str(GIB), numa_node="1",
)  # fmt: skip
APU = pci(
    "0000:05:00.0", "0x1002", driver="amdgpu", device="0x15bf",
    mem_info_vram_total=str(GIB // 2), mem_info_gtt_total=str(14 * GIB),
)  # fmt: skip


def test_processor_graphics_beside_a_card_are_listed_but_not_counted(pretend):
    machine = pretend({**MEMINFO, **NVIDIA, **INTEL})
    found = detect(machine.reader, machine.facades)
    assert (found.record.get("gpu_count"), found.record.get("gpu_vram_mb")) == (1, 24564)
    assert (found.record.get("gpu_intel_count"), found.record.get("gpu_integrated")) == (1, False)
    assert {(group.vendor, group.unified) for group in found.record.devices} == {("nvidia", False), ("intel", True)}


def test_processor_graphics_alone_are_a_gpu(detected):
    facts = detected({**MEMINFO, **INTEL})
    assert (facts["gpu_count"], facts["gpu_nvidia"], facts["gpu_integrated"]) == (1, False, True)
    assert facts["gpu_shared_memory_mb"] == 32000
    assert "gpu_vram_mb" not in facts


def test_a_card_of_amd(pretend):
    machine = pretend(CARD)
    found = detect(machine.reader, machine.facades)
    assert (found.record.get("gpu_amd_count"), found.record.get("gpu_vram_mb")) == (1, 24576)
    assert (found.record.get("gpu_memory_unified"), found.vitals["gpu_vram_free_mb"]) == (False, 23552)
    assert found.record.devices[0].numa == 1


def test_the_carve_out_of_a_processor_is_no_video_memory(detected):
    facts = detected({**MEMINFO, **APU})
    assert (facts["gpu_count"], facts["gpu_memory_unified"], facts["gpu_integrated"]) == (1, True, True)
    assert facts["gpu_shared_memory_mb"] == 14 * 1024
    assert not [key for key in facts if key.startswith("gpu_vram")]
    unheard_of = {path: text for path, text in APU.items() if not path.endswith("/device")}
    assert detected(unheard_of)["gpu_memory_unified"] is True


def test_a_card_beside_processor_graphics_of_the_same_maker(detected):
    facts = detected({**CARD, **APU})
    assert (facts["gpu_count"], facts["gpu_amd_count"], facts["gpu_vram_mb"]) == (1, 2, 24576)


def test_partitions_of_a_card_are_its_devices(pretend):
    given = pci("0000:05:00.0", "0x1002", "0x120000", "amdgpu", device="0x74a1", mem_info_vram_total=str(192 * GIB))
    for number in range(1, 9):
        given |= node(number, 0x0500 | (number - 1) << 28, gfx_target_version=90402)
        given |= {f"{NODES}/{number}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {24 * GIB}\n"}
    machine = pretend(given)
    found = detect(machine.reader, machine.facades)
    assert (found.record.get("gpu_count"), found.record.get("gpu_vram_mb")) == (8, 24576)


def test_only_the_compute_topology_can_be_read(detected):
    given = node(1, 0x0500, gfx_target_version=90402)
    given |= {f"{NODES}/1/mem_banks/0/properties": f"heap_type 2\nsize_in_bytes {16 * GIB}\n"}
    facts = detected(given)
    assert (facts["gpu_count"], facts["gpu_amd_count"], facts["gpu_vram_mb"]) == (1, 1, 16384)
    shared = detected(MEMINFO | node(1, 0x0500, gfx_target_version=90012))
    assert (shared["gpu_memory_unified"], shared["gpu_shared_memory_mb"]) == (True, 32000)


@pytest.mark.parametrize(
    ("given", "amd", "bus"),
    [
        (pci("0000:01:00.0", "0x1002"), 0, 1),
        (pci("0000:01:00.0", "0x1002", driver="vfio-pci"), 0, 1),
        (pci("0000:01:00.0", "0x1002", driver="radeon", device="0x515e"), 0, 0),
        (pci("0000:01:00.1", "0x1002", "0x040300", "snd_hda_intel"), 0, 0),
        (pci("0000:03:00.0", "0x1a03", driver="ast"), 0, 0),
        (pci("0000:03:00.0", "0x102b", driver="mgag200"), 0, 0),
        (pci("0000:00:02.0", "0x1234", driver="bochs-drm"), 0, 0),
        (pci("0000:00:02.0", "0x15ad", driver="vmwgfx"), 0, 0),
        (pci("0000:03:00.0", "0x10de", "0x068000"), 0, 0),
        (pci("0000:03:00.0", "0x10de", "0x030200"), 0, 1),
        (pci("0000:6b:00.0", "0x8086", "0x0b4000", "4xxx"), 0, 0),
    ],
)
def test_what_is_no_usable_gpu(detected, given, amd, bus):
    facts = detected(given)
    assert (facts["gpu_count"], facts["gpu_amd_count"], facts["gpu_pci_count"]) == (0, amd, bus)


def test_cards_of_the_graphics_class_when_the_bus_is_hidden(detected):
    base = "/sys/class/drm/card0/device"
    facts = detected({f"{base}/vendor": "0x1002\n", f"{base}/mem_info_vram_total": f"{16 * GIB}\n"})
    assert (facts["gpu_count"], facts["gpu_amd_count"], facts["gpu_vram_mb"]) == (1, 1, 16384)


def test_an_apple_processor_under_linux(detected):
    given = {
        "/sys/class/drm/card1/device/driver": {"symlink": "../../../bus/platform/drivers/asahi"},
        "/proc/device-tree/compatible": "apple,j413\0apple,t8112\0apple,arm-platform\0",
    }
    facts = detected(MEMINFO | given)
    assert (facts["gpu_count"], facts["gpu_name"], facts["gpu_memory_unified"]) == (1, "Apple t8112", True)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA RTX A6000", "rtx-a6000"), ("Tesla T4", "tesla-t4"), ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
        ("AMD Instinct MI300X", "instinct-mi300x"), ("Intel(R) Arc(TM) A770", "arc-a770"), ("NVIDIA", ""),
    ],
)  # fmt: skip
def test_slug(name, slug):
    assert model_slug(name) == slug


def test_names_from_the_list_of_pci_ids(detected):
    ids = (
        "# comment\n1001  Kolter\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t744b  Navi 31\n"
        "\t744c  Navi 31 [Radeon RX 7900 XT]\n\t\t1002 0e3b  sub\n1003  ULSI\n\t744d  Other\n"
    )
    assert listed_name(ids, 0x1002, 0x744C) == "Radeon RX 7900 XT"
    assert listed_name(ids, 0x1002, 0x744B) == "Navi 31"
    assert listed_name(ids, 0x1002, 0x744D) is None
    assert listed_name(ids, 0x1002, None) is None
    assert detected({**CARD, "/usr/share/misc/pci.ids": ids})["gpu_models"] == "radeon-rx-7900-xt"


def test_address_forms():
    assert normal_address("00000000:0A:00.0") == "0000:0a:00.0"
    assert normal_address("0001:0a:00.0") == "0001:0a:00.0"


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (pci("0000:00:05.0", "0x1ae0", "0x120000", device="0x0063"), {"tpu_count": 1, "accelerator_google": 1}),
        (pci("0000:00:05.0", "0x1ae0", "0x120000", "vfio-pci"), {"tpu_count": 1}),
        (pci("0000:00:04.0", "0x1ae0", "0x020000", "gve"), {"tpu_count": 0, "accelerator_google": None}),
        (pci("0000:00:04.0", "0x1ae0", "0x010802", "nvme"), {"tpu_count": 0}),
        ({"/sys/class/accel/accel0/device/vendor": "0x1ae0\n"}, {"tpu_count": 1}),
        ({"/dev/accel/accel0": ""}, {"tpu_count": None}),
        (
            pci("0000:00:0b.0", "0x8086", "0x120000", "intel_vpu"),
            {"npu_count": 1, "accelerator_intel": 1, "tpu_count": 0},
        ),
        (pci("0000:c5:00.1", "0x1022", "0x118000", "amdxdna", device="0x1502"), {"npu_count": 1, "accelerator_amd": 1}),
        (pci("0000:c5:00.1", "0x1022", "0x108000", device="0x15c7"), {"npu_count": 0, "accelerator_amd": None}),
        (pci("0000:19:00.0", "0x1da3", "0x120000", "habanalabs"), {"accelerator_habana": 1}),
        (pci("0000:19:00.0", "0x1da3", "0x120000", "vfio-pci"), {"accelerator_habana": None}),
        (pci("0000:19:00.0", "0x1d0f", "0x088000", "neuron", device="0x7164"), {"accelerator_amazon": 1}),
        (pci("0000:19:00.0", "0x1d0f", "0x020000", "ena", device="0xec20"), {"accelerator_amazon": None}),
        (pci("0000:19:00.0", "0x17cb", "0x028000", "ath11k", device="0x1103"), {"accelerator_qualcomm": None}),
    ],
)
def test_other_accelerators(detected, given, facts):
    found = detected(given)
    assert {key: found.get(key) for key in facts} == facts


def test_the_class_does_not_count_again_what_is_on_the_bus(detected):
    given = pci("0000:00:05.0", "0x1ae0", "0x120000", "google-tpu")
    given |= {"/sys/class/accel/accel0/device/vendor": "0x1ae0\n"}
    assert detected(given)["tpu_count"] == 1

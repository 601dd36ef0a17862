import msgpack
import pytest
from shoal.capabilities.constraints import AnyOf
from shoal.capabilities.devices import DeviceGroup
from shoal.capabilities.errors import RecordError, RequirementError
from shoal.capabilities.labels import LABELS
from shoal.capabilities.record import NodeCapabilities
from shoal.capabilities.requirement import PlacementRequirement
from shoal.capabilities.text import parse_requirement
from shoal.capabilities.values import Kind
from shoal.capabilities.wire import MAX_RECORD_BYTES

GPU_SERVER = NodeCapabilities(
    {
        "arch": "amd64", "os": "linux", "hostname": "gpu-node-017", "kernel": "6.8.0-45-generic", "kernel_major": 6,
        "kernel_minor": 8, "distro": "ubuntu", "distro_version": "24.04", "cpu_count": 128, "cpu_usable_milli": 128000,
        "cpu_physical": 64, "cpu_sockets": 2, "cpu_smt": True, "cpu_hybrid": False,
        "cpu_model": "AMD EPYC 9354 32-Core Processor", "cpu_base_mhz": 3250, "cpu_max_mhz": 3799, "numa_nodes": 2,
        "ram_mb": 1547856, "ram_limit_mb": 1547856, "ram_limited": False, "swap_mb": 0, "hugepages_2m": 0,
        "hugepages_1g": 0, "cgroup_version": 2, "cpu_feature_avx": True, "cpu_feature_avx2": True,
        "cpu_feature_avx512": True, "cpu_feature_fma": True, "cpu_feature_bf16": True, "gpu_nvidia": True,
        "gpu_count": 8, "gpu_name": "NVIDIA H100 80GB HBM3", "gpu_models": "h100-80gb-hbm3", "gpu_vram_mb": 81559,
        "gpu_vram_max_mb": 81559, "gpu_vram_total_mb": 652472, "gpu_compute_capability": 900, "gpu_ecc": True,
        "gpu_memory_unified": False, "gpu_mig": False, "gpu_homogeneous": True, "gpu_physical_count": 8,
        "gpu_visible_count": 8, "gpu_pci_count": 8, "nvidia_driver": "550.54.15", "cuda": 1204, "tpu_count": 0,
        "disk_root_class": "nvme", "disk_root_device": "nvme0n1", "disk_root_mb": 1831420, "disk_nvme_count": 8,
        "net_max_mbps": 100000, "rdma_devices": 8, "rdma_active_ports": 8, "rdma_max_gbps": 400, "infiniband": True,
        "container": False, "psi_available": True, "tool_docker": True, "tool_docker_version": "27.1.1",
        "region": "us-east", "rack": "r17",
    },
    [
        DeviceGroup(kind="gpu", vendor="nvidia", model="h100-80gb-hbm3", vram_mb=81559, compute=900, count=4, numa=node,
                    mig=False, unified=False)
        for node in (0, 1)
    ],
)  # fmt: skip


def pack(*parts):
    return msgpack.packb(list(parts))


def test_a_typical_gpu_server_is_small():
    assert len(GPU_SERVER.labels) >= 60
    assert len(GPU_SERVER.to_wire()) <= 440


def test_round_trip():
    for record in (NodeCapabilities(), GPU_SERVER, GPU_SERVER.set("x/y.z", -(2**63)).set("e", "").set("t", True)):
        data = record.to_wire()
        assert NodeCapabilities.from_wire(data) == record
        assert NodeCapabilities.from_wire(data).to_wire() == data


def test_every_well_known_label_takes_its_code():
    values = {Kind.BOOL: True, Kind.INT: 1, Kind.STR: "s"}
    record = NodeCapabilities({label.name: values[label.kind] for label in LABELS.values()})
    data = record.to_wire()
    assert NodeCapabilities.from_wire(data) == record
    assert len(data) < 4 * len(LABELS) + 20


def test_the_bytes_are_those_that_other_versions_read():
    record = NodeCapabilities(
        {"arch": "arm64", "gpu_nvidia": False, "zone": "b", "spot": True, "cuda": 1204},
        [DeviceGroup(kind="gpu", vendor="nvidia", model="t4", vram_mb=15360, count=2)],
    )
    assert msgpack.unpackb(record.to_wire()) == [
        1, ["spot"], [29], [0, "arm64", 52, 1204, "zone", "b"], [[0, 0, "t4", 15360, None, 2, None, None, None]],
    ]  # fmt: skip


def test_what_a_newer_version_sends_is_kept_and_sent_on():
    data = pack(1, [0xF000], [0xF001], ["a", 1, 0xF002, "x"], [[77, 88, "m", 1, 2, 3, 4, True, False]])
    record = NodeCapabilities.from_wire(data)
    assert record.unlisted == ((0xF000, True), (0xF001, False), (0xF002, "x"))
    assert (record.devices[0].kind, record.devices[0].vendor) == ("code_77", "code_88")
    again = NodeCapabilities.from_wire(record.to_wire())
    assert again == record
    assert msgpack.unpackb(again.to_wire())[4] == [[77, 88, "m", 1, 2, 3, 4, True, False]]
    assert not record.satisfies(parse_requirement("gpu[]"))


def test_additions_of_a_newer_version_are_skipped():
    group = [0, 0, "t4", 1, 2, 3, 4, True, False, ["new"], {"x": 1}]
    record = NodeCapabilities.from_wire(pack(1, [], [], ["a", 1], [group], {"more": [1, 2]}, None))
    assert record == NodeCapabilities.from_wire(pack(1, [], [], ["a", 1], [group[:9]]))


def test_a_name_that_became_well_known_is_read_from_an_older_version():
    assert NodeCapabilities.from_wire(pack(1, [], [], ["arch", "arm64"], [])).get("arch") == "arm64"


@pytest.mark.parametrize(
    "data",
    [
        None,
        [1],
        b"",
        b"\xc1",
        b"\x95",
        pack(),
        pack(2, [], [], [], []),
        pack(True, [], [], [], []),
        pack("1", [], [], [], []),
        pack(1, [], [], []),
        pack(1, {}, [], [], []),
        pack(1, [], [], ["a"], []),
        pack(1, [], [], ["a", None], []),
        pack(1, [], [], ["a", 1.5], []),
        pack(1, [], [], ["a", b"x"], []),
        pack(1, [], [], ["a", True], []),
        pack(1, [], [], ["a", [1]], []),
        pack(1, [], [], ["a", {}], []),
        pack(1, [], [], ["a", 2**63], []),
        pack(1, [], [], ["a", "x" * 257], []),
        pack(1, [], [], ["a", 1, "a", 2], []),
        pack(1, ["a"], ["a"], [], []),
        pack(1, [0], [], ["arch", "x"], []),
        pack(1, [0xF000, 0xF000], [], [], []),
        pack(1, [-1], [], [], []),
        pack(1, [70000], [], [], []),
        pack(1, [True], [], [], []),
        pack(1, ["a b"], [], [], []),
        pack(1, [], [], [], [[0]]),
        pack(1, [], [], [], [[0, 0, "m", -1, 2, 3, 4, True, False]]),
        pack(1, [], [], [], [[0, 0, "m", 1, 2, 0, 4, True, False]]),
        pack(1, [], [], [], [[0, 0, "m", 1, 2, 3, 4, 1, False]]),
        pack(1, [], [], [], [[-1, 0, "m", 1, 2, 3, 4, True, False]]),
        pack(1, [], [], [], [["No", 0, "m", 1, 2, 3, 4, True, False]]),
        pack(1, [], [], [], [0]),
        pack(1, [], [], [], [[0, 0, "m", size, 2, 3, 4, True, False] for size in range(65)]),
        pack(1, [], [], [], []) + b"\x00",
        pack(1, [], [], [], [])[:-1],
        {1: 2}.__repr__().encode(),
        b"\x95\x01\xdd\xff\xff\xff\xff",
        b"\x95\x01\xdb\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff" * 3000,
        b"\x95\x01\x91" + b"\x91" * 15000,
        b"\x96\x01\x90\x90\x90\x90" + b"\x91" * 15000,
        b"\x95\x01\x91\xa2\xff\xff\x90\x90\x90",
        b"\x95\x01\x91\xd6\xff\x00\x00\x00\x00\x90\x90\x90",
        b"\x00" * (MAX_RECORD_BYTES + 1),
    ],
)
def test_anything_else_is_one_typed_error(data):
    with pytest.raises(RecordError) as refused:
        NodeCapabilities.from_wire(data)
    assert len(str(refused.value)) < 400


def test_every_prefix_of_a_record_is_refused():
    data = GPU_SERVER.to_wire()
    for length in range(len(data)):
        with pytest.raises(RecordError):
            NodeCapabilities.from_wire(data[:length])


def test_a_record_that_is_too_big_is_refused_before_it_is_sent():
    record = NodeCapabilities({f"k{number}": "x" * 250 for number in range(70)})
    with pytest.raises(RecordError, match="fewer or shorter"):
        record.to_wire()
    assert len(record.digest) == 8


REQUIREMENT = parse_requirement(
    'a, !b, has(c), lacks(d), e=1, f!=x, g>=1, h<=2, i in (1, true, "1"), j>=v1.2, (k | gpu[vram_mb>=1]*2, l), '
    "gpu[(mig | numa=0), same(model)]"
)


def test_requirements_travel_as_plain_lists():
    plain = REQUIREMENT.to_wire()
    assert plain[:2] == [["is_true", "a"], ["is_false", "b"]]
    assert PlacementRequirement.from_wire(plain) == REQUIREMENT
    assert PlacementRequirement.from_wire(msgpack.unpackb(msgpack.packb(plain))) == REQUIREMENT
    assert PlacementRequirement.from_wire([]) == PlacementRequirement()


@pytest.mark.parametrize(
    "value",
    [
        None, 5, "a", {}, [5], [[]], [["no_such", "a"]], [[5]], [["is_true"]], [["is_true", "a", "b"]],
        [["is_true", 5]], [["is_true", "a b"]], [["min_int", "a", True]], [["min_int", "a", "5"]],
        [["equals", "a", None]], [["equals", "a", 1.5]], [["equals", "a", []]], [["one_of", "a", []]],
        [["one_of", "a", "xy"]], [["one_of", "a", {}]], [["min_version", "a", "x"]], [["any_of"]], [["any_of", []]],
        [["any_of", [["is_true", "a"]], 5]], [["devices", "gpu"]], [["devices", "gpu", 1, [], None, 1]],
        [["devices", "gpu", 0, [], None]], [["devices", "gpu", 1, None, None]], [["devices", "gpu", 1, [], "x"]],
        [["devices", "gpu", 1, [], []]], [["devices", "gpu", 1, [["is_true", "region"]], None]],
        [["devices", "gpu", 1, [["devices", "gpu", 1, [], None]], None]], [["is_true", "a"]] * 600,
        [["one_of", "a", list(range(600))]], [["devices", "gpu", 1, [], None]] * 9, [[["is_true"], "a"]],
        [[{}, "a"]],
    ],
)  # fmt: skip
def test_any_other_value_is_one_typed_error(value):
    with pytest.raises(RequirementError):
        PlacementRequirement.from_wire(value)


def test_nesting_is_bounded():
    deep = ["is_true", "a"]
    for _ in range(5000):
        deep = ["any_of", [deep]]
    with pytest.raises(RequirementError):
        PlacementRequirement.from_wire([deep])
    assert AnyOf([[AnyOf([parse_requirement("a").constraints])]]).depth == 2

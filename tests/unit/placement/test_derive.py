import attrs
import pytest
from shoal.capabilities import DeviceGroup
from shoal.placement import AppleModel, Engines, Gpu, NodeState, NodeVitals, Ollama, ResidentModel, TurboQuant, facts_of
from shoal.placement.backends import warmth
from shoal.placement.select import selected_tool
from shoal.placement.task import Task


def facts(record, here="here"):
    return facts_of(record, here)


def resources(record, **vitals):
    return facts(attrs.evolve(record, vitals=NodeVitals(**vitals))).resources


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "partial"),
        ({"error": "broken"}, "error"),
        ({"labels": {}}, "complete"),
        ({"labels": {}, "state": NodeState.SUSPECT}, "complete"),
        ({"labels": {}, "state": NodeState.DEAD}, "unreachable"),
        ({"state": NodeState.LEFT}, "unreachable"),
    ],
)
def test_status(node, fields, status):
    assert facts(node("a", **fields)).status == status


def test_amounts_are_what_the_machine_may_use(node):
    held = facts(
        node("a", {"ram_mb": 64000, "ram_limit_mb": 4000, "cpu_count": 64, "cpu_usable_milli": 1500})
    ).resources
    assert (held.ram_total_mb, held.cpu_cores) == (4000, 1)
    whole = node("a", {"cpu_count": 8})
    bare = attrs.evolve(whole, capabilities=type(whole.capabilities)({"ram_mb": 64000, "cpu_count": 8}))
    assert (facts(bare).resources.ram_total_mb, facts(bare).resources.cpu_cores) == (64000, 8)
    assert facts(attrs.evolve(whole, capabilities=type(whole.capabilities)())).resources.cpu_cores == 0
    assert facts(node("a", {"cpu_usable_milli": 300})).resources.cpu_cores == 1


@pytest.mark.parametrize(
    ("some", "level"), [(0, "none"), (99, "none"), (100, "low"), (499, "low"), (500, "medium"), (1500, "high")]
)
def test_pressure_follows_from_memory_psi(node, some, level):
    held = resources(node("a", {}), psi_memory_some_avg10_centi=some)
    assert (held.pressure, held.pressure_source, held.stall_avg10) == (level, "linux-psi", some / 100)


def test_pressure_that_the_node_states_itself_wins(node):
    held = resources(node("a", {"os": "darwin"}), pressure="high")
    assert (held.pressure, held.pressure_source) == ("high", "darwin-vm-pressure")
    assert resources(node("a", {})).pressure == ""


def test_gpus_come_from_devices_and_else_from_labels(node):
    group = DeviceGroup(kind="gpu", vendor="amd", vram_mb=16384, count=4)
    npu = DeviceGroup(kind="npu", vendor="intel")
    assert facts(node("a", {}, devices=[group, npu])).resources.gpus == (
        Gpu(vendor="amd", vram_mb=16384, capabilities=("rocm",)),
    )
    labels = {"gpu_nvidia": True, "gpu_vram_mb": 8192}
    assert facts(node("a", labels)).resources.gpus == (Gpu(vendor="nvidia", vram_mb=8192, capabilities=("cuda",)),)
    assert facts(node("a", {"gpu_nvidia": False})).resources.gpus == ()


def test_unified_memory_is_a_label_or_a_device(node):
    assert facts(node("a", {"gpu_memory_unified": True, "memory_class": 3})).unified_memory
    apple = DeviceGroup(kind="gpu", vendor="apple", unified=True)
    assert facts(node("a", {}, devices=[apple])).unified_memory
    assert not facts(node("a", {})).unified_memory


def test_tools_are_asked_for_by_their_own_names(node):
    held = facts(node("a", {"tool_llama_server": True, "tool_git": True, "tool_git_version": "2.43", "tool_go": False}))
    assert held.has_tool("llama-server")
    assert held.has_tool("GIT")
    assert not held.has_tool("go")
    assert not held.has_tool("git_version")
    assert selected_tool(held, Task(required_tools=("llama-server",))) == "llama-server"
    assert selected_tool(held, Task(required_tools=("Git",))) == "git"


def test_engines_give_models_ollama_and_a_running_server(node, now):
    models = (ResidentModel(name="m", engine="ollama", expires_at=now + 200),)
    engines = Engines(ollama_running=True, llama_server_running=True, models=models)
    held = facts(node("a", {}, engines=engines))
    assert held.ollama == Ollama(installed=False, running=True)
    assert held.ollama_usable
    assert held.has_tool("llama-server")
    assert [warmth(held, "ollama", now + later) for later in (-100, 0, 100, 500)] == [2, 1, 0, 0]
    assert facts(node("a", {"tool_ollama": True})).ollama.installed


def test_operator_labels(node):
    labels = {
        "turboquant": True,
        "turboquant_verified": True,
        "turboquant_backends": "mlx, llama.cpp,",
        "apple_fm": True,
        "system_reserve_mb": 4096,
    }
    held = facts(node("a", labels, free=16000))
    assert held.turboquant == TurboQuant(supported=True, verified=True, backends=("mlx", "llama.cpp"))
    assert held.apple == AppleModel(available=True, verified=False)
    assert held.allocatable_mb == 16000 - 4096


def test_reservations_come_from_leases_and_else_from_vitals(node):
    silent = node("a", {}, free=8000)
    gossiped = attrs.evolve(silent, vitals=NodeVitals(ram_available_mb=8000, reserved_mb=1000))
    assert facts(silent).reserved_mb == 0
    assert facts(gossiped).allocatable_mb == 7000
    assert facts(attrs.evolve(gossiped, reserved_mb=0)).allocatable_mb == 8000


def test_the_deciding_node_is_local(node):
    assert facts(node("here", {})).is_local
    assert not facts(node("a", {})).is_local

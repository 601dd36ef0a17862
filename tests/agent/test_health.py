"""A GPU that is lost under a running agent: everyone learns it, and no work that needs it comes here any more."""

import itertools

import attrs
import pytest
import trio
from shoal.agent import machine, surveyor
from shoal.agent.config import Config
from shoal.agent.embed import open_agent
from shoal.capabilities import DeviceGroup, NodeCapabilities
from shoal.capabilities.health import Health
from shoal.capabilities.probes.findings import DetectWarning
from shoal.capabilities.survey import Detection

GPU = DeviceGroup(kind="gpu", vendor="nvidia", model="a100", vram_mb=40960, count=2)
LABELS = {"arch": "amd64", "os": "linux", "gpu_nvidia": True, "gpu_count": 2}


@pytest.fixture
def failing(monkeypatch):
    """A machine with two GPUs, one of which is lost from the second check on."""
    checks = itertools.count(1)

    def detect(*, directories):
        return Detection(
            record=NodeCapabilities(LABELS, (GPU,)),
            vitals={"gpu_vram_free_mb": 40000},
            warnings=(),
            sources={},
            engines={},
            models=(),
            seconds={},
        )

    def check(record):
        left = attrs.evolve(GPU, count=1)
        if next(checks) < 2:
            return Health(record=record, withdrawn=(), vitals={"gpu_vram_free_mb": 30000}, warnings=())
        return Health(
            record=NodeCapabilities({**LABELS, "gpu_count": 1, "gpu_error": "nvml:15"}, (left,)),
            withdrawn=() if record.labels["gpu_count"] == 1 else (left,),
            vitals={"gpu_vram_free_mb": 20000},
            warnings=(DetectWarning("nvidia", "NVML device 1", "code 15"),),
        )

    monkeypatch.setattr(machine.survey, "detect", detect)
    monkeypatch.setattr(machine.survey, "sample_vitals", dict)
    monkeypatch.setattr(machine.health, "check_health", check)
    monkeypatch.setattr(surveyor, "CHECK_SECONDS", 0.05)


async def test_a_lost_gpu_leaves_the_record_and_the_answers(failing, tmp_path, eventually):
    config = Config.of(
        {
            "node": {"name": "one", "leave_on_stop": False},
            "gossip": {"bind": "127.0.0.1:0", "profile": "local"},
            "api": {"socket": str(tmp_path / "one.sock"), "group": "no-such-group-here"},
        }
    )
    with trio.fail_after(20):
        async with open_agent(config) as agent:
            assert [node.name for node in agent.find_suitable_nodes("gpu[vram_mb>=24GB]*2")] == ["one"]
            with agent.changes() as changes:
                await eventually(lambda: not agent.find_suitable_nodes("gpu[vram_mb>=24GB]*2"))
                (node,) = agent.find_suitable_nodes("gpu[vram_mb>=24GB]*1")
                assert node.capabilities.labels["gpu_error"] == "nvml:15"
                assert (await changes.next_change()).record.node_id == node.node_id
            await eventually(lambda: agent.view.get(node.node_id).vitals.gpu_vram_free_mb == 20000)

"""Detecting again, checking GPUs, measuring disks: what the surveyor publishes and what it logs."""

import attrs
import pytest
import structlog
import trio
from shoal.agent import machine, surveyor
from shoal.agent.config import DetectConfig
from shoal.agent.errors import Refused
from shoal.agent.payloads import RecordPayload
from shoal.agent.surveyor import Surveyor
from shoal.capabilities import DeviceGroup, NodeCapabilities
from shoal.capabilities.health import CHECK_SECONDS, Health
from shoal.capabilities.probes.findings import DetectWarning
from shoal.capabilities.survey import Detection, Directories

GPU = DeviceGroup(kind="gpu", vendor="nvidia", model="a100", vram_mb=40960, count=2)
SLOW = DetectWarning("nvidia", "NVML", "the driver does not answer")
LOST = DetectWarning("nvidia", "NVML device 1", "code 15: the GPU is lost")


class Machine:
    """What the next survey, check and measurement find."""

    def __init__(self):
        self.labels = {"arch": "amd64", "os": "linux", "gpu_count": 2}
        self.devices = (GPU,)
        self.vitals = {"gpu_vram_free_mb": 40000, "load1_centi": 7}
        self.warnings = ()
        self.health = None
        self.checks = 0
        self.free = {}
        self.asked = []

    def detect(self, *, directories):
        self.asked.append(directories)
        return Detection(
            record=NodeCapabilities(self.labels, self.devices),
            vitals=self.vitals,
            warnings=self.warnings,
            sources={},
            engines={},
            models=(),
            seconds={},
        )

    def check(self, record):
        self.checks += 1
        answer = {"record": record, "withdrawn": (), "vitals": self.vitals, "warnings": self.warnings}
        return Health(**(answer | (self.health or {})))

    def free_space(self, paths):
        return {path: self.free.get(path) for path in paths}


@pytest.fixture
def found(monkeypatch):
    pretended = Machine()
    monkeypatch.setattr(machine.survey, "detect", pretended.detect)
    monkeypatch.setattr(machine.survey, "free_space", pretended.free_space)
    monkeypatch.setattr(machine.survey, "sample_vitals", lambda: {"load1_centi": 42})
    monkeypatch.setattr(machine.health, "check_health", pretended.check)
    return pretended


@pytest.fixture
def published():
    return []


@pytest.fixture
def publish(published):
    def publish(payload):
        published.append(RecordPayload.decode(payload).capabilities)

    return publish


@pytest.fixture
def logged(monkeypatch):
    with structlog.testing.capture_logs() as logs:
        monkeypatch.setattr(surveyor, "log", structlog.get_logger())
        monkeypatch.setattr(machine, "log", structlog.get_logger())
        yield lambda: [entry.get("what") or entry["event"] for entry in logs]


@pytest.fixture
def make(found):
    async def make(configured=(), **detect):
        made = Surveyor("n1", "0.1.0", DetectConfig(**detect), dict(configured), None)
        await made.detect()
        return made

    return make


# Reload


async def test_a_reload_says_what_is_different_and_publishes_it_once(make, found, publish, published):
    one = await make({"rack": 7, "zone": "a", "spot": True})
    found.labels = {"arch": "amd64", "os": "linux", "gpu_count": 1, "kvm": True}
    found.devices = (attrs.evolve(GPU, count=1),)
    changes = await one.reload(DetectConfig(labels_dir="", probes_dir="/srv"), {"rack": "7", "zone": "a"}, publish)
    assert (changes.added, changes.removed) == ({"kvm": True}, {"spot": True})
    assert changes.changed == {"gpu_count": (2, 1), "rack": (7, "7")}, "another type is another value"
    assert changes.devices_changed
    assert changes.labels_changed == ["gpu_count", "kvm", "rack", "spot"]
    assert published == [one.record]
    assert found.asked == [Directories(), Directories(None, "/srv")]


async def test_a_reload_that_finds_nothing_new_publishes_nothing(make, publish, published):
    one = await make({"rack": 7})
    changes = await one.reload(DetectConfig(), {"rack": 7}, publish)
    assert (changes.labels_changed, changes.devices_changed, published) == ([], False, [])


async def test_what_was_set_at_run_time_outlives_a_reload(make, found, publish, published):
    one = await make({"zone": "a"})
    one.set_labels({"zone": "b"}, publish)
    changes = await one.reload(DetectConfig(), {"zone": "c"}, publish)
    assert (changes.labels_changed, one.record.labels["zone"]) == ([], "b")


async def test_a_record_that_became_too_big_is_refused_and_the_one_before_stays(make, found, publish, published):
    one = await make({"rack": 7})
    before = one.record
    with pytest.raises(Refused):
        await one.reload(DetectConfig(), {f"label-{number}": "x" * 200 for number in range(100)}, publish)
    assert (one.record, one.operator_labels, published) == (before, {"rack": 7}, [])


# Health


async def test_a_lost_gpu_is_withdrawn_and_told(make, found, publish, published, logged):
    one = await make({"rack": 7})
    less = NodeCapabilities(found.labels | {"gpu_count": 1}, (attrs.evolve(GPU, count=1),))
    lost = (attrs.evolve(GPU, count=1),)
    found.health = {"record": less, "withdrawn": lost, "vitals": {"gpu_vram_free_mb": 9}, "warnings": (LOST,)}
    await one.check(publish)
    assert (published, one.record) == ([less.with_labels({"rack": 7})], less.with_labels({"rack": 7}))
    assert (one.vitals().gpu_best_free_mib, one.vitals().load1_centi) == (9, 42)
    assert one.warnings == (LOST,)
    found.health = {"record": less, "warnings": (LOST,)}
    await one.check(publish)
    assert len(published) == 1
    assert logged() == ["gpu.withdrawn", str(LOST)], "once, however often it is checked"


async def test_a_machine_without_gpus_is_not_asked(make, found, publish):
    found.devices = ()
    one = await make()
    await one.check(publish)
    assert found.checks == 0


async def test_free_gpu_memory_is_there_from_the_start(make):
    assert (await make()).vitals().gpu_best_free_mib == 40000


async def test_it_is_checked_every_thirty_seconds(make, found, publish, monkeypatch, autojump_clock):
    async def check(_publish):
        checks.append(trio.current_time())

    checks = []
    one = await make()
    monkeypatch.setattr(one, "check", check)
    with trio.move_on_after(CHECK_SECONDS * 3.5):
        await one.watch(publish)
    assert checks == [CHECK_SECONDS, 2 * CHECK_SECONDS, 3 * CHECK_SECONDS]


async def test_a_pretended_machine_is_never_checked(make, found, publish, monkeypatch, autojump_clock):
    one = await make(enabled=False)
    with trio.move_on_after(CHECK_SECONDS * 3.5):
        await one.watch(publish)
    assert found.checks == 0


# Warnings and disks


async def test_a_warning_is_logged_once_until_it_was_gone(make, found, publish, logged):
    found.warnings = (SLOW,)
    one = await make()
    await one.reload(DetectConfig(), {}, publish)
    await one.check(publish)
    assert logged() == [str(SLOW)]
    assert one.warnings == (SLOW,)
    found.warnings = ()
    await one.reload(DetectConfig(), {}, publish)
    assert one.warnings == ()
    found.warnings = (SLOW,)
    await one.reload(DetectConfig(), {}, publish)
    assert logged() == [str(SLOW)] * 2


async def test_a_disk_that_is_full_or_does_not_answer_is_a_warning(make, found, logged):
    one = await make(disk_paths=("/srv", "/dead"))
    found.free = {"/srv": 63}
    await one.measure_disks()
    assert one.free_mib == {"/srv": 63, "/dead": None}
    assert [warning.source for warning in one.warnings] == ["/srv", "/dead"]
    found.free = {"/srv": 62}
    await one.measure_disks()
    assert len(logged()) == 2, "not again for another number"
    found.free = {"/srv": 64, "/dead": 100}
    await one.measure_disks()
    assert one.warnings == ()


async def test_without_a_path_nothing_is_measured(make):
    one = await make()
    await one.measure_disks()
    assert one.free_mib == {}

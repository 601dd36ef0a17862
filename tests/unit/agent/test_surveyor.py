import pytest
from shoal.agent import surveyor as surveyor_module
from shoal.agent.config import DetectConfig
from shoal.agent.errors import BadArgument, Refused, StateUnusable
from shoal.agent.payloads import RecordPayload
from shoal.agent.state import StateDirectory
from shoal.agent.surveyor import Surveyor
from shoal.capabilities import NodeCapabilities, parse_requirement
from shoal.capabilities.probes.findings import DetectWarning
from shoal.capabilities.survey import Detection, Directories

DETECTED = {"arch": "amd64", "os": "linux", "ram_mb": 16000, "gpu_nvidia": True}


class Published(list):
    """Takes encoded records; refuses the next ones with `error` when told to."""

    error = None

    def __call__(self, payload):
        if self.error is not None:
            raise self.error
        self.append(RecordPayload.decode(payload))

    @property
    def labels(self):
        return dict(self[-1].capabilities.labels)


@pytest.fixture
def published():
    return Published()


@pytest.fixture
def state(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    yield directory
    directory.close()


@pytest.fixture
def detected(monkeypatch):
    """What detection finds, and the directories that it was given."""
    asked = []

    def detect(*, directories):
        asked.append(directories)
        return Detection(
            record=NodeCapabilities(DETECTED),
            vitals={},
            warnings=(DetectWarning("nvidia", "nvml", "the driver does not answer"),),
            sources={},
            engines={},
            models=(),
            seconds={},
        )

    monkeypatch.setattr(surveyor_module.survey, "detect", detect)
    monkeypatch.setattr(surveyor_module.survey, "sample_vitals", lambda: {"load1_centi": 42})
    return asked


@pytest.fixture
def make(detected, state):
    async def make(configured=(), *, keep=True, **detect):
        made = Surveyor("n1", "0.1.0", DetectConfig(**detect), dict(configured), state if keep else None)
        await made.detect()
        return made

    return make


# The record


async def test_the_record_is_what_was_detected_with_the_name(make, detected):
    surveyor = await make()
    payload = RecordPayload.decode(surveyor.payload())
    assert (payload.name, payload.agent_version, payload.capabilities.labels) == ("n1", "0.1.0", DETECTED)
    assert [str(warning) for warning in surveyor.warnings] != []
    assert detected == [Directories("/etc/shoal/labels.d", "/etc/shoal/probes.d")]


async def test_the_directories_are_the_configured_ones(make, detected):
    await make(labels_dir="/srv/labels", probes_dir="")
    assert detected == [Directories("/srv/labels", None)]


async def test_of_a_pretended_machine_only_system_and_architecture_are_real(make, detected):
    surveyor = await make({"ram_mb": 999}, enabled=False)
    assert surveyor.record.labels == {"arch": "amd64", "os": "linux", "ram_mb": 999}
    assert surveyor.warnings == ()
    assert detected == [Directories(None, None)], "no hook runs for a machine that is not shown"
    assert (surveyor.vitals().available_mib, surveyor.vitals().load1_centi) == (999, 0)


async def test_the_gpus_that_a_pretended_machine_claims_are_devices_too(make, published):
    labels = {"gpu_nvidia": True, "gpu_count": 2, "gpu_name": "NVIDIA GeForce RTX 4090", "gpu_vram_mb": 24564}
    surveyor = await make(labels, enabled=False)
    assert surveyor.record.satisfies(parse_requirement("gpu[vram_mb>=24GB, model=geforce-rtx-4090, vendor=nvidia]*2"))
    assert not surveyor.record.satisfies(parse_requirement("gpu[]*3"))
    surveyor.set_labels({"gpu_count": 1}, published)
    assert [group.count for group in surveyor.record.devices] == [1]
    assert (await make(labels)).record.devices == (), "of a real one only what was detected"


@pytest.mark.parametrize("count", [0, -1, True, "2", 65_536, None])
async def test_what_is_no_number_of_gpus_claims_none(make, count):
    labels = {} if count is None else {"gpu_count": count}
    surveyor = await make({"gpu_name": "X", "gpu_vram_mb": -1, **labels}, enabled=False)
    assert surveyor.record.devices == ()
    odd = await make({"gpu_name": "NVIDIA", "gpu_vram_mb": -1, "gpu_count": 1}, enabled=False)
    assert [(group.model, group.vram_mb, group.vendor) for group in odd.record.devices] == [(None, None, None)]


async def test_vitals_are_a_sample_of_the_machine(make):
    assert (await make()).vitals().load1_centi == 42


async def test_later_wins_detected_configured_set(make, published):
    surveyor = await make({"region": "eu", "ram_mb": 8000})
    assert surveyor.record.labels == DETECTED | {"region": "eu", "ram_mb": 8000}
    surveyor.set_labels({"region": "us", "gpu_nvidia": False}, published)
    assert published.labels == DETECTED | {"region": "us", "ram_mb": 8000, "gpu_nvidia": False}
    assert surveyor.operator_labels == {"gpu_nvidia": False, "ram_mb": 8000, "region": "us"}


# Labels set at run time


async def test_labels_outlive_the_process(make, published):
    first = await make({"region": "eu"})
    first.set_labels({"region": "us", "spot": True, "price": 3}, published)
    second = await make({"region": "eu"})
    assert second.record.labels == DETECTED | {"region": "us", "spot": True, "price": 3}
    assert second.unset_labels(["region"], published) == ["region"]
    assert published.labels["region"] == "eu", "the configured value shows again"
    assert (await make({"region": "eu"})).operator_labels == {"price": 3, "region": "eu", "spot": True}


async def test_without_a_state_directory_they_last_as_long_as_the_agent(make, published):
    surveyor = await make(keep=False)
    surveyor.set_labels({"spot": True}, published)
    assert surveyor.operator_labels == {"spot": True}
    assert (await make(keep=False)).operator_labels == {}


@pytest.mark.parametrize("bad", [{"no key!": 1}, {"": 1}, {"x": 1.5}, {"x": None}, {"x": "y" * 300}, {"x": 2**63}])
async def test_all_labels_or_none_are_set(make, published, state, bad):
    surveyor = await make()
    with pytest.raises(BadArgument, match=r"labels\."):
        surveyor.set_labels({"good": 1, **bad}, published)
    assert (surveyor.operator_labels, published, state.load("labels")) == ({}, [], None)


async def test_a_record_too_big_to_spread_is_refused_and_nothing_changes(make, published, state):
    surveyor = await make()
    surveyor.set_labels({"kept": 1}, published)
    with pytest.raises(Refused, match="bytes on the wire; at most"):
        surveyor.set_labels({f"label-{number}": "x" * 200 for number in range(100)}, published)
    assert (surveyor.operator_labels, len(published), state.load("labels")) == ({"kept": 1}, 1, {"kept": 1})


async def test_a_record_that_is_not_published_is_not_kept(make, published, state):
    surveyor = await make()
    published.error = Refused("the record would have 17000 bytes")
    with pytest.raises(Refused):
        surveyor.set_labels({"zone": "b"}, published)
    assert (surveyor.operator_labels, state.load("labels")) == ({}, None)


async def test_labels_that_cannot_be_stored_are_taken_back(make, published, state, monkeypatch):
    surveyor = await make()
    surveyor.set_labels({"zone": "a"}, published)

    def full(*_args):
        raise StateUnusable("/state/labels.json", "No space left on device")

    monkeypatch.setattr(state, "save", full)
    with pytest.raises(StateUnusable):
        surveyor.set_labels({"zone": "b"}, published)
    with pytest.raises(StateUnusable):
        surveyor.unset_labels(["zone"], published)
    assert surveyor.operator_labels == {"zone": "a"}
    assert published.labels["zone"] == "a", "the cluster is told of the labels that are in force"


async def test_unset_answers_what_was_set_and_passes_over_what_is_not_there(make, published):
    surveyor = await make()
    surveyor.set_labels({"a": 1, "b": 2}, published)
    assert surveyor.unset_labels(["b", "never-was"], published) == ["b"]
    assert published.labels == DETECTED | {"a": 1}
    count = len(published)
    assert surveyor.unset_labels(["never-was"], published) == []
    assert len(published) == count


@pytest.mark.parametrize(
    ("key", "hint"), [("region", "it comes from the configuration"), ("ram_mb", "it was detected; set it to another")]
)
async def test_a_label_that_is_there_for_another_reason_is_not_taken_away(make, published, key, hint):
    surveyor = await make({"region": "eu"})
    surveyor.set_labels({"a": 1}, published)
    with pytest.raises(Refused, match=key) as caught:
        surveyor.unset_labels(["a", key], published)
    assert caught.value.hint.startswith(hint)
    assert surveyor.operator_labels == {"a": 1, "region": "eu"}, "all or none"


@pytest.mark.parametrize("stored", [None, "text", 7, [], ["a"], {"a": 1.5}, {"no key!": 1}, {"a": None}, {"": 1}])
async def test_stored_labels_that_are_none_are_dropped(make, state, stored):
    state.save("labels", stored)
    assert (await make()).operator_labels == {}


async def test_one_bad_stored_label_does_not_cost_the_others(make, state):
    state.save("labels", {"good": 1, "bad key": 2, "also": True})
    assert (await make()).operator_labels == {"also": True, "good": 1}


async def test_a_damaged_file_costs_the_labels_and_nothing_else(make, state, published):
    (await make()).set_labels({"zone": "b"}, published)
    file = state.path / "labels.json"
    file.write_bytes(file.read_bytes()[:-1])
    surveyor = await make()
    assert surveyor.operator_labels == {}
    surveyor.set_labels({"zone": "c"}, published)
    assert (await make()).operator_labels == {"zone": "c"}

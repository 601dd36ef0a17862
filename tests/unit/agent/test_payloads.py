import msgpack
import pytest
from shoal.agent.payloads import WEIGHT_LIMIT, PayloadError, RecordPayload, SchedulePayload
from shoal.capabilities import DeviceGroup, NodeCapabilities
from shoal.placement import Schedulable

GPU = DeviceGroup(kind="gpu", vendor="nvidia", model="L40S", vram_mb=46068, count=2)
MACHINE = NodeCapabilities({"arch": "amd64", "gpu_nvidia": True, "ram_mb": 64000}, devices=(GPU,))
# What versions to come may append: no field of theirs may make a node unusable for this version.
APPENDED = ([None], [1, "text"], [{"a": 1}], [{1: 2, 2: [3]}], [[{"deep": [1, 2, {"er": b"x"}]}] * 100], [b"\0" * 2000])


def test_a_record_comes_back():
    payload = RecordPayload("node-1", "0.1.0", MACHINE)
    assert RecordPayload.decode(payload.encode()) == payload


@pytest.mark.parametrize("schedulable", list(Schedulable))
@pytest.mark.parametrize("weight", [0, 1, 100, WEIGHT_LIMIT])
def test_a_schedule_comes_back(schedulable, weight):
    payload = SchedulePayload(schedulable, weight)
    assert SchedulePayload.decode(payload.encode()) == payload


def test_the_forms_on_the_wire_are_fixed():
    """Other versions read them: a change here needs a new section kind."""
    assert SchedulePayload().encode() == msgpack.packb([0, 100])
    assert SchedulePayload(Schedulable.CORDONED, 5).encode() == msgpack.packb([1, 5])
    assert SchedulePayload(Schedulable.DRAINING, 5).encode() == msgpack.packb([2, 5])
    assert RecordPayload("n", "1", MACHINE).encode() == msgpack.packb(["n", "1", MACHINE.to_wire()])


@pytest.mark.parametrize("more", APPENDED)
def test_fields_that_a_later_version_appends_are_passed_over(more):
    record = msgpack.packb(["n", "9", MACHINE.to_wire(), *more])
    assert RecordPayload.decode(record) == RecordPayload("n", "9", MACHINE)
    assert SchedulePayload.decode(msgpack.packb([2, 7, *more])) == SchedulePayload(Schedulable.DRAINING, 7)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ([], "record"),
        (["n", "1"], "record"),
        ({"name": "n"}, "record"),
        ("name", "record"),
        (None, "record"),
        (["", "1", b""], "record.name"),
        (["x" * 254, "1", b""], "record.name"),
        (["ä" * 127, "1", b""], "record.name"),
        ([b"n", "1", b""], "record.name"),
        ([7, "1", b""], "record.name"),
        (["n", 1, b""], "record"),
        (["n", "1", "text"], "record"),
        (["n", "1", None], "record"),
        (["n", "1", [1, [], [], [], []]], "record"),
        (["n", "1", b""], "record.capabilities"),
        (["n", "1", b"\xc1"], "record.capabilities"),
        (["n", "1", msgpack.packb([99, [], [], [], []])], "record.capabilities"),
        (["n", "1", msgpack.packb([1, [], [], ["no key!", 1], []])], "record.capabilities"),
    ],
)
def test_a_wrong_record_names_the_field(fields, place):
    with pytest.raises(PayloadError, match=f"^{place}: "):
        RecordPayload.decode(msgpack.packb(fields))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ([0], "schedule"),
        ([True, 100], "schedule.state"),
        ([-1, 100], "schedule.state"),
        ([3, 100], "schedule.state"),
        (["yes", 100], "schedule.state"),
        ([0, True], "schedule.weight"),
        ([0, -1], "schedule.weight"),
        ([0, WEIGHT_LIMIT + 1], "schedule.weight"),
        ([0, 1.0], "schedule.weight"),
    ],
)
def test_a_wrong_schedule_names_the_field(fields, place):
    with pytest.raises(PayloadError, match=f"^{place}: "):
        SchedulePayload.decode(msgpack.packb(fields))


def test_the_longest_name_fits():
    payload = RecordPayload("x" * 253, "1", MACHINE)
    assert RecordPayload.decode(payload.encode()).name == "x" * 253


@pytest.mark.parametrize("length", range(40))
def test_a_record_cut_anywhere_is_refused(length):
    whole = RecordPayload("node-1", "0.1.0", MACHINE).encode()
    with pytest.raises(PayloadError):
        RecordPayload.decode(whole[:length])


@pytest.mark.parametrize("key", [[1], [], {}], ids=repr)
def test_a_map_with_a_key_that_is_none_is_refused(key):
    odd = msgpack.packb([0, 100])[1:] + b"\x81" + msgpack.packb(key) + b"\1"
    with pytest.raises(PayloadError, match="not msgpack"):
        SchedulePayload.decode(b"\x93" + odd)


def test_bytes_after_the_value_are_refused():
    with pytest.raises(PayloadError, match="not msgpack"):
        SchedulePayload.decode(SchedulePayload().encode() + b"\0")

"""Laws of records: the compact form round-trips and is canonical; junk and damage are one typed error."""

import attrs
from hypothesis import given
from hypothesis import strategies as st
from shoal.capabilities import DeviceGroup, NodeCapabilities, RecordError, group_devices
from shoal.capabilities.labels import BY_CODE, LABELS

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS
KEYS = st.sampled_from(sorted(LABELS)) | st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-/]{0,30}", fullmatch=True)
KINDS = st.sampled_from(["gpu", "tpu", "fpga", "code_3", "code_99", "code_", "code_007"]) | st.from_regex(
    r"[a-z][a-z0-9_]{0,31}", fullmatch=True
)
GROUPS = st.builds(
    DeviceGroup,
    kind=KINDS,
    vendor=st.none() | TEXTS | st.sampled_from(["nvidia", "amd", "code_1", "code_999", "code_99999"]),
    model=st.none() | TEXTS,
    vram_mb=st.none() | st.integers(0, 2**63 - 1),
    compute=st.none() | st.integers(0, 2000),
    count=st.integers(1, 1000),
    numa=st.none() | st.integers(0, 64),
    mig=st.none() | st.booleans(),
    unified=st.none() | st.booleans(),
)
UNLISTED = st.dictionaries(st.integers(0, 65535).filter(lambda code: code not in BY_CODE), VALUES, max_size=4)
RECORDS = st.builds(
    NodeCapabilities,
    st.dictionaries(KEYS, VALUES, max_size=20),
    st.lists(GROUPS, max_size=4),
    unlisted=UNLISTED.map(lambda extra: tuple(extra.items())),
)


def attempt(make, refused):
    """What `make` gives, or None and the error of the one kind that it may raise."""
    try:
        return make(), None
    except refused as error:
        return None, error


@given(RECORDS)
def test_the_compact_form_round_trips_exactly(record):
    data = record.to_wire()
    again = NodeCapabilities.from_wire(data)
    assert again == record
    assert [type(value) for value in again.labels.values()] == [type(value) for value in record.labels.values()]
    assert (again.to_wire(), again.digest, hash(again)) == (data, record.digest, hash(record))


@given(RECORDS, st.randoms(use_true_random=False))
def test_equal_records_have_equal_bytes(record, chance):
    labels, devices = (
        list(record.labels.items()),
        [attrs.evolve(group, count=1) for group in record.devices for _ in range(min(group.count, 5))],
    )
    shuffled = chance.sample(labels, len(labels))
    mixed = chance.sample(devices, len(devices))
    first = NodeCapabilities(dict(labels), devices, unlisted=record.unlisted)
    second = NodeCapabilities(dict(shuffled), mixed, unlisted=record.unlisted)
    assert first == second
    assert (first.to_wire(), hash(first)) == (second.to_wire(), hash(second))


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda tail: b"\x95\x01" + tail))
def test_junk_bytes_are_a_record_or_a_typed_error(data):
    record, error = attempt(lambda: NodeCapabilities.from_wire(data), RecordError)
    assert str(error)
    assert error or NodeCapabilities.from_wire(record.to_wire()) == record


@given(RECORDS, st.data())
def test_damaged_bytes_are_a_record_or_a_typed_error(record, data):
    raw = bytearray(record.to_wire())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    _, error = attempt(lambda: NodeCapabilities.from_wire(bytes(raw)), RecordError)
    assert str(error)


@given(RECORDS, st.dictionaries(KEYS, VALUES, max_size=5))
def test_operator_labels_override_and_nothing_else_changes(record, extra):
    merged = record.with_labels(extra)
    assert {**record.labels, **extra} == dict(merged.labels)
    assert list(merged.labels) == sorted(merged.labels)
    assert (merged.devices, merged.unlisted) == (record.devices, record.unlisted)


@given(st.lists(GROUPS, max_size=6))
def test_grouping_keeps_every_device_and_is_settled_at_once(groups):
    grouped = group_devices(groups)
    assert sum(group.count for group in grouped) == sum(group.count for group in groups)
    assert group_devices(grouped) == grouped == group_devices(reversed(groups))

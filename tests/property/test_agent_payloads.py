"""Sections of other nodes: any bytes give a value or a PayloadError; a later version's additions change nothing."""

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal.agent.payloads import (
    ENGINES_BYTES,
    HISTORY_BYTES,
    NAME_BYTES,
    WEIGHT_LIMIT,
    EnginesPayload,
    HistoryPayload,
    PayloadError,
    RecordPayload,
    SchedulePayload,
)
from shoal.capabilities import NodeCapabilities
from shoal.placement import (
    Engines,
    FailureRecord,
    Failures,
    FailureScope,
    History,
    Observation,
    Observations,
    ObservationScope,
    ResidentModel,
    Schedulable,
)

labels = st.dictionaries(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-/]{0,20}", fullmatch=True),
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=40),
    max_size=12,
)
names = st.text(min_size=1, max_size=NAME_BYTES // 4)
records = st.builds(RecordPayload, names, st.text(max_size=20), st.builds(NodeCapabilities, labels))
schedules = st.builds(SchedulePayload, st.sampled_from(Schedulable), st.integers(0, WEIGHT_LIMIT))
amounts = st.integers(0, 2**40)
maybe = st.none() | st.booleans()
models = st.builds(
    ResidentModel,
    name=st.text(max_size=40),
    engine=st.text(max_size=12),
    vram_mb=st.none() | amounts,
    expires_at=st.none() | amounts,
)
engines = st.builds(
    EnginesPayload,
    st.builds(
        Engines,
        ollama_running=maybe,
        llama_server_running=maybe,
        llama_server_port=st.none() | st.integers(0, 65535),
        models=st.lists(models, max_size=8).map(tuple),
    ),
)
words = st.text(max_size=60)
nodes = words | st.binary(min_size=16, max_size=16).map(bytes.hex)
runs = st.builds(
    Observation,
    scope=st.builds(ObservationScope, node=nodes, workload_class=words, backend=words, tool=words, model_name=words),
    observed_at=amounts.map(float),
    success=st.booleans(),
    wall_ms=amounts.map(lambda wall: wall + 1),
    peak_ram_mb=amounts,
    peak_vram_mb=amounts,
    samples=st.integers(1, 2**20),
)
failed = st.builds(
    FailureRecord,
    scope=st.builds(FailureScope, node=nodes, workload_class=words, tool=words, backend=words, surface=words),
    failure_class=words,
    count=st.integers(1, 2**20),
    expires_at=amounts.map(float),
    overridden=st.booleans(),
)
histories = st.builds(
    lambda seen, held: History(observations=Observations(seen), failures=Failures().merged(held)),
    st.lists(runs, max_size=12),
    st.lists(failed, max_size=6),
)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.integers(0, 9) | st.text(max_size=4) | st.binary(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
payloads = pytest.mark.parametrize("kind", [RecordPayload, SchedulePayload, EnginesPayload, HistoryPayload])


@given(records | schedules | engines)
def test_what_was_encoded_comes_back(payload):
    assert type(payload).decode(payload.encode()) == payload


@given(records | schedules | engines, st.lists(plain, max_size=4))
def test_what_a_later_version_appends_is_passed_over(payload, more):
    fields = msgpack.unpackb(payload.encode(), strict_map_key=False)
    assert type(payload).decode(msgpack.packb([*fields, *more])) == payload


@given(histories)
def test_of_a_history_the_section_holds_what_fits_as_it_is(history):
    packed = HistoryPayload(history).encode()
    assert len(packed) <= HISTORY_BYTES
    told = HistoryPayload.decode(packed).history
    assert set(told.failures) <= set(history.failures)
    assert set(told.observations) <= set(history.observations)
    latest = sorted((seen.observed_at for seen in history.observations), reverse=True)
    assert [seen.observed_at for seen in told.observations] == latest[: len(told.observations)]


@given(engines)
def test_an_engines_section_stays_small(payload):
    assert len(payload.encode()) <= ENGINES_BYTES + 32


def decoded(kind, data):
    with contextlib.suppress(PayloadError):
        assert type(kind.decode(data)) is kind


@payloads
@given(data=st.binary(max_size=300))
def test_any_bytes_give_a_value_or_the_one_error(kind, data):
    decoded(kind, data)


@payloads
@given(value=plain | st.lists(plain, min_size=2, max_size=4))
def test_any_structure_gives_a_value_or_the_one_error(kind, value):
    decoded(kind, msgpack.packb(value))


@payloads
@given(payload=records | engines | histories.map(HistoryPayload), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_a_value_or_the_one_error(kind, payload, place, bit):
    data = bytearray(payload.encode())
    data[place % len(data)] ^= 1 << bit
    decoded(kind, bytes(data))


@payloads
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\x91", b"\x81\xa0", b"\xc7\x00\xff", b"\xdd\xff\xff\xff\xff"])
def test_depth_and_claimed_lengths_give_the_one_error(kind, opening):
    decoded(kind, opening * (16 * 1024 // len(opening)))

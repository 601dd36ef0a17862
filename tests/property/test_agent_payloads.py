"""Sections of other nodes: any bytes give a value or a PayloadError; a later version's additions change nothing."""

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal.agent.payloads import NAME_BYTES, WEIGHT_LIMIT, PayloadError, RecordPayload, SchedulePayload
from shoal.capabilities import NodeCapabilities
from shoal.placement import Schedulable

labels = st.dictionaries(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-/]{0,20}", fullmatch=True),
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=40),
    max_size=12,
)
names = st.text(min_size=1, max_size=NAME_BYTES // 4)
records = st.builds(RecordPayload, names, st.text(max_size=20), st.builds(NodeCapabilities, labels))
schedules = st.builds(SchedulePayload, st.sampled_from(Schedulable), st.integers(0, WEIGHT_LIMIT))
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
payloads = pytest.mark.parametrize("kind", [RecordPayload, SchedulePayload])


@given(records | schedules)
def test_what_was_encoded_comes_back(payload):
    assert type(payload).decode(payload.encode()) == payload


@given(records | schedules, st.lists(plain, max_size=4))
def test_what_a_later_version_appends_is_passed_over(payload, more):
    fields = msgpack.unpackb(payload.encode(), strict_map_key=False)
    assert type(payload).decode(msgpack.packb([*fields, *more])) == payload


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
@given(payload=records, place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_a_value_or_the_one_error(kind, payload, place, bit):
    data = bytearray(payload.encode())
    data[place % len(data)] ^= 1 << bit
    decoded(kind, bytes(data))


@payloads
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\x91", b"\x81\xa0", b"\xc7\x00\xff", b"\xdd\xff\xff\xff\xff"])
def test_depth_and_claimed_lengths_give_the_one_error(kind, opening):
    decoded(kind, opening * (16 * 1024 // len(opening)))

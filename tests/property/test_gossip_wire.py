"""Any bytes give a message or the one error of the border; what is encoded comes back; a flipped bit never passes."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal.gossip import GossipError, Identity, Node, Settings, Vitals, WireError, address, items, wire
from shoal.gossip.frames import PlainFrames
from shoal.gossip.member import Claim, Rank, Section
from shoal.gossip.messages import Head, Row, Speaker, Summary, Want

ids = st.binary(min_size=16, max_size=16).filter(any)
generations = st.integers(1, (1 << 63) - 1)
incarnations = st.integers(0, (1 << 32) - 2)
digests = st.binary(min_size=8, max_size=8)
addresses = st.tuples(
    st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
    .filter(lambda ip: not (ip.is_unspecified or ip.is_multicast or str(ip) == "255.255.255.255"))
    .map(lambda ip: address.canonical(str(ip)))
    .filter(lambda host: host not in {"0.0.0.0", "255.255.255.255"} and not host.startswith(("22", "23"))),
    st.integers(1, 65535),
)
heads = st.lists(
    st.builds(Head, st.integers(0, 255), st.integers(1, (1 << 32) - 1), digests), max_size=5, unique_by=lambda h: h.kind
).map(lambda found: tuple(sorted(found)))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    rank = draw(st.sampled_from(Rank))
    accusers = tuple(sorted(draw(st.sets(digests, max_size=5)))) if rank is Rank.SUSPECT else ()
    place = draw(st.one_of(st.none(), addresses))
    return Row(Claim(draw(ids), draw(generations), draw(incarnations), rank, place, accusers), draw(heads))


speakers = st.builds(Speaker, ids, generations, incarnations)
summaries = st.builds(
    Summary,
    st.integers(0, (1 << 32) - 1),
    digests,
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 63),
    st.integers(0, (1 << 32) - 1),
)


@given(rows(), st.one_of(st.none(), st.integers(0, (1 << 32) - 1)))
def test_rows_round_trip(row: Row, age: int | None):
    found = items.parse(items.pack_row(row, age), 0)
    assert found.rows == (row,)
    assert found.ages == (() if age is None else ((row.claim.node_id, age),))


@given(ids, st.integers(0, 255), generations, st.integers(1, (1 << 32) - 1), st.binary(max_size=2000))
def test_sections_round_trip(node_id: bytes, kind: int, generation: int, version: int, payload: bytes):
    section = Section(generation, version, items.digest_of(payload), payload)
    (found,) = items.parse(items.pack_section(node_id, kind, section), 0).sections
    assert (found.node_id, found.kind, found.section) == (node_id, kind, section)


@given(st.builds(Want, ids, generations, st.integers(0, 255), st.integers(0, (1 << 32) - 1)))
def test_wants_round_trip(want: Want):
    assert items.parse(items.pack_want(want), 0).wants == (want,)


@given(st.binary(min_size=30, max_size=30))
def test_every_thirty_bytes_are_vitals(data: bytes):
    assert Vitals.unpack(data).pack() == data


@given(speakers, summaries, st.integers(0, (1 << 64) - 1), st.lists(rows(), max_size=4))
def test_acks_round_trip(speaker: Speaker, summary: Summary, request: int, carried: list[Row]):
    frames = PlainFrames("blue")
    data = wire.opening(wire.ACK, request, speaker, 0, summary) + b"".join(map(items.pack_row, carried))
    found = wire.decode(frames.unwrap(frames.wrap(data)))
    assert (found.request, found.sender, found.summary, found.items.rows) == (request, speaker, summary, tuple(carried))


@given(st.binary(max_size=1300))
def test_junk_gives_a_typed_error_or_a_message(data: bytes):
    with contextlib.suppress(WireError):
        wire.decode(data)
    with pytest.raises(WireError):
        PlainFrames("blue").unwrap(data)


@given(st.integers(1, 13), st.integers(0, 255), st.binary(max_size=200))
def test_junk_behind_a_good_header_too(kind: int, flags: int, data: bytes):
    head = wire.message(kind, Speaker(b"x" * 16, 1, 0), flags=flags)
    with contextlib.suppress(WireError):
        wire.decode(head + data)


def probing_node() -> Node:
    identity = Identity(node_id=b"n" * 16, generation=1, boot_id=b"b" * 8)
    return Node(identity, Settings.lan(), Random(1), advertise=("10.1.0.1", 1))


@given(
    st.one_of(st.binary(max_size=400), st.builds(bytes.__add__, st.just(b"\xb6\x5a\x01\x00"), st.binary(max_size=400)))
)
def test_a_node_takes_any_bytes_on_both_ports(data: bytes):
    node = probing_node()
    node.receive(data, ("10.2.0.1", 1), 0.0)
    reply, _ = node.serve(data, ("10.2.0.1", 1), 0.0)
    assert reply is None
    assert node.alive == 1


@given(st.integers(1, 13), st.integers(0, 255), st.binary(max_size=300))
def test_a_node_takes_any_well_framed_message(kind: int, flags: int, data: bytes):
    node = probing_node()
    frame = PlainFrames("shoal").wrap(wire.message(kind, Speaker(b"x" * 16, 1, 0), flags=flags) + data)
    try:
        node.receive(frame, ("10.2.0.1", 1), 0.0)
        node.serve(frame, ("10.2.0.1", 1), 0.0)
    except GossipError as error:
        pytest.fail(f"escaped: {error}")


@given(st.lists(rows(), max_size=3), st.data())
def test_no_flipped_bit_passes(carried: list[Row], data: st.DataObject):
    frames = PlainFrames("blue")
    frame = frames.wrap(wire.message(wire.GOSSIP, Speaker(b"x" * 16, 1, 0), map(items.pack_row, carried)))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    flipped = bytearray(frame)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError):
        frames.unwrap(bytes(flipped))

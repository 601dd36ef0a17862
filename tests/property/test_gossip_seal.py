"""Sealed frames: junk and flipped bits never open; repeated and re-ordered packets leave a node as it was."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal.gossip import Identity, KeyRefused, KeyRing, Node, Seal, Send, Settings, parse_key, wire
from shoal.gossip.errors import FrameRefused
from shoal.gossip.items import pack_row
from shoal.gossip.member import Claim, Rank
from shoal.gossip.messages import Row, Speaker
from shoal.gossip.seal import WINDOW, ReplayWindows

KEY = b"\x01" * 32
HERE = ("10.2.0.1", 1)


def seal(seed: int) -> Seal:
    return Seal(KeyRing.of([KEY]), "shoal", Random(seed))


def sealed_node() -> Node:
    identity = Identity(node_id=b"n" * 16, generation=1, boot_id=b"b" * 8)
    return Node(identity, Settings.lan(), Random(1), advertise=("10.1.0.1", 1), seal=seal(7))


def state(node: Node) -> object:
    entries = [(e.node_id, e.row, e.shown, e.deadline, dict(e.sections)) for e in node._core.table]
    return node._core.table.hash, entries, len(node._parts.spread)


rows = st.builds(
    Row,
    st.builds(
        Claim,
        st.integers(1, 4).map(lambda n: bytes([n]) * 16),
        st.integers(1, 3),
        st.integers(0, 3),
        st.sampled_from(Rank),
        st.just(("10.0.0.1", 7)),
    ),
    st.just(()),
)
news = st.lists(st.lists(rows, max_size=3), min_size=1, max_size=6)


@given(
    st.one_of(st.binary(max_size=400), st.builds(bytes.__add__, st.just(b"\xb6\x5a\x01\x00"), st.binary(max_size=400)))
)
def test_junk_never_opens(data: bytes):
    with pytest.raises(FrameRefused):
        seal(1).unwrap(data)
    node = sealed_node()
    assert not [e for e in node.receive(data, HERE, 0.0) if isinstance(e, Send)]
    assert node.serve(data, HERE, 0.0)[0] is None
    assert node.alive == 1


@given(st.binary(max_size=300), st.data())
def test_no_flipped_bit_opens(payload: bytes, data: st.DataObject):
    frame = bytearray(seal(1).wrap(payload))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameRefused):
        seal(2).unwrap(bytes(frame))


@given(news, st.randoms(use_true_random=False))
def test_repeated_packets_change_nothing(told: list[list[Row]], chance: Random):
    sender, node = seal(1), sealed_node()
    frames = [sender.wrap(wire.message(wire.GOSSIP, Speaker(b"s" * 16, 1, 0), map(pack_row, each))) for each in told]
    for frame in frames:
        node.receive(frame, HERE, 1.0)
    before = state(node)
    for frame in chance.choices(frames, k=20):
        assert node.receive(frame, HERE, 2.0) == []
    assert state(node) == before


@given(news, st.randoms(use_true_random=False))
def test_the_order_of_packets_changes_no_claim(told: list[list[Row]], chance: Random):
    def held(order: list[int]) -> dict[bytes, object]:
        sender, node = seal(1), sealed_node()
        frames = [
            sender.wrap(wire.message(wire.GOSSIP, Speaker(b"s" * 16, 1, 0), map(pack_row, each))) for each in told
        ]
        for index in order:
            node.receive(frames[index], HERE, 1.0)
        return {e.node_id: e.row.claim for e in node._core.table}

    order = list(range(len(told)))
    shuffled = chance.sample(order, len(order))
    assert held(order) == held(shuffled)


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=60))
def test_a_window_opens_each_counter_once_and_none_beyond_its_reach(counters: list[int]):
    windows, seen, highest = ReplayWindows(), set[int](), -1
    for counter in counters:
        expected = counter not in seen and counter > highest - WINDOW
        assert windows.fresh(b"salt", counter) is expected
        seen.add(counter)
        highest = max(highest, counter)


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser_of_keys(text: str):
    with contextlib.suppress(KeyRefused):
        assert len(parse_key(text)) == 32

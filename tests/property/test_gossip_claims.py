"""Claims are a join semilattice: whatever the order and repetition of arrival, every node holds the same."""

from __future__ import annotations

from functools import reduce
from itertools import permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from shoal.gossip import Identity, Node, Settings, wire
from shoal.gossip.frames import PlainFrames
from shoal.gossip.items import pack_address, pack_row
from shoal.gossip.member import Claim, Rank
from shoal.gossip.messages import ANYONE, Row, Speaker, Summary
from shoal.gossip.precedence import capped, join, standing

MOST = 3
SUBJECT = b"s" * 16
FRAMES, TELLER, THERE = PlainFrames("shoal"), Speaker(b"t" * 16, 1, 0), ("10.2.0.1", 1)


def place(generation: int, incarnation: int) -> tuple[str, int]:
    """The address as a function of the version, as every owner makes it."""
    return f"10.0.{generation}.{incarnation}", 7931


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    generation, incarnation = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    rank = draw(st.sampled_from(Rank))
    names = draw(st.sets(st.integers(1, 6), max_size=5)) if rank is Rank.SUSPECT else ()
    accusers = tuple(sorted(bytes([name]) * 8 for name in names))
    address = draw(st.sampled_from([place(generation, incarnation), None]))
    return capped(Claim(SUBJECT, generation, incarnation, rank, address, accusers), MOST)


def joined(one: Claim, other: Claim) -> Claim:
    return join(one, other, MOST)


@given(claims(), claims(), claims())
def test_laws(a: Claim, b: Claim, c: Claim):
    assert joined(a, a) is a
    assert joined(a, b) == joined(b, a)
    assert joined(joined(a, b), c) == joined(a, joined(b, c))
    assert joined(joined(a, b), a) == joined(a, b)
    assert standing(joined(a, b)) == max(standing(a), standing(b))


@given(st.lists(claims(), min_size=2, max_size=5))
def test_all_orders_give_one_claim(heard: list[Claim]):
    assert len({reduce(joined, order) for order in permutations(heard)}) == 1


def holder() -> Node:
    """A node that knows the teller: it came by a stream, which is proof of its address."""
    identity = Identity(node_id=b"n" * 16, generation=1, boot_id=b"b" * 8)
    node = Node(identity, Settings.lan(), Random(1), advertise=("10.1.0.1", 1))
    opening = wire.opening(wire.PING, 0, TELLER, 0, Summary(0, bytes(8), 0, 0, 0))
    node.serve(FRAMES.wrap(b"".join((opening, wire.aim(ANYONE, 0, 0, 0), pack_address(THERE)))), THERE, 0.0)
    return node


@given(st.lists(claims(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_nodes_that_hear_the_same_in_any_order_hold_the_same(heard: list[Claim], chance: Random):
    packets = [FRAMES.wrap(wire.message(wire.GOSSIP, TELLER, (pack_row(Row(claim)),))) for claim in heard]
    one, other = holder(), holder()
    for packet in packets:
        one.receive(packet, THERE, 0.0)
    for packet in chance.sample(packets * 2, 2 * len(packets)):
        other.receive(packet, THERE, 0.0)
    held = [node._core.table.get(SUBJECT).claim for node in (one, other)]
    assert held[0] == held[1] == reduce(joined, heard)

"""memberlist#371: nobody is a member for a datagram alone, and no address gets more bytes than came from it."""

from __future__ import annotations

import pytest
from shoal.gossip import Node, Rank, Send, items, wire
from shoal.gossip.member import Claim
from shoal.gossip.messages import ANYONE, Ack, Ping, Place, Row, Summary

VICTIM = ("192.0.2.1", 53)
NOTHING = Summary(0, bytes(8), 0, 0, 0)


@pytest.fixture
def node(kit) -> Node:
    node = kit.node(1)
    node.meets_strangers = True
    return node


def ping(kit, sender: int, target: bytes = ANYONE, *tail: bytes) -> bytes:
    body = (wire.opening(wire.PING, 5, kit.speaker(sender), 0, NOTHING), wire.aim(target, 1000, 0, 0), *tail)
    return kit.frames.wrap(b"".join(body))


def ack(kit, sender: int, request: int, *tail: bytes) -> bytes:
    opening = wire.opening(wire.ACK, request, kit.speaker(sender), 0, NOTHING)
    return kit.frames.wrap(b"".join((opening, *tail)))


def much(kit) -> bytes:
    return kit.gossip(9, *(items.pack_row(kit.row(number)) for number in range(30, 45)))


STRANGE = {
    "ping": lambda kit, row: ping(kit, 9),
    "ping with news": lambda kit, row: ping(kit, 9, kit.id(1), row, items.pack_padding(300)),
    "ping of another": lambda kit, row: ping(kit, 9, kit.id(77)),
    "gossip": lambda kit, row: kit.gossip(9, row),
    "much gossip": lambda kit, row: much(kit),
    "ack of nothing": lambda kit, row: ack(kit, 9, 12345, row),
    "not me of nothing": lambda kit, row: kit.frames.wrap(wire.message(wire.NOT_ME, kit.speaker(9), (row,), 1)),
    "nack": lambda kit, row: kit.frames.wrap(wire.message(wire.NACK, kit.speaker(9), (row,), 7)),
    "page": lambda kit, row: kit.frames.wrap(
        wire.message(
            wire.PAGE,
            kit.speaker(9),
            (items.pack_place(Place()), items.pack_hashes([0] * 64), row, items.pack_padding(700)),
            7,
        )
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_stranger_teaches_nothing_and_gets_no_more_than_it_sent(kit, node, kind):
    data = STRANGE[kind](kit, items.pack_row(kit.row(30)))
    sent = [e for e in node.receive(data, VICTIM, 1.0) if isinstance(e, Send)]
    assert len(node._core.table) == 1
    assert all(effect.to == VICTIM for effect in sent)
    assert sum(len(effect.data) for effect in sent) <= len(data)


def test_a_ping_of_a_stranger_is_answered(kit, node):
    ((answer, to),) = kit.opened(node.receive(ping(kit, 9), VICTIM, 1.0))
    assert isinstance(answer, Ack)
    assert (answer.request, to) == (5, VICTIM)


def test_where_there_is_room_it_is_asked_for_proof_and_is_a_member_then(kit, node):
    ((asked, to),) = kit.opened(node.receive(much(kit), kit.address(9), 1.0), Ping)
    assert to == kit.address(9)
    node.receive(ack(kit, 9, asked.request), kit.address(9), 1.1)
    assert node.member(kit.id(9)).address == kit.address(9)
    node.receive(kit.gossip(9, items.pack_row(kit.row(30))), kit.address(9), 1.2)
    assert node.member(kit.id(30)) is not None


def test_an_answer_proves_the_place_that_was_asked_wherever_it_seems_to_come_from(kit, node):
    """From a machine with several addresses the kernel sends by another than the one that was asked."""
    ((asked, _),) = kit.opened(node.receive(much(kit), kit.address(9), 1.0), Ping)
    node.receive(ack(kit, 9, asked.request), VICTIM, 1.1)
    assert node.member(kit.id(9)).address == kit.address(9)


def test_an_answer_to_nothing_proves_nothing(kit, node):
    ((asked, _),) = kit.opened(node.receive(much(kit), kit.address(9), 1.0), Ping)
    node.receive(ack(kit, 9, asked.request + 1), kit.address(9), 1.1)
    assert node.alive == 1


def test_a_seed_with_several_addresses_is_met_and_then_known_by_its_own(kit, node):
    node.join(0.0)
    node._parts.joiner.met()
    node._parts.joiner.heal_seed()
    ((asked, to),) = kit.opened(node.resolved([kit.address(50)], 1.0), Ping)
    assert to == kit.address(50)
    node.receive(ack(kit, 9, asked.request), kit.address(9), 1.1)
    assert node.member(kit.id(9)).address == kit.address(50)
    # It hears of that, and contradicts, as of any wrong address.
    node.receive(kit.gossip(9, items.pack_row(kit.row(9, incarnation=1)), incarnation=1), kit.address(9), 2.0)
    assert node.member(kit.id(9)).address == kit.address(9)


def test_who_lives_where_we_were_claimed_to_be_ends_the_doubt_though_we_never_met(kit, node):
    node.serve(kit.frames.wrap(kit.greeting(2)), kit.address(2), 0.0)
    claim = Claim(kit.id(1), 1000, 3, Rank.ALIVE, kit.address(9))
    effects = node.receive(kit.gossip(2, items.pack_row(Row(claim))), kit.address(2), 1.0)
    ((check, _),) = [(message, to) for message, to in kit.opened(effects, Ping) if to == kit.address(9)]
    assert node._core.paused
    other = wire.message(wire.NOT_ME, kit.speaker(9), request=check.request)
    node.receive(kit.frames.wrap(other), kit.address(9), 1.1)
    assert not node._core.paused
    assert (node.me.incarnation, node.alive) == (4, 2)


def test_whoever_lives_at_a_members_old_address_is_met_by_its_answer(kit, node):
    node.serve(kit.frames.wrap(kit.greeting(2)), kit.address(2), 0.0)
    node._parts.prober.heal(node._core.table.get(kit.id(2)), 1.0)
    ((asked, _),) = kit.opened(node._core.taken(), Ping)
    other = wire.message(wire.NOT_ME, kit.speaker(9), request=asked.request)
    node.receive(kit.frames.wrap(other), kit.address(2), 1.1)
    assert node.member(kit.id(9)).address == kit.address(2)


def test_only_so_many_are_asked_in_a_second(kit, node):
    sources = [(f"192.0.2.{number % 250 + 1}", number + 1) for number in range(2000)]
    sent = [e for source in sources for e in node.receive(much(kit), source, 1.0)]
    assert 0 < len(sent) <= 50


def test_a_new_version_without_an_address_waits_for_its_row(kit, node):
    """A member restarted elsewhere, and its first word comes over a stream that does not say where it is."""
    node.serve(kit.frames.wrap(kit.greeting(2)), kit.address(2), 0.0)
    reborn, source = kit.speaker(2, generation=2000), ("10.0.0.77", 40_000)
    opening = wire.opening(wire.PING, 0, reborn, 0, NOTHING)
    node.serve(kit.frames.wrap(opening + wire.aim(ANYONE, 0, 0, 0)), source, 1.0)
    assert node.member(kit.id(2)).generation == 1000
    moved = Claim(kit.id(2), 2000, 0, Rank.ALIVE, kit.address(77))
    node.serve(kit.frames.wrap(wire.message(wire.PUSH, reborn, (items.pack_row(Row(moved)),))), source, 1.1)
    assert (node.member(kit.id(2)).generation, node.member(kit.id(2)).address) == (2000, kit.address(77))


def test_every_stream_says_where_its_sender_is(kit, node):
    reply, _ = node.serve(kit.frames.wrap(kit.greeting(2)), kit.address(2), 0.0)
    assert wire.decode(kit.frames.unwrap(reply)).items.address == kit.address(1)

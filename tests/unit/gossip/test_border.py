"""What comes in: bounded by source, answered to the right place; addresses that are not what they seem."""

from __future__ import annotations

from random import Random

from shoal.gossip import Ask, KeyRing, Node, Rank, Seal, Send, items, key_id, wire
from shoal.gossip.frames import PlainFrames
from shoal.gossip.limits import _MOST_SOURCES, PACKETS_A_SECOND, Allowance, SourceLimit
from shoal.gossip.messages import Ack, Gossip, Head, NotMe, Ping

OLD, NEW = b"\x01" * 32, b"\x02" * 32


def ping(kit, sender: int, *, target: int = 1, extra: bytes = b"", rank: Rank = Rank.ALIVE) -> bytes:
    opening = wire.opening(wire.PING, 5, kit.speaker(sender), 0, (0, bytes(8), 0, 0, 0))
    return kit.frames.wrap(opening + wire.aim(kit.id(target), 1000, rank, 0) + extra)


def test_an_allowance_is_for_a_second():
    allowance = Allowance(2)
    assert [allowance.take(5.0), allowance.take(5.5), allowance.take(5.9)] == [True, True, False]
    assert allowance.take(6.0)


def test_a_flood_costs_only_its_own_source():
    limit = SourceLimit()
    assert all(limit.take(("10.0.0.1", 1), 1.0) for _ in range(PACKETS_A_SECOND))
    assert not limit.take(("10.0.0.1", 1), 1.5)
    assert limit.take(("10.0.0.2", 1), 1.5)
    assert limit.take(("10.0.0.1", 1), 2.0)


def test_sources_are_counted_within_a_bound():
    limit = SourceLimit()
    for number in range(3 * _MOST_SOURCES):
        limit.take(("10.0.0.1", number), 1.0)
    assert len(limit._counts) <= _MOST_SOURCES


def test_packets_over_the_limit_are_counted_and_teach_nothing(kit):
    node = kit.node(1)
    for _ in range(PACKETS_A_SECOND):
        node.receive(kit.gossip(9), kit.address(9), 1.0)
    node.receive(kit.gossip(9, items.pack_row(kit.row(3))), kit.address(9), 1.0)
    assert node.member(kit.id(3)) is None
    assert node.counters["packets over the limit of their source"] == 1


def test_junk_from_a_members_address_does_not_make_us_deaf_to_it(kit):
    node = kit.node(1)
    for _ in range(2 * PACKETS_A_SECOND):
        node.receive(PlainFrames("other").wrap(b"x" * 50), kit.address(9), 1.0)
    node.receive(kit.gossip(9, items.pack_row(kit.row(3))), kit.address(9), 1.0)
    assert node.member(kit.id(3)) is not None


def test_not_me_is_no_longer_than_its_request_and_bounded(kit):
    node = kit.node(1)
    request = ping(kit, 9, target=5)
    answers = []
    for number in range(100):
        answers += [e for e in node.receive(request, ("192.0.2.1", 1 + number), 1.0) if isinstance(e, Send)]
    assert len(answers) == 50
    assert all(len(answer.data) <= len(request) for answer in answers)
    assert isinstance(wire.decode(kit.frames.unwrap(answers[0].data)), NotMe)


def test_one_reason_does_not_hide_another(kit):
    node = kit.node(1)
    assert node.receive(b"GET / HTTP/1.1", kit.address(7), 1.0)
    (note,) = node.receive(PlainFrames("other").wrap(b"x"), kit.address(8), 1.0)
    assert note.fields["source"] == "10.0.0.8:7931"


def test_who_else_was_refused_is_named_with_the_next_note_within_a_bound(kit):
    node = kit.node(1)
    junk = PlainFrames("other").wrap(b"x")
    (first,) = node.receive(junk, kit.address(7), 1.0)
    assert (first.fields["packets"], "others" in first.fields) == (1, False)
    for number in range(20, 60):
        for _ in range(100):
            assert node.receive(junk, kit.address(number), 2.0) == []
            assert node.receive(junk, kit.address(7), 2.0) == []
    (note,) = node.receive(junk, kit.address(7), 61.0)
    assert (note.fields["source"], note.fields["packets"]) == ("10.0.0.7:7931", 2 * 100 * 40 + 1)
    assert note.fields["others"] == ", ".join(f"10.0.0.{number}:7931" for number in range(52, 60))
    (last,) = node.receive(junk, kit.address(8), 200.0)
    assert (last.fields["packets"], "others" in last.fields) == (1, False)


# Where packets come from is not where they say


def test_whoever_looks_elsewhere_is_told_so(kit, told):
    node = kit.node(1)
    told(node, kit.row(2), sender=2)
    ((ack, to),) = kit.opened(node.receive(ping(kit, 2), ("192.0.2.7", 4000), 1.0), Ack)
    assert to == ("192.0.2.7", 4000)
    assert ack.items.observed == ("192.0.2.7", 4000)
    ((ack, _),) = kit.opened(node.receive(ping(kit, 2), kit.address(2), 1.0), Ack)
    assert ack.items.observed is None
    at_home = items.pack_address(kit.address(2))
    ((ack, _),) = kit.opened(node.receive(ping(kit, 2, extra=at_home), ("192.0.2.7", 4000), 1.0), Ack)
    assert ack.items.observed is None
    assert node.member(kit.id(2)).address == kit.address(2)


def probed(kit, node: Node, now: float):
    """The first ping of a round."""
    from shoal.gossip import Token
    from shoal.gossip.effects import Purpose

    ((message, to),) = kit.opened(node.wake(Token(Purpose.PROBE), now), Ping)
    return message, to


def test_once_told_it_says_its_address_in_all_it_sends(kit, told):
    node = kit.node(1)
    told(node, kit.row(2), sender=2)
    request, _ = probed(kit, node, 1.0)
    assert request.items.address is None
    opening = wire.opening(wire.ACK, request.request, kit.speaker(2), 0, (0, bytes(8), 0, 0, 0))
    ack = kit.frames.wrap(opening + items.pack_observed(("192.0.2.1", 4000)))
    node.receive(ack, kit.address(2), 1.1)
    request, _ = probed(kit, node, 2.0)
    assert request.items.address == kit.address(1)
    ((answer, _),) = kit.opened(node.receive(ping(kit, 2), kit.address(2), 2.1), Ack)
    assert answer.items.address == kit.address(1)
    sent = kit.opened(node.publish(1, b"record", 2.2), Gossip)
    assert all(message.items.address == kit.address(1) for message, _ in sent)


def test_an_unasked_report_of_our_address_is_ignored(kit, told):
    node = kit.node(1)
    told(node, kit.row(2), sender=2)
    opening = wire.opening(wire.ACK, 77, kit.speaker(2), 0, (0, bytes(8), 0, 0, 0))
    node.receive(kit.frames.wrap(opening + items.pack_observed(("192.0.2.1", 4000))), kit.address(2), 1.1)
    assert not node._core.elsewhere


def test_a_joiner_learns_it_from_the_stream(kit):
    seed, joiner = kit.node(1), kit.node(2)
    joiner.join(1.0)
    (ask,) = [e for e in joiner.resolved([kit.address(1)], 1.0) if isinstance(e, Ask)]
    reply, _ = seed.serve(ask.payload, ("192.0.2.1", 40_000), 1.0)
    joiner.answered(ask.token, reply, 1.1)
    assert joiner._core.elsewhere
    assert seed.member(kit.id(2)).address == kit.address(2)


# Keys


def test_a_member_that_uses_a_key_we_slept_through_is_pinged_in_ours(kit, told):
    asleep = kit.node(1, seal=Seal(KeyRing.of([OLD]), "shoal", Random(1)))
    other = kit.node(2, seal=Seal(KeyRing.of([OLD, NEW]), "shoal", Random(2)))
    hello = [e for e in other.resolved([kit.address(1)], 1.0) if isinstance(e, Ask)]
    asleep.serve(hello[0].payload, kit.address(2), 1.0)
    asleep._core.frames.ring = KeyRing.of([OLD])
    other._core.frames.ring = other._core.frames.ring.use(key_id(NEW))
    told_in_new = other._core.frames.wrap(bytes(200))
    (sent,) = [e for e in asleep.receive(told_in_new, kit.address(2), 2.0) if isinstance(e, Send)]
    assert sent.to == kit.address(2)
    assert len(sent.data) <= len(told_in_new)
    answers = [e for e in other.receive(sent.data, kit.address(1), 2.1) if isinstance(e, Send)]
    assert any(
        isinstance(wire.decode(asleep._core.frames.unwrap(e.data)), Ack) for e in answers if e.to == kit.address(1)
    )
    # Strangers and short packets get nothing.
    assert not [e for e in asleep.receive(told_in_new, ("192.0.2.1", 1), 2.2) if isinstance(e, Send)]
    short = other._core.frames.wrap(b"x", kit.address(9))
    assert not [e for e in asleep.receive(short, kit.address(2), 2.2) if isinstance(e, Send)]


def test_a_correction_is_no_longer_than_what_it_corrects_until_the_address_is_proven(kit, told):
    node = kit.node(1)
    heads = tuple(Head(kind, 1, bytes(8)) for kind in range(1, 6))
    told(node, kit.row(9), sender=9)
    told(node, kit.row(3, incarnation=5, heads=heads), sender=9)
    packet = kit.gossip(9, items.pack_row(kit.row(3)))
    (sent,) = [e for e in node.receive(packet, kit.address(9), 5.0) if isinstance(e, Send)]
    assert len(sent.data) <= len(packet)
    assert wire.decode(kit.frames.unwrap(sent.data)).items.rows == (kit.row(3, incarnation=5),)
    node._core.table.edit(kit.id(9)).validated = kit.address(9)
    (sent,) = [e for e in node.receive(packet, kit.address(9), 6.0) if isinstance(e, Send)]
    assert wire.decode(kit.frames.unwrap(sent.data)).items.rows == (kit.row(3, incarnation=5, heads=heads),)


def test_a_flood_from_forged_sources_never_gets_more_than_it_sends(kit, told):
    node = kit.node(1)
    for number in range(2, 30):
        told(node, kit.row(number), sender=number)
    node.publish(1, bytes(400), 0.0)
    asked = wire.ping_request(5, kit.speaker(200), (kit.id(4), 1000, 400), kit.address(4))
    floods = [
        ping(kit, 200),
        ping(kit, 200, target=7),
        kit.gossip(200, items.pack_row(kit.row(5))),
        kit.frames.wrap(asked),
        kit.frames.wrap(b"\x00" * 50),
    ]
    into = out = 0
    for number in range(200):
        data = floods[number % len(floods)]
        into += len(data)
        effects = node.receive(data, ("192.0.2.1", 1000 + number), 10.0 + number / 1000)
        out += sum(len(e.data) for e in effects if isinstance(e, Send))
    assert out <= into

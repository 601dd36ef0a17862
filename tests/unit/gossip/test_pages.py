"""A sync by datagrams: complete both ways, never more bytes out than in, and patient with loss."""

from __future__ import annotations

from random import Random

import pytest
from shoal.gossip import Ask, Node, Rank, SectionKind, Send, State, TimedOut, Vitals, Wake, items, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.messages import Flag, Page, Paged, Place
from shoal.gossip.sync import differing_buckets


class Datagrams:
    """Carries the pages of two nodes; timers of pages fire when nothing is on its way. Streams get no answer."""

    def __init__(self, kit, one: Node, other: Node, *, loss: float = 0.0) -> None:
        self.kit = kit
        one.meets_strangers = other.meets_strangers = True
        self.nodes = {kit.address(1): one, kit.address(2): other}
        self.chance = Random(3)
        self.loss = loss
        self.sizes: list[tuple[int, int]] = []
        self.now = 10.0

    def run(self, asking: int, effects, most: int = 5000) -> None:
        source = self.kit.address(asking)
        packets = [(source, e) for e in effects if isinstance(e, Send)]
        timers = self.pages(source, effects)
        for _ in range(most):
            if packets:
                sender, sent = packets.pop(0)
                if self.chance.random() < self.loss or sent.to not in self.nodes:
                    continue
                got = self.nodes[sent.to].receive(sent.data, sender, self.now)
                replies = [e for e in got if isinstance(e, Send)]
                if isinstance(self.message(sent), Page):
                    self.sizes += [(len(sent.data), len(reply.data)) for reply in replies]
                packets += [(sent.to, reply) for reply in replies]
                timers += self.pages(sent.to, got)
            elif timers:
                where, token = timers.pop(0)
                self.now += 0.01
                got = self.nodes[where].wake(token, self.now)
                packets += [(where, e) for e in got if isinstance(e, Send)]
                timers += self.pages(where, got)
            else:
                return
        pytest.fail("it never ends")

    def message(self, sent):
        return wire.decode(self.kit.frames.unwrap(sent.data))

    def pages(self, where, effects):
        return [(where, e.token) for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.PAGE]


def filled(kit, told, number: int, members: range) -> Node:
    node = kit.node(number, seed=number)
    node.publish(SectionKind.RECORD, bytes([number]) * 440, 0.0)
    node.set_vitals(Vitals(available_mib=number), 0.0)
    for member in members:
        told(node, kit.row(member), sender=member)
        section = items.pack_section(kit.id(member), 1, kit.section(b"record of %d" % member * 20))
        node.receive(kit.gossip(member, section), kit.address(member), 0.0)
    return node


def begun(kit, node: Node, seed: int, now: float):
    """The effects of a join whose stream timed out."""
    node.join(now)
    (ask,) = [e for e in node.resolved([kit.address(seed)], now) if isinstance(e, Ask)]
    return node.answered(ask.token, TimedOut(), now)


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_join_without_tcp_brings_everything_both_ways(kit, told, loss):
    seed, joiner = filled(kit, told, 1, range(3, 90)), kit.node(2)
    joiner.publish(SectionKind.RECORD, b"of the joiner", 0.0)
    joiner.publish(SectionKind.SCHEDULE, b"cordoned", 0.0)
    wires = Datagrams(kit, seed, joiner, loss=loss)
    wires.run(2, begun(kit, joiner, 1, 10.0))
    assert joiner.joined
    assert seed.joined
    assert joiner.alive == seed.alive == 89
    assert joiner.member(kit.id(1)).vitals.available_mib == 1
    assert joiner.member(kit.id(50)).sections[1].payload == b"record of 50" * 20
    assert seed.member(kit.id(2)).sections[SectionKind.SCHEDULE].payload == b"cordoned"
    assert seed._core.table.hash == joiner._core.table.hash
    assert len(wires.sizes) < 200


def test_a_reply_is_never_longer_than_its_request(kit, told):
    seed, joiner = filled(kit, told, 1, range(3, 90)), kit.node(2)
    wires = Datagrams(kit, seed, joiner)
    wires.run(2, begun(kit, joiner, 1, 10.0))
    assert wires.sizes
    assert all(reply <= request <= 1200 for request, reply in wires.sizes)


@pytest.mark.parametrize("padding", [0, 20, 100, 400])
def test_whoever_asks_briefly_is_answered_briefly(kit, told, padding):
    node = filled(kit, told, 1, range(3, 90))
    body = [items.pack_place(Place()), items.pack_hashes([0] * 64), bytes(0), items.pack_padding(padding)]
    request = kit.frames.wrap(wire.message(wire.PAGE, kit.speaker(200), body, request=7))
    (sent,) = [e for e in node.receive(request, ("192.0.2.9", 9), 1.0) if isinstance(e, Send)]
    assert len(sent.data) <= len(request)


def test_two_full_tables_meet_in_the_middle(kit, told):
    one, other = filled(kit, told, 1, range(3, 40)), filled(kit, told, 2, range(30, 80))
    told(one, kit.row(2), sender=2)
    told(other, kit.row(1), sender=1)
    told(one, kit.row(90, Rank.LEFT), sender=3)
    sections = differing_buckets(one._core.table.buckets, other._core.table.buckets)
    assert len(sections) > 10
    one._parts.syncer.soon(kit.id(2), 0.0)
    (wake,) = [e for e in one._core.taken() if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]
    (ask,) = [e for e in one.wake(wake.token, 10.0) if isinstance(e, Ask)]
    wires = Datagrams(kit, one, other)
    wires.run(1, one.answered(ask.token, TimedOut(), 10.0))
    assert one.alive == other.alive == 79
    assert other.member(kit.id(5)).sections[1].payload == b"record of 5" * 20
    assert one.member(kit.id(70)).sections[1].payload == b"record of 70" * 20
    assert one._core.table.hash == other._core.table.hash
    assert one._parts.syncer._partner is None


def test_a_section_over_a_page_waits_for_tcp_and_holds_up_nothing(kit, told):
    seed, joiner = filled(kit, told, 1, range(3, 20)), kit.node(2)
    seed.publish(SectionKind.HISTORY, bytes(5000), 1.0)
    Datagrams(kit, seed, joiner).run(2, begun(kit, joiner, 1, 10.0))
    assert joiner.joined
    assert joiner.alive == 19
    assert SectionKind.HISTORY not in joiner.member(kit.id(1)).sections


def test_silence_is_given_up_and_tried_again_later(kit):
    joiner, nobody = kit.node(2), kit.node(1)
    wires = Datagrams(kit, nobody, joiner, loss=1.0)
    wires.run(2, begun(kit, joiner, 1, 10.0))
    assert not joiner.joined
    assert not joiner._parts.pager._sessions
    again = begun(kit, joiner, 1, 20.0)
    assert any(isinstance(e, Send) for e in again)


def test_a_busy_seed_names_others_by_datagram_too(kit, told):
    seed = filled(kit, told, 1, range(3, 30))
    replies = []
    for number in range(100, 118):
        body = [items.pack_place(Place()), items.pack_hashes([0] * 64), items.pack_padding(800)]
        frame = kit.frames.wrap(wire.message(wire.PAGE, kit.speaker(number), body, request=7, flags=Flag.JOINING))
        replies += kit.opened(seed.receive(frame, kit.address(number), 1.0), Paged)
    busy = [message for message, _ in replies if message.flags & Flag.BUSY]
    assert len(busy) == 2
    assert len(busy[0].items.rows) == 10
    joiner = kit.node(2)
    joiner.meets_strangers = True
    first = begun(kit, joiner, 1, 1.0)
    (request,) = kit.opened(first, Page)
    answer = wire.message(wire.PAGED, kit.speaker(1), (items.pack_row(kit.row(4)),), request[0].request, Flag.BUSY)
    (pause,) = [
        e for e in joiner.receive(kit.frames.wrap(answer), kit.address(1), 1.1) if isinstance(e, Wake) and e.after < 0.2
    ]
    (ask,) = [e for e in joiner.wake(pause.token, 1.2) if isinstance(e, Ask)]
    assert ask.to == kit.address(4)


def test_an_answer_to_nothing_teaches_nothing(kit):
    node = kit.node(1)
    answer = wire.message(wire.PAGED, kit.speaker(9), (items.pack_row(kit.row(4)),), request=12)
    node.receive(kit.frames.wrap(answer), kit.address(9), 1.0)
    assert node.member(kit.id(4)) is None
    assert node.counters["replies refused"] == 1


def test_a_partner_that_seems_dead_is_not_asked_by_pages(kit, told):
    node = kit.node(1)
    told(node, kit.row(2), sender=2)
    node._parts.syncer.soon(kit.id(2), 0.0)
    (wake,) = [e for e in node._core.taken() if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]
    (ask,) = [e for e in node.wake(wake.token, 10.0) if isinstance(e, Ask)]
    told(node, kit.row(2, Rank.SUSPECT, accusers=(3,)), sender=9)
    assert node.member(kit.id(2)).state is State.SUSPECT
    assert not [e for e in node.answered(ask.token, TimedOut(), 15.0) if isinstance(e, Send)]

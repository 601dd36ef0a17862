"""Commands and the border of a node."""

from __future__ import annotations

import pytest
from shoal.gossip import Change, Changed, Left, Node, Note, Rank, Send, State, UnknownNode, Vitals, Wake, items, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.frames import DATAGRAM_BYTES, PlainFrames
from shoal.gossip.messages import Ack, Gossip


@pytest.fixture
def node(kit, told) -> Node:
    node = kit.node(1)
    for number in (2, 3, 9):
        told(node, kit.row(number))
    return node


def test_leaving_is_told_at_once_and_again_answered_as_left_and_done_after_two_seconds(kit, node):
    effects = node.leave(1.0)
    assert Changed(kit.id(1), Change.LEFT) in effects
    told = kit.opened(effects, Gossip)
    assert {to for _, to in told} == {kit.address(number) for number in (2, 3, 9)}
    assert all(m.items.rows[0] == kit.row(1, Rank.LEFT) for m, _ in told)
    opening = wire.opening(wire.PING, 5, kit.speaker(2), 0, (0, bytes(8), 0, 0, 0))
    ping = kit.frames.wrap(opening + wire.aim(kit.id(1), 1000, Rank.ALIVE, 0) + items.pack_row(kit.row(4)))
    ((ack, _),) = kit.opened(node.receive(ping, kit.address(2), 1.5), Ack)
    assert kit.row(1, Rank.LEFT) in ack.items.rows
    now = 1.0
    while Left() not in effects:
        (wake,) = [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.LEAVE]
        now += wake.after
        effects = node.wake(wake.token, now)
        told = kit.opened(effects, Gossip)
        assert len(told) == (4 if now < 3.0 else 0)
        assert all(m.items.rows[0] == kit.row(1, Rank.LEFT) for m, _ in told)
    assert now == 3.0
    assert node.me.state is State.LEFT


def test_alone_there_is_nobody_to_say_goodbye_to(kit):
    (wake,) = [e for e in kit.node(1).leave(1.0) if isinstance(e, Wake)]
    assert wake.after == 0.0


def test_forgetting_an_unknown_node_or_ourselves_is_refused(kit, node):
    for number in (77, 1):
        with pytest.raises(UnknownNode, match=kit.id(number).hex()):
            node.forget(kit.id(number), 1.0)


@pytest.mark.parametrize("junk", [b"", b"\x00" * 40, b"GET / HTTP/1.1\r\n\r\n", PlainFrames("other").wrap(b"x" * 50)])
def test_what_is_not_ours_is_counted_noted_once_a_minute_and_nothing_else(kit, node, junk):
    before = [*node.members()]
    (note,) = node.receive(junk, ("192.0.2.1", 99), 1.0)
    assert isinstance(note, Note)
    assert note.fields["source"] == "192.0.2.1:99"
    assert node.receive(junk, ("192.0.2.1", 99), 50.0) == []
    assert len(node.receive(junk, ("192.0.2.1", 99), 62.0)) == 1
    assert sum(count for name, count in node.counters.items() if name.startswith("refused")) == 3
    assert [*node.members()] == before


def test_a_frame_of_ours_with_junk_inside_is_counted(kit, node):
    assert node.receive(kit.frames.wrap(b"\x01" * 60), kit.address(2), 1.0) == []
    assert any(name.startswith("malformed") for name in node.counters)
    assert node.serve(kit.frames.wrap(b"junk"), kit.address(2), 1.0)[0] is None


def test_a_stream_request_that_makes_no_sense_is_closed(kit, node):
    data = kit.frames.wrap(wire.message(wire.PULLED, kit.speaker(2)))
    assert node.serve(data, kit.address(2), 1.0) == (None, [])


def test_no_datagram_is_bigger_than_any_path_carries(kit, told, node):
    node.publish(1, bytes(440), 0.0)
    for number in range(10, 200):
        told(node, kit.row(number, heads=(items.Head(1, 1, bytes(8)),)), sender=number)
    for number in range(10, 200):
        node._parts.spread.row(kit.id(number), 0.0)
    effects = [e for now in range(20) for e in node._parts.spread.burst(3, float(now)) or node._core.taken()]
    effects += node.wake(next(e.token for e in kit.node(8).start(0.0) if isinstance(e, Wake)), 30.0)
    sizes = [len(e.data) for e in effects if isinstance(e, Send)]
    assert max(sizes) <= DATAGRAM_BYTES
    assert max(sizes) > DATAGRAM_BYTES - 100


def test_gossip_ticks_only_while_something_is_queued(kit, told):
    ticks, node = 0, kit.node(1)
    effects = told(node, kit.row(2))
    pending = [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.GOSSIP]
    while pending and ticks < 100:
        effects = node.wake(pending.pop().token, 2.0 + ticks)
        ticks += 1
        pending += [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.GOSSIP]
    assert 0 < ticks < 20


def test_a_row_about_the_receiver_goes_first_if_it_may_deny_it(kit, told, node):
    told(node, kit.row(2, Rank.SUSPECT, accusers=(9,)))
    told(node, kit.row(10), sender=10)
    sent = []
    for now in range(30):
        node._parts.spread.row(kit.id(10), float(now))
        node._parts.spread.burst(4, float(now))
        sent += [m for m, to in kit.opened(node._core.taken(), Gossip) if to == kit.address(2)]
    assert sent
    assert all(message.items.rows[0].claim.node_id == kit.id(2) for message in sent)


def test_own_vitals_ride_in_pings_and_change_by_quanta(kit, node):
    assert Changed(kit.id(1), Change.VITALS) in node.set_vitals(Vitals(available_mib=1000), 1.0)
    assert node.set_vitals(Vitals(available_mib=5000), 1.5) == []
    assert node.set_vitals(Vitals(available_mib=1001), 10.0) == []
    assert node.set_vitals(Vitals(available_mib=5000), 10.0) != []
    assert node.set_vitals(Vitals(available_mib=5000), 41.0) != []
    assert node.me.vitals == Vitals(counter=3, available_mib=5000)


def test_vitals_of_others_are_shown_with_their_age(kit, node):
    def arrive(counter: int, age: float, now: float):
        data = items.pack_vitals(kit.id(2), 1000, age, Vitals(counter=counter, available_mib=counter).pack())
        return node.receive(kit.gossip(9, data), kit.address(9), now)

    assert Changed(kit.id(2), Change.VITALS) in arrive(5, 2.0, 10.0)
    assert arrive(4, 0.0, 11.0) == []
    member = node.member(kit.id(2))
    assert (member.vitals.available_mib, member.vitals_at) == (5, 8.0)


def test_after_a_gap_suspects_get_their_time_again_and_nobody_is_accused_until_a_sync(kit, told, node):
    told(node, kit.row(2, Rank.SUSPECT, accusers=(9,)), now=1.0)
    effects = node.resumed(3600.0, 100.0)
    assert [e.after for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SUSPICION] == [24.0]
    assert [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]
    assert node._core.accuse_after > 0
    assert len(node._parts.spread) == 0


def test_snapshot_names_where_the_living_are(kit, told, node):
    told(node, kit.row(3, Rank.LEFT))
    assert set(node.snapshot()) == {kit.address(2), kit.address(9)}


def test_snapshot_names_some_of_the_lost_behind_them(kit, told):
    node = kit.node(1, remembered=[kit.address(1), kit.address(2), kit.address(40)])
    for number in range(20, 33):
        told(node, kit.row(number, Rank.DEAD, incarnation=1), age=0, now=float(number))
    told(node, kit.row(2), now=40.0)
    told(node, kit.row(3, Rank.LEFT), now=40.0)
    lost = [kit.address(number) for number in range(32, 24, -1)]
    assert list(node.snapshot()) == [kit.address(9), kit.address(2), *lost]


def test_snapshot_names_remembered_addresses_where_nobody_was_found(kit, told):
    node = kit.node(1, remembered=[kit.address(1), kit.address(2), kit.address(40)])
    told(node, kit.row(2, Rank.LEFT))
    assert list(node.snapshot()) == [kit.address(9), kit.address(40)]

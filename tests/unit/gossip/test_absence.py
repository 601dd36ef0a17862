"""After a gap nobody is accused until a sync; after an hour away our rows teach nothing until one."""

from __future__ import annotations

import pytest
from shoal.gossip import Ask, Change, Changed, Node, Note, Rank, Send, State, Wake, items, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.messages import Flag, Ping

HOUR = 3600.0


@pytest.fixture
def node(kit, told) -> Node:
    node = kit.node(1)
    for number in (2, 3, 4):
        told(node, kit.row(number), sender=number)
    return node


def asks(effects):
    return [e for e in effects if isinstance(e, Ask)]


def sync(kit, node: Node, effects, now: float):
    """The ask of the sync that these effects begin."""
    (wake,) = [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]
    (ask,) = asks(node.wake(wake.token, now))
    return ask


def reply(kit, sender: int, hashes, *rows, flags: int = 0) -> bytes:
    body = [items.pack_hashes(hashes), *(items.pack_row(row) for row in rows)]
    return kit.frames.wrap(wire.message(wire.SYNCED, kit.speaker(sender), body, flags=flags))


def test_after_a_gap_a_sync_begins_and_its_end_allows_accusing(kit, node):
    ask = sync(kit, node, node.lagged(5.0, 10.0), 10.0)
    assert node._core.accuse_after > 10.0
    node.answered(ask.token, reply(kit, 2, node._core.table.buckets), 10.1)
    assert node._core.accuse_after < 10.1


def test_where_no_sync_succeeds_accusing_begins_again_after_a_sync_interval(kit, node):
    node.lagged(5.0, 10.0)
    assert node._core.accuse_after == 10.0 + node.settings.sync_interval


def test_it_goes_on_asking_until_a_sync_succeeds(kit, node):
    ask = sync(kit, node, node.lagged(5.0, 10.0), 10.0)
    node.answered(ask.token, b"junk", 11.0)
    effects = node.wake(_probe(), 12.0)
    assert sync(kit, node, effects, 12.0)


def _probe():
    from shoal.gossip import Token

    return Token(Purpose.PROBE)


def test_a_short_gap_doubts_nothing(kit, node):
    node.lagged(HOUR - 1, 4000.0)
    assert not node._core.stale


def test_after_an_hour_it_tells_only_of_itself(kit, told, node):
    effects = node.resumed(HOUR, 10.0)
    assert node._core.stale
    assert any(isinstance(e, Note) and e.event == "rows.doubted" for e in effects)
    told(node, kit.row(5), sender=2, now=10.0)
    assert len(node._parts.spread) == 0
    node.publish(1, b"record", 10.0)
    assert set(node._parts.spread.rows._level_of) == {kit.id(1)}
    request = kit.frames.wrap(wire.message(wire.SYNC, kit.speaker(2), (items.pack_hashes([0] * 64),)))
    frame, _ = node.serve(request, kit.address(2), 10.0)
    answer = wire.decode(kit.frames.unwrap(frame))
    assert answer.flags & Flag.STALE
    assert [row.claim.node_id for row in answer.items.rows] == [kit.id(1)]


def test_the_sync_confirms_some_rows_and_drops_the_others(kit, told, node):
    told(node, kit.row(6), sender=6)
    told(node, kit.row(7), sender=7)
    ask = sync(kit, node, node.resumed(HOUR, 10.0), 10.0)
    told(node, kit.row(4), sender=4, now=10.5)
    equal = list(node._core.table.buckets)
    for number in (2, 3, 6):
        equal[number] ^= 1
    effects = node.answered(ask.token, reply(kit, 2, equal, kit.row(3)), 11.0)
    assert not node._core.stale
    # 2 speaks, 3 is told of, 4 was heard, 7 is in a bucket that agrees; of 6 nobody says anything.
    assert {m.node_id for m in node.members()} == {kit.id(number) for number in (1, 2, 3, 4, 7)}
    assert Changed(kit.id(6), Change.FORGOTTEN) in effects
    assert kit.id(6) not in node._core.table.live


def test_a_sync_with_another_sleeper_confirms_nothing(kit, node):
    ask = sync(kit, node, node.resumed(HOUR, 10.0), 10.0)
    node.answered(ask.token, reply(kit, 2, node._core.table.buckets, flags=Flag.STALE), 11.0)
    assert node._core.stale
    assert node._core.accuse_after < 11.0


def test_where_all_slept_the_rows_are_believed_again_after_a_while(kit, node):
    node.resumed(HOUR, 10.0)
    now = 10.0
    while node._core.stale:
        now += 1.0
        node.receive(kit.gossip(2), kit.address(2), now)
        node.wake(_probe(), now)
        assert now < 60.0
    assert now >= 10.0 + node.settings.sync_interval
    assert node.alive == 4


def test_an_hour_without_contact_is_the_same(kit, node):
    node.receive(kit.gossip(2), kit.address(2), 1.0)
    node.wake(_probe(), 1.0 + HOUR - 1)
    assert not node._core.stale
    node.wake(_probe(), 1.0 + HOUR)
    assert node._core.stale
    effects = node.wake(_probe(), 1.0 + HOUR + 1)
    assert all(m.sender.node_id == kit.id(1) for m, _ in kit.opened(effects, Ping))


def test_a_stale_node_still_answers_and_still_shows_its_members(kit, node):
    node.resumed(HOUR, 10.0)
    assert node.member(kit.id(3)).state is State.ALIVE
    opening = wire.opening(wire.PING, 5, kit.speaker(2), 0, (0, bytes(8), 0, 0, 0))
    ping = kit.frames.wrap(opening + wire.aim(kit.id(1), 1000, Rank.ALIVE, 0))
    assert any(isinstance(e, Send) for e in node.receive(ping, kit.address(2), 11.0))

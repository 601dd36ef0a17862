from __future__ import annotations

import pytest
from shoal.gossip import Ask, Change, Changed, Node, Rank, Refused, SectionKind, SectionTooLarge, Wake, items, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.member import SECTION_LIMIT, Section
from shoal.gossip.messages import Gossip, Head, Pulled, Want
from shoal.gossip.spread import LARGEST_SPREAD

RECORD = SectionKind.RECORD


def section(payload: bytes, version: int = 1, generation: int = 1000) -> Section:
    return Section(generation, version, items.digest_of(payload), payload)


def head(held: Section) -> Head:
    return Head(RECORD, held.version, held.digest)


@pytest.fixture
def node(kit, told) -> Node:
    node = kit.node(1)
    for number in (2, 3, 9):
        told(node, kit.row(number))
    return node


def test_what_is_published_is_told_at_once_with_its_row(kit, node):
    effects = node.publish(RECORD, b"labels", 1.0)
    assert Changed(kit.id(1), Change.SECTION, RECORD) in effects
    for message, _ in kit.opened(effects, Gossip):
        assert message.items.rows[0].heads == (head(section(b"labels")),)
        assert message.items.sections[0].section == section(b"labels")
    assert node.me.sections[RECORD].payload == b"labels"
    assert node.publish(RECORD, b"labels", 2.0) == []
    node.publish(RECORD, b"other", 3.0)
    assert node.me.sections[RECORD].version == 2


@pytest.mark.parametrize("size", [0, 1, LARGEST_SPREAD, LARGEST_SPREAD + 1, SECTION_LIMIT])
def test_every_size_up_to_the_limit_is_taken_and_the_queue_drains(node, size):
    node.publish(RECORD, bytes(size), 1.0)
    for number in range(40):
        node._parts.spread.burst(3, 2.0 + number)
    assert len(node._parts.spread) == 0


def test_over_the_limit_is_an_error_and_changes_nothing(node):
    with pytest.raises(SectionTooLarge, match="16385"):
        node.publish(RECORD, bytes(SECTION_LIMIT + 1), 1.0)
    assert RECORD not in node.me.sections


def arrive(kit, node, held: Section, number: int = 2, now: float = 1.0):
    return node.receive(kit.gossip(9, items.pack_section(kit.id(number), RECORD, held)), kit.address(9), now)


def test_a_newer_section_is_held_shown_and_passed_on(kit, node):
    assert Changed(kit.id(2), Change.SECTION, RECORD) in arrive(kit, node, section(b"new", 2))
    assert (kit.id(2), RECORD) in node._parts.spread.sections
    assert arrive(kit, node, section(b"old", 1)) == []
    assert node.member(kit.id(2)).sections[RECORD].payload == b"new"


def test_a_section_of_a_life_that_is_not_known_yet_waits_for_the_row(kit, node):
    assert arrive(kit, node, section(b"new", generation=2000)) == []
    assert not node.member(kit.id(2)).sections


def test_kinds_without_a_meaning_here_are_kept(kit, node):
    data = items.pack_section(kit.id(2), 200, section(b"future"))
    node.receive(kit.gossip(9, data), kit.address(9), 1.0)
    assert node.member(kit.id(2)).sections[200].payload == b"future"


def pull_timers(effects):
    return [(e.token, e.after) for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.PULL]


def test_what_gossip_missed_is_pulled_from_who_named_it_then_from_others(kit, node, told):
    wanted = section(b"payload", 4)
    ((token, wait),) = pull_timers(told(node, kit.row(2, heads=(head(wanted),)), sender=9, now=1.0))
    assert 0.4 <= wait <= 0.8 + 0.1
    assert [e for e in node.wake(token, 1.0) if isinstance(e, Ask)] == []
    (ask,) = [e for e in node.wake(token, 1.0 + wait) if isinstance(e, Ask)]
    assert ask.to == kit.address(9)
    assert wire.decode(kit.frames.unwrap(ask.payload)).items.wants == (Want(kit.id(2), 1000, RECORD, 4),)
    asked = [ask.to]
    for number in range(2):
        now = 10.0 * (number + 1)
        ((token, wait), *_) = pull_timers(node.answered(ask.token, Refused(), now))
        (ask,) = [e for e in node.wake(token, now + wait) if isinstance(e, Ask)]
        asked.append(ask.to)
    assert asked[2] == kit.address(2)
    reply = wire.message(wire.PULLED, kit.speaker(2), (items.pack_section(kit.id(2), RECORD, wanted),))
    effects = node.answered(ask.token, kit.frames.wrap(reply), 40.0)
    assert Changed(kit.id(2), Change.SECTION, RECORD) in effects


def test_news_of_another_section_does_not_put_a_pull_off(kit, node, told):
    """Of a node that changes often: what is missing would be waited for again and again."""
    wanted = section(b"payload", 4)
    ((token, wait),) = pull_timers(told(node, kit.row(2, heads=(head(wanted),)), now=1.0))
    for version in range(1, 8):
        heads = (head(wanted), Head(SectionKind.HISTORY, version, bytes(8)))
        told(node, kit.row(2, heads=heads), now=1.0 + version * wait / 8)
    (ask,) = [e for e in node.wake(token, 1.0 + wait) if isinstance(e, Ask)]
    assert Want(kit.id(2), 1000, RECORD, 4) in wire.decode(kit.frames.unwrap(ask.payload)).items.wants


def test_what_gossip_brings_meanwhile_is_not_pulled(kit, node, told):
    wanted = section(b"payload", 4)
    ((token, wait),) = pull_timers(told(node, kit.row(2, heads=(head(wanted),)), now=1.0))
    arrive(kit, node, wanted)
    assert [e for e in node.wake(token, 1.0 + wait) if isinstance(e, Ask)] == []


def test_the_same_bytes_in_a_new_life_are_not_fetched_again(kit, node, told):
    told(node, kit.row(2, heads=(head(section(b"same")),)))
    arrive(kit, node, section(b"same"))
    again = section(b"same", 1, generation=2000)
    effects = told(node, kit.row(2, generation=2000, heads=(head(again),)))
    assert pull_timers(effects) == []
    assert node.member(kit.id(2)).sections[RECORD] == again


@pytest.mark.parametrize("whole", [False, True], ids=["named by the row", "on its way"])
def test_what_a_new_life_says_again_is_told_though_it_is_the_same(kit, node, told, whole):
    """Until then it may have been heard of by a ping alone, and what its last life said holds no longer."""
    arrive(kit, node, section(b"same"))
    again = section(b"same", 1, generation=2000)
    told(node, kit.row(2, generation=2000))
    effects = arrive(kit, node, again) if whole else told(node, kit.row(2, generation=2000, heads=(head(again),)))
    assert Changed(kit.id(2), Change.SECTION, RECORD, again=True) in effects
    assert node.member(kit.id(2)).sections[RECORD] == again


def test_the_section_of_a_tombstone_is_held_and_nobody_is_told(kit, node, told):
    told(node, kit.row(5, Rank.DEAD))
    assert not [e for e in arrive(kit, node, section(b"labels"), 5) if isinstance(e, Changed)]
    effects = told(node, kit.row(5, incarnation=1))
    assert Changed(kit.id(5), Change.JOINED) in effects
    assert node.member(kit.id(5)).sections[RECORD].payload == b"labels"


def test_who_comes_back_after_its_sections_were_dropped_is_asked_for_them_again(kit, node, told):
    held = section(b"labels")
    told(node, kit.row(2, heads=(head(held),)))
    arrive(kit, node, held)
    dead = kit.row(2, Rank.DEAD, heads=(head(held),))
    for timer in [e.token for e in told(node, dead, now=1.0) if isinstance(e, Wake)]:
        node.wake(timer, 90.0)
    told(node, dead, now=90.0, age=24 * 3600)
    assert node._core.table.get(kit.id(2)).reaped
    assert pull_timers(told(node, kit.row(2, incarnation=1, heads=(head(held),)), now=91.0))


def test_pulls_are_served_up_to_a_limit_a_second(kit, node):
    node.publish(RECORD, b"labels", 1.0)
    wants = (items.pack_want(Want(kit.id(1), 1000, RECORD, 1)), items.pack_want(Want(kit.id(50), 1000, RECORD, 1)))
    request = kit.frames.wrap(wire.message(wire.PULL, kit.speaker(2), wants))
    replies = [wire.decode(kit.frames.unwrap(node.serve(request, kit.address(2), 2.0)[0])) for _ in range(33)]
    assert [item.section for item in replies[0].items.sections] == [section(b"labels")]
    assert [isinstance(reply, Pulled) for reply in replies] == [True] * 32 + [False]
    assert wire.decode(kit.frames.unwrap(node.serve(request, kit.address(2), 3.1)[0])).items.sections

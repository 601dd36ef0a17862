"""The shown state: what a node makes of what it is told, and when."""

from __future__ import annotations

from itertools import permutations

import pytest
from shoal.gossip import Change, Changed, Node, Rank, State, Wake
from shoal.gossip.effects import Purpose
from shoal.gossip.messages import Gossip

SHORTEST = 4.0  # lan, up to ten members
DAY = 24 * 3600.0


def events(effects) -> list[Change]:
    return [effect.what for effect in effects if isinstance(effect, Changed)]


def fire(node: Node, effects, purpose: Purpose, now: float):
    """Fire the timers of that purpose among the effects, as late as `now`."""
    return [e for w in effects if isinstance(w, Wake) and w.token.purpose is purpose for e in node.wake(w.token, now)]


@pytest.fixture
def node(kit, told) -> Node:
    """Knows 9, who tells it things, and 2, about whom."""
    node = kit.node(1)
    told(node, kit.row(2))
    return node


def shown(kit, node: Node, number: int = 2) -> State | None:
    member = node.member(kit.id(number))
    return None if member is None else member.state


def test_a_new_member_joins(kit, told):
    node = kit.node(1)
    effects = told(node, kit.row(2))
    assert events(effects) == [Change.JOINED, Change.JOINED]  # the teller and the told
    assert node.alive == 3


def test_a_suspicion_runs_out_into_death(kit, told, node):
    suspected = told(node, kit.row(2, Rank.SUSPECT, accusers=(9,)), now=1.0)
    assert events(suspected) == [Change.SUSPECTED]
    assert fire(node, suspected, Purpose.SUSPICION, 1.0 + SHORTEST - 0.1) == []
    assert shown(kit, node) is State.SUSPECT
    failed = fire(node, suspected, Purpose.SUSPICION, 1.0 + SHORTEST)
    assert events(failed) == [Change.FAILED]
    assert node.member(kit.id(2)).since == 1.0 + SHORTEST


def test_a_refutation_in_time_ends_it(kit, told, node):
    suspected = told(node, kit.row(2, Rank.SUSPECT, accusers=(9,)), now=1.0)
    assert events(told(node, kit.row(2, incarnation=1), now=2.0)) == [Change.REFUTED]
    assert fire(node, suspected, Purpose.SUSPICION, 9.0) == []
    assert shown(kit, node) is State.ALIVE


def test_more_accusers_shorten_a_suspicion(kit, told):
    node = kit.node(1)
    for number in range(2, 9):
        told(node, kit.row(number))
    first = told(node, kit.row(2, Rank.SUSPECT, accusers=(3,)), now=0.0)
    (alone,) = [e.after for e in first if isinstance(e, Wake) and e.token.purpose is Purpose.SUSPICION]
    more = told(node, kit.row(2, Rank.SUSPECT, accusers=(4, 5)), now=1.0)
    (together,) = [e.after for e in more if isinstance(e, Wake) and e.token.purpose is Purpose.SUSPICION]
    assert (alone, together) == (pytest.approx(6 * SHORTEST), pytest.approx(SHORTEST - 1.0))
    assert told(node, kit.row(2, Rank.SUSPECT, accusers=(4, 5)), now=2.0) == []


def test_a_death_by_hearsay_gives_the_accused_its_time_and_tells_it(kit, told, node):
    effects = told(node, kit.row(2, Rank.DEAD), now=1.0)
    assert events(effects) == [Change.SUSPECTED]
    warnings = [m for m, to in kit.opened(effects, Gossip) if to == kit.address(2)]
    assert warnings[0].items.rows == (kit.row(2, Rank.DEAD),)
    told(node, kit.row(2, Rank.DEAD), now=3.0)  # a repetition changes nothing
    assert events(fire(node, effects, Purpose.SUSPICION, 1.0 + SHORTEST)) == [Change.FAILED]


def test_a_death_by_hearsay_is_not_passed_on_before_it_is_shown(kit, told, node):
    effects = told(node, kit.row(2, Rank.DEAD), now=1.0)
    assert kit.id(2) not in node._parts.spread.rows or node._core.table.get(kit.id(2)).told().claim.rank is Rank.SUSPECT
    fire(node, effects, Purpose.SUSPICION, 1.0 + SHORTEST)
    assert node._core.table.get(kit.id(2)).told().claim.rank is Rank.DEAD
    assert kit.id(2) in node._parts.spread.rows


def test_leaving_is_shown_at_once_and_beats_death(kit, told, node):
    assert events(told(node, kit.row(2, Rank.LEFT), now=1.0)) == [Change.LEFT]
    assert events(told(node, kit.row(2, Rank.DEAD, incarnation=7), now=1.0)) == []
    assert shown(kit, node) is State.LEFT


@pytest.mark.parametrize("end", [Rank.ALIVE, Rank.SUSPECT, Rank.DEAD, Rank.LEFT])
def test_a_restart_is_one_event_whatever_was_shown(kit, told, node, end):
    effects = told(node, kit.row(2, end, accusers=(9,) if end is Rank.SUSPECT else ()), now=1.0)
    fire(node, effects, Purpose.SUSPICION, 9.0)
    assert events(told(node, kit.row(2, generation=2000), now=10.0)) == [Change.REPLACED]
    assert shown(kit, node) is State.ALIVE


def test_the_dead_of_unknown_name_raise_no_event_and_no_member(kit, told, node):
    for number, rank in ((5, Rank.DEAD), (6, Rank.LEFT)):
        assert events(told(node, kit.row(number, rank))) == []
        assert shown(kit, node, number) is None
    assert events(told(node, kit.row(5))) == []  # the tombstone holds
    assert events(told(node, kit.row(5, incarnation=1))) == [Change.JOINED]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_two_lives_and_two_deaths_in_every_order(kit, told, order):
    node = kit.node(1)
    claims = [
        kit.row(2, incarnation=1),
        kit.row(2, Rank.DEAD, incarnation=1),
        kit.row(2, Rank.DEAD, incarnation=10),
        kit.row(2, incarnation=2),
    ]
    effects = [effect for index in order for effect in told(node, claims[index], now=1.0)]
    assert node._core.table.get(kit.id(2)).claim == claims[2].claim
    fire(node, effects, Purpose.SUSPICION, 1.0 + SHORTEST)
    assert shown(kit, node) in {State.DEAD, None}


def test_one_that_we_show_dead_speaks_only_of_itself_and_of_us(kit, told, node):
    effects = told(node, kit.row(9, Rank.SUSPECT, accusers=(2,)), sender=2, now=1.0)
    fire(node, effects, Purpose.SUSPICION, 90.0)
    assert shown(kit, node, 9) is State.DEAD
    assert events(told(node, kit.row(2, Rank.DEAD), sender=9, now=91.0)) == []
    told(node, kit.row(1, Rank.SUSPECT, accusers=(9,)), sender=9, now=92.0)
    assert node.me.incarnation == 1
    assert events(told(node, kit.row(9, incarnation=1), sender=9, now=93.0)) == [Change.REFUTED]


def test_an_older_claim_is_answered_with_the_newer_one_but_not_at_once_again(kit, told, node):
    told(node, kit.row(2, incarnation=3))
    answers = [m for m, to in kit.opened(told(node, kit.row(2), now=5.0), Gossip) if to == kit.address(9)]
    assert answers[0].items.rows == (kit.row(2, incarnation=3),)
    assert kit.opened(told(node, kit.row(2), now=5.5), Gossip) == []
    assert kit.opened(told(node, kit.row(2), now=6.5), Gossip)


def test_a_changed_address_is_told(kit, told, node):
    moved = kit.row(2, incarnation=1)
    moved = moved._replace(claim=moved.claim._replace(address=("10.0.0.200", 1)))
    assert events(told(node, moved)) == [Change.ADDRESS]
    assert node.member(kit.id(2)).address == ("10.0.0.200", 1)


def test_the_long_dead_are_reaped_and_later_forgotten_and_never_come_back_by_themselves(kit, told, node):
    told(node, kit.row(2, Rank.LEFT), now=1.0)
    probe = next(e for e in node._core.taken() or kit.node(3).start(0.0) if isinstance(e, Wake)).token
    assert events(node.wake(probe, 2.0 + DAY)) == [Change.FORGOTTEN]
    assert shown(kit, node) is None
    assert events(told(node, kit.row(2), now=3.0 + DAY)) == []
    node.wake(probe, 2.0 + 7 * DAY)
    assert node._core.table.get(kit.id(2)) is None


def test_a_week_that_passes_at_once_is_told_as_a_day_is(kit, told, node):
    """A machine that was frozen: what it shows must not outlive what it knows."""
    told(node, kit.row(2, Rank.LEFT), now=1.0)
    (probe,) = [e.token for e in kit.node(3).start(0.0) if isinstance(e, Wake)]
    assert events(node.wake(probe, 2.0 + 7 * DAY)) == [Change.FORGOTTEN]
    assert node._core.table.get(kit.id(2)) is None


def test_ages_merge_by_maximum(kit, told, node):
    told(node, kit.row(2, Rank.LEFT), now=100.0, age=10)
    told(node, kit.row(2, Rank.LEFT), now=100.0, age=50)
    told(node, kit.row(2, Rank.LEFT), now=100.0, age=20)
    assert node._core.table.get(kit.id(2)).ended_at == 50.0
    assert events(told(node, kit.row(2, Rank.LEFT), now=100.0, age=int(DAY))) == [Change.FORGOTTEN]
    assert events(told(node, kit.row(7, Rank.LEFT), now=100.0, age=int(8 * DAY))) == []
    assert node._core.table.get(kit.id(7)) is None


def test_forgetting_is_at_once_and_travels(kit, told, node):
    effects = node.forget(kit.id(2), 5.0)
    assert events(effects) == [Change.LEFT, Change.FORGOTTEN]
    other = kit.node(3)
    told(other, kit.row(2))
    packed = node._core.table.packed(node._core.table.get(kit.id(2)))
    assert events(other.receive(kit.gossip(9, packed), kit.address(9), 1.0)) == [Change.LEFT, Change.FORGOTTEN]

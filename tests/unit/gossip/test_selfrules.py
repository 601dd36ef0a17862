"""What a node does about claims about itself."""

from __future__ import annotations

import pytest
from shoal.gossip import Change, Changed, Conflict, Identity, Node, Persist, Rank, Send, State, Token, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.messages import Ack, Gossip, Ping


@pytest.fixture
def node(kit, told) -> Node:
    node = kit.node(1)
    for number in (2, 3, 9):
        told(node, kit.row(number))
    return node


def of(effects, kind):
    return [effect for effect in effects if isinstance(effect, kind)]


@pytest.mark.parametrize("rank", [Rank.SUSPECT, Rank.DEAD])
@pytest.mark.parametrize("claimed", [0, 7])
def test_an_accusation_is_refuted_in_one_step_and_told_at_once(kit, told, node, rank, claimed):
    effects = told(node, kit.row(1, rank, incarnation=claimed), now=5.0)
    assert node.me.incarnation == claimed + 1
    gossip = kit.opened(effects, Gossip)
    assert len(gossip) == 4
    assert gossip[-1][1] == kit.address(9), "the accuser itself"
    assert all(kit.row(1, incarnation=claimed + 1) in m.items.rows for m, _ in gossip)
    assert node.health == 1


def test_whoever_holds_what_we_were_is_told_at_most_once_a_second(kit, told, node):
    told(node, kit.row(1, Rank.SUSPECT, incarnation=4), now=1.0)
    old = kit.row(1, Rank.SUSPECT, incarnation=2)
    for now, answers in ((2.5, 1), (2.6, 0), (3.6, 1)):
        sent = kit.opened(told(node, old, now=now), Gossip)
        assert [to for _, to in sent] == [kit.address(9)] * answers
        assert all(kit.row(1, incarnation=5) in m.items.rows for m, _ in sent)


def test_refutations_are_told_at_once_only_a_few_times_a_second(kit, told, node):
    bursts = [
        len(kit.opened(told(node, kit.row(1, Rank.DEAD, incarnation=incarnation), now=5.0), Gossip))
        for incarnation in range(10)
    ]
    assert node.me.incarnation == 10
    assert sum(bursts) <= 4 * 3 + 1


def test_nothing_is_passed_on_while_our_identity_is_in_doubt(kit, told, node):
    told(node, kit.row(5), now=5.0)
    assert len(node._parts.spread)
    told(node, kit.row(1, incarnation=3)._replace(heads=()), now=5.0)
    assert node._core.paused
    assert node._parts.spread.fill(1000) == []
    assert not kit.opened(node.publish(1, b"record", 5.1), Gossip)


def test_a_move_is_a_new_incarnation_with_the_address(kit, node):
    effects = node.move(("::ffff:10.0.0.77", 9000), 5.0)
    assert node.me.address == ("10.0.0.77", 9000)
    assert node.me.incarnation == 1
    assert kit.opened(effects, Gossip)
    assert node.move(("10.0.0.77", 9000), 6.0) == []


def test_a_new_incarnation_of_ours_is_shown_here_too(kit, told, node):
    changes = [effect.what for effect in told(node, kit.row(1, Rank.SUSPECT)) if isinstance(effect, Changed)]
    changes += [effect.what for effect in node.move(("10.0.0.77", 9000), 5.0) if isinstance(effect, Changed)]
    assert changes == [Change.REFUTED, Change.ADDRESS]


def test_an_accusation_of_an_older_incarnation_or_life_is_nothing(kit, told, node):
    told(node, kit.row(1, Rank.DEAD, incarnation=4))
    assert told(node, kit.row(1, Rank.DEAD, incarnation=4)) == []
    assert told(node, kit.row(1, Rank.DEAD, generation=999, incarnation=50)) == []
    assert node.me.incarnation == 5


def test_an_incarnation_driven_far_up_starts_a_new_generation(kit, told, node):
    effects = told(node, kit.row(1, Rank.SUSPECT, incarnation=(1 << 31) - 1))
    assert of(effects, Persist)[0].identity.generation == 1001
    assert (node.me.generation, node.me.incarnation) == (1001, 0)


@pytest.mark.parametrize(
    "claim",
    [
        {"generation": 1007},
        {"rank": Rank.LEFT},
        {"incarnation": 3},
        {"rank": Rank.DEAD, "generation": 1007},
    ],
)
def test_what_only_an_owner_can_have_claimed_is_checked_at_its_address(kit, told, node, claim):
    elsewhere = kit.row(1, **claim)
    elsewhere = elsewhere._replace(claim=elsewhere.claim._replace(address=("10.0.0.77", 7931)))
    effects = told(node, elsewhere, now=5.0)
    ((ping, to),) = kit.opened(effects, Ping)
    assert to == ("10.0.0.77", 7931)
    assert (ping.target, ping.target_generation) == (kit.id(1), claim.get("generation", 1000))
    assert told(node, elsewhere, now=5.1) == []  # one check at a time


def check(kit, told, node, **claim):
    elsewhere = kit.row(1, **claim)
    elsewhere = elsewhere._replace(claim=elsewhere.claim._replace(address=("10.0.0.77", 7931)))
    ((ping, _),) = kit.opened(told(node, elsewhere, now=5.0), Ping)
    return ping


def reply(kit, ping, boot_id: bytes, generation: int) -> bytes:
    from shoal.gossip import items

    opening = wire.opening(wire.ACK, ping.request, kit.speaker(1, generation=generation), 0, ping.summary)
    return kit.frames.wrap(opening + items.pack_boot_id(boot_id))


ECHOES = [
    ({"generation": 1007}, (1008, 0)),
    ({"rank": Rank.LEFT}, (1001, 0)),
    ({"incarnation": 3}, (1000, 4)),
]


@pytest.mark.parametrize(("claim", "version"), ECHOES)
def test_an_echo_of_the_past_is_outdone_when_nobody_answers_there(kit, told, node, claim, version):
    ping = check(kit, told, node, **claim)
    effects = node.wake(Token(Purpose.SELF, number=ping.request), 6.0)
    assert (node.me.generation, node.me.incarnation) == version
    assert bool(of(effects, Persist)) is (version[0] > 1000)


@pytest.mark.parametrize(("claim", "version"), ECHOES)
def test_an_echo_of_the_past_is_outdone_when_we_answer_ourselves(kit, told, node, claim, version):
    ping = check(kit, told, node, **claim)
    node.receive(reply(kit, ping, kit.identity(1).boot_id, 1000), ("10.0.0.77", 7931), 5.1)
    assert (node.me.generation, node.me.incarnation) == version


def test_who_is_taken_for_another_address_says_its_own_from_then_on(kit, told, node):
    """Else each new incarnation is taken for the wrong address again: a node of both families never settles."""
    ping = check(kit, told, node)
    effects = node.receive(reply(kit, ping, kit.identity(1).boot_id, 1000), ("10.0.0.77", 7931), 5.1)
    assert node.me.incarnation == 1
    sent = kit.opened(effects, Gossip)
    assert sent
    assert {message.items.address for message, _ in sent} == {node.me.address}


def test_of_live_twins_the_lower_takes_a_new_id(kit, told, node):
    ping = check(kit, told, node, generation=1007)
    effects = node.receive(reply(kit, ping, b"\xff" * 8, 1007), ("10.0.0.77", 7931), 5.1)
    (conflict,) = of(effects, Conflict)
    (persist,) = of(effects, Persist)
    assert conflict.old_node_id == kit.id(1)
    assert conflict.new_node_id == persist.identity.node_id == node.identity.node_id == node.me.node_id != kit.id(1)
    assert effects.index(persist) < min(i for i, e in enumerate(effects) if isinstance(e, Send))
    assert node.me.state is State.ALIVE


def test_of_live_twins_the_greater_keeps_its_id_and_says_so(kit, told, node):
    ping = check(kit, told, node, incarnation=3)
    effects = node.receive(reply(kit, ping, b"\x00" * 8, 1000), ("10.0.0.77", 7931), 5.1)
    assert of(effects, Conflict) == [Conflict(kit.id(1), None, ("10.0.0.77", 7931))]
    assert node.identity.node_id == kit.id(1)
    assert node.me.incarnation == 4


def test_a_ping_in_our_own_name_is_answered_with_the_boot_id(kit, node):
    other = kit.node(1, generation=1007)
    other._core.identity = Identity(node_id=kit.id(1), generation=1007, boot_id=b"othertwo")
    opening = node._core.opening(wire.PING, 5, 0.0)
    ping = kit.frames.wrap(opening + wire.aim(kit.id(1), 1007, Rank.ALIVE, 0))
    ((ack, to),) = kit.opened(other.receive(ping, kit.address(1), 1.0), Ack)
    assert (ack.items.boot_id, to) == (b"othertwo", kit.address(1))


def test_at_the_cap_of_generations_it_becomes_another_node(kit, told, node):
    echo = kit.row(1, generation=(1 << 63) - 1)
    echo = echo._replace(claim=echo.claim._replace(address=None))
    told(node, echo)
    assert node.identity.node_id != kit.id(1)


def test_while_leaving_nothing_is_refuted(kit, told, node):
    node.leave(1.0)
    told(node, kit.row(1, Rank.DEAD, incarnation=9), now=1.1)
    assert (node.me.state, node.me.incarnation) == (State.LEFT, 0)

"""Rounds of probing, seen from the outside: what is sent, to whom, and when somebody is accused."""

from __future__ import annotations

import pytest
from shoal.gossip import Ask, Change, Changed, Node, Rank, Refused, Settings, State, TimedOut, Vitals, Wake, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.messages import Ack, Flag, Nack, NotMe, Ping, PingRequest, Summary

NO_SUMMARY = Summary(0, bytes(8), 0, 0, 0)


class Bench:
    """A node that knows members 2..n, and its probe timer."""

    def __init__(self, kit, told, members: int, settings: Settings | None = None) -> None:
        self.kit = kit
        self.node: Node = kit.node(1, settings)
        for number in range(2, members + 1):
            told(self.node, kit.row(number), sender=number)
        (self.tick,) = [e.token for e in kit.node(8).start(0.0) if isinstance(e, Wake)]
        self.target = 0

    def probe(self, now: float):
        """Fire the probe timer; the ping, and the effects."""
        effects = self.node.wake(self.tick, now)
        ((ping, to),) = self.kit.opened(effects, Ping)
        self.target = int(to[0].rpartition(".")[2])
        return ping, effects

    def fire(self, effects, purpose: Purpose, now: float):
        tokens = [e.token for e in effects if isinstance(e, Wake) and e.token.purpose is purpose]
        return [e for token in tokens for e in self.node.wake(token, now)]

    def ack(self, ping, now: float, **speaker):
        opening = wire.opening(wire.ACK, ping.request, self.kit.speaker(self.target, **speaker), 0, NO_SUMMARY)
        return self.node.receive(self.kit.frames.wrap(opening), self.kit.address(self.target), now)

    def say(self, kind: int, sender: int, request: int, now: float):
        data = self.kit.frames.wrap(wire.message(kind, self.kit.speaker(sender), request=request))
        return self.node.receive(data, self.kit.address(sender), now)

    def shown(self) -> State:
        return self.node.member(self.kit.id(self.target)).state


@pytest.fixture
def bench(kit, told):
    return lambda members, settings=None: Bench(kit, told, members, settings)


def after(effects, purpose: Purpose) -> float:
    return next(e.after for e in effects if isinstance(e, Wake) and e.token.purpose is purpose)


def test_everybody_is_pinged_once_a_round_and_a_silent_one_delays_nobody(bench):
    five = bench(5)
    targets = []
    for now in range(4):
        five.probe(float(now))
        targets.append(five.target)
    assert sorted(targets) == [2, 3, 4, 5]


def test_the_ping_says_for_whom_it_is_and_how_the_target_is_seen(kit, bench, told):
    two = bench(2)
    told(two.node, kit.row(2, Rank.SUSPECT, accusers=(7,), incarnation=3), sender=2)
    ping, effects = two.probe(1.0)
    assert (ping.target, ping.target_generation) == (kit.id(2), 1000)
    assert (ping.view_rank, ping.view_incarnation) == (Rank.SUSPECT, 3)
    assert after(effects, Purpose.PROBE) == 1.0


def test_an_ack_ends_the_round(bench):
    three = bench(3)
    ping, effects = three.probe(1.0)
    (deadline,) = [e.token for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.DIRECT]
    assert not three.node.moot(deadline)
    three.ack(ping, 1.01)
    assert three.node.moot(deadline)
    assert not three.node.moot(three.tick)
    assert three.fire(effects, Purpose.DIRECT, 1.5) == []


def test_without_an_ack_relays_and_tcp_are_asked(kit, bench):
    five = bench(5)
    ping, effects = five.probe(1.0)
    assert after(effects, Purpose.DIRECT) == 0.5
    asked = five.fire(effects, Purpose.DIRECT, 1.5)
    relays = kit.opened(asked, PingRequest)
    assert len(relays) == 3
    assert kit.address(five.target) not in [to for _, to in relays]
    assert {(m.request, m.target, m.wait_ms) for m, _ in relays} == {(ping.request, kit.id(five.target), 400)}
    (ask,) = [e for e in asked if isinstance(e, Ask)]
    assert (ask.to, ask.within) == (kit.address(five.target), 0.5)


@pytest.mark.parametrize("generation", [1000, 2000])
def test_an_ack_by_a_relay_and_a_newer_life_satisfy_too(kit, bench, generation):
    five = bench(5)
    ping, effects = five.probe(1.0)
    five.fire(effects, Purpose.DIRECT, 1.5)
    speaker = kit.speaker(five.target, generation=generation)
    relayed = wire.opening(wire.ACK, ping.request, speaker, 8, NO_SUMMARY)
    five.node.receive(kit.frames.wrap(relayed), kit.address(2 if five.target != 2 else 3), 1.7)
    assert five.fire(effects, Purpose.ROUND, 2.0) == []
    assert five.shown() is State.ALIVE


def fail(bench: Bench, *, nacks: int, tcp=None, now: float = 1.0):
    """A whole failed round; the effects of its end."""
    ping, effects = bench.probe(now)
    asked = bench.fire(effects, Purpose.DIRECT, now + 0.5)
    relays = [int(to[0].rpartition(".")[2]) for _, to in bench.kit.opened(asked, PingRequest)]
    said = [e for relay in relays[:nacks] for e in bench.say(wire.NACK, relay, ping.request, now + 0.9)]
    for ask in asked:
        if isinstance(ask, Ask) and tcp is not None:
            said += bench.node.answered(ask.token, tcp, now + 0.9)
    return said + bench.fire(asked, Purpose.ROUND, now + 1.0)


def test_with_a_witness_silence_is_an_accusation(kit, bench):
    five = bench(5)
    effects = fail(five, nacks=1)
    assert Changed(kit.id(five.target), Change.SUSPECTED) in effects
    row = five.node._core.table.get(kit.id(five.target)).row
    assert row.claim.accusers == (kit.id(1)[:8],)


def test_without_a_witness_it_is_not(bench):
    five = bench(5)
    fail(five, nacks=0)
    assert five.shown() is State.ALIVE
    assert five.node.counters["accusations without witness withheld"] == 1


def test_with_nobody_else_to_ask_it_is(bench):
    two = bench(2)
    fail(two, nacks=0)
    assert two.shown() is State.SUSPECT


def test_once_everyone_has_said_no_the_round_ends_early(bench):
    five = bench(5)
    ping, effects = five.probe(1.0)
    asked = five.fire(effects, Purpose.DIRECT, 1.5)
    (ask,) = [e for e in asked if isinstance(e, Ask)]
    five.node.answered(ask.token, Refused(), 1.51)
    for number in {2, 3, 4, 5} - {five.target}:
        assert five.shown() is State.ALIVE
        five.say(wire.NACK, number, ping.request, 1.6)
    assert five.shown() is State.SUSPECT


def test_when_tcp_answers_the_node_lives_and_its_udp_is_broken(kit, bench):
    five = bench(5)
    ping, effects = five.probe(1.0)
    asked = five.fire(effects, Purpose.DIRECT, 1.5)
    (ask,) = [e for e in asked if isinstance(e, Ask)]
    ack = wire.opening(wire.ACK, ping.request, kit.speaker(five.target), 0, NO_SUMMARY)
    five.node.answered(ask.token, kit.frames.wrap(ack), 1.6)
    ended = five.fire(asked, Purpose.ROUND, 2.0)
    assert ended == [Changed(kit.id(five.target), Change.UDP_BROKEN)]
    assert five.shown() is State.ALIVE
    assert five.node.member(kit.id(five.target)).udp_broken
    late = five.ack(ping, 2.5)
    assert Changed(kit.id(five.target), Change.UDP_WORKS) in late


def test_an_ack_over_tcp_tells_vitals_and_that_tables_differ_as_any_other(kit, bench):
    """A node without UDP hears no gossip: what streams say of tables is all that can fill its holes."""
    five = bench(5)
    _, effects = five.probe(1.0)
    asked = five.fire(effects, Purpose.DIRECT, 1.5)
    (ask,) = [e for e in asked if isinstance(e, Ask)]
    request = wire.decode(kit.frames.unwrap(ask.payload)).request
    flags = Flag.VITALS | Flag.YOUNG
    opening = wire.opening(wire.ACK, request, kit.speaker(five.target), flags, Summary(0, bytes(8), 77, 0, 0))
    told = five.node.answered(ask.token, kit.frames.wrap(opening + Vitals(available_mib=7).pack()), 1.6)
    assert five.node.member(kit.id(five.target)).vitals.available_mib == 7
    assert [e for e in told if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]


def test_a_ping_over_tcp_that_shows_other_tables_is_a_reason_to_sync(kit, bench):
    five = bench(5)
    opening = wire.opening(wire.PING, 5, kit.speaker(2), Flag.YOUNG, Summary(0, bytes(8), 77, 0, 0))
    ping = kit.frames.wrap(opening + wire.aim(kit.id(1), 1000, Rank.ALIVE, 0))
    _, effects = five.node.serve(ping, kit.address(2), 1.0)
    assert [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]


def test_an_ack_of_somebody_else_or_over_tcp_of_anything_is_none(kit, bench):
    five = bench(5)
    ping, effects = five.probe(1.0)
    asked = five.fire(effects, Purpose.DIRECT, 1.5)
    (ask,) = [e for e in asked if isinstance(e, Ask)]
    other = wire.opening(wire.ACK, ping.request, kit.speaker(77), 0, NO_SUMMARY)
    five.node.answered(ask.token, kit.frames.wrap(other), 1.6)
    five.node.answered(ask.token, b"junk", 1.6)
    five.say(wire.NACK, 2 if five.target != 2 else 3, ping.request, 1.7)
    five.fire(asked, Purpose.ROUND, 2.0)
    assert five.shown() is State.SUSPECT


def test_not_me_sends_the_round_to_the_relays_at_once(kit, bench):
    five = bench(5)
    ping, _ = five.probe(1.0)
    asked = five.say(wire.NOT_ME, 77, ping.request, 1.1)
    assert len(kit.opened(asked, PingRequest)) == 3


def test_missing_nacks_cost_health_and_stretch_the_schedule(bench):
    five = bench(5)
    fail(five, nacks=1)
    assert five.node.health == 1  # two did not come, one did
    _, effects = five.probe(5.0)
    assert (after(effects, Purpose.PROBE), after(effects, Purpose.DIRECT)) == (2.0, 1.0)
    ping, _ = five.probe(9.0)
    five.ack(ping, 9.1)
    assert five.node.health == 0


def test_all_nacks_cost_nothing(bench):
    five = bench(5)
    fail(five, nacks=3, tcp=TimedOut())
    assert five.node.health == 0
    assert five.shown() is State.SUSPECT


def test_the_deadline_follows_the_round_trip(bench):
    two = bench(2)
    ping, _ = two.probe(1.0)
    two.ack(ping, 1.001)
    _, effects = two.probe(2.0)
    assert after(effects, Purpose.DIRECT) == pytest.approx(0.1)
    slow = bench(2)
    ping, _ = slow.probe(1.0)
    slow.ack(ping, 8.0)  # late, and yet a sample
    _, effects = slow.probe(9.0)
    assert after(effects, Purpose.DIRECT) == pytest.approx(0.75)


def test_a_send_error_of_ours_accuses_nobody(kit, bench):
    two = bench(2)
    _, effects = two.probe(1.0)
    two.node.send_failed(kit.address(2), 1.0)
    asked = two.fire(effects, Purpose.DIRECT, 1.5)
    two.fire(asked, Purpose.ROUND, 2.0)
    assert two.shown() is State.ALIVE


def test_a_relay_that_we_could_not_ask_owes_us_nothing(kit, bench):
    five = bench(5)
    ping, effects = five.probe(1.0)
    asked = five.fire(effects, Purpose.DIRECT, 1.5)
    (_, first), *others = kit.opened(asked, PingRequest)
    for _, to in others:
        five.node.send_failed(to, 1.5)
    five.say(wire.NACK, int(first[0].rpartition(".")[2]), ping.request, 1.6)
    five.fire(asked, Purpose.ROUND, 2.0)
    assert five.node.health == 0


def test_a_ping_request_tells_nothing_of_its_senders_address(kit, bench):
    three = bench(3)
    request = wire.ping_request(42, kit.speaker(2, incarnation=5), (kit.id(3), 1000, 400), kit.address(3))
    three.node.receive(kit.frames.wrap(request), ("192.0.2.1", 1), 1.0)
    assert three.node.member(kit.id(2)).address == kit.address(2)


def test_relaying_for_others(kit, bench):
    three = bench(3)
    request = wire.ping_request(42, kit.speaker(2), (kit.id(3), 1000, 400), kit.address(3))
    effects = three.node.receive(kit.frames.wrap(request), kit.address(2), 1.0)
    ((ping, to),) = kit.opened(effects, Ping)
    assert to == kit.address(3)
    assert after(effects, Purpose.RELAY) == 0.4
    ((nack, origin),) = kit.opened(three.fire(effects, Purpose.RELAY, 1.4), Nack)
    assert (nack.request, origin) == (42, kit.address(2))
    three.target = 3
    ((ack, origin),) = kit.opened(three.ack(ping, 1.6), Ack)
    assert (ack.request, ack.sender, origin) == (42, kit.speaker(3), kit.address(2))


def test_only_members_are_pinged_for_others(kit, bench):
    two = bench(2)
    request = wire.ping_request(42, kit.speaker(2), (kit.id(66), 1000, 400), kit.address(66))
    effects = two.node.receive(kit.frames.wrap(request), kit.address(2), 1.0)
    ((nack, origin),) = kit.opened(effects)
    assert isinstance(nack, Nack)
    assert origin == kit.address(2)


def ping_to(kit, target: int, generation: int = 1000, rank: Rank = Rank.ALIVE, incarnation: int = 0) -> bytes:
    opening = wire.opening(wire.PING, 5, kit.speaker(2), 0, NO_SUMMARY)
    return kit.frames.wrap(opening + wire.aim(kit.id(target), generation, rank, incarnation))


def test_a_ping_is_answered_with_no_more_than_it_brought(kit, bench):
    lone = bench(1)
    ping = ping_to(kit, 1)
    ((ack, to),) = kit.opened(lone.node.receive(ping, kit.address(2), 1.0), Ack)
    assert (ack.request, ack.sender.node_id, to) == (5, kit.id(1), kit.address(2))
    sent = [e.data for e in lone.node.receive(ping, kit.address(2), 1.0) if hasattr(e, "data")]
    assert all(len(data) <= len(ping) for data in sent)


def test_a_ping_for_another_id_is_told_so(kit, bench):
    ((answer, _),) = kit.opened(bench(1).node.receive(ping_to(kit, 50), kit.address(2), 1.0))
    assert isinstance(answer, NotMe)
    assert answer.sender.node_id == kit.id(1)


def test_a_suspected_node_refutes_in_the_very_ack(kit, bench):
    lone = bench(1)
    effects = lone.node.receive(ping_to(kit, 1, rank=Rank.SUSPECT), kit.address(2), 1.0)
    acks = kit.opened(effects, Ack)
    assert acks[0][0].sender.incarnation == 1


def test_a_ping_that_names_a_greater_generation_makes_it_greater_still(kit, bench):
    lone = bench(1)
    effects = lone.node.receive(ping_to(kit, 1, generation=2000), kit.address(2), 1.0)
    assert kit.opened(effects, Ack)[0][0].sender.generation == 2001


def test_isolation_begins_after_silence_and_ends_with_the_first_packet(kit, bench):
    from shoal.gossip import Isolation

    five = bench(5)
    _, effects = five.probe(3.9)
    assert Isolation(isolated=True) not in effects
    _, effects = five.probe(4.1)
    assert Isolation(isolated=True) in effects
    assert five.node.isolated
    fail(five, nacks=0, now=5.0)
    assert five.shown() is State.ALIVE
    fail(five, nacks=0, now=9.0)  # twice the shortest suspicion: without witness, within the budget
    assert five.shown() is State.SUSPECT
    effects = five.say(wire.GOSSIP, 3, 0, 11.0)
    assert Isolation(isolated=False) in effects
    assert not five.node.isolated


def test_a_node_that_never_heard_anyone_is_not_isolated(kit):
    node = kit.node(1)
    (token,) = [e.token for e in kit.node(8).start(0.0) if isinstance(e, Wake)]
    node.wake(token, 1000.0)
    assert not node.isolated

"""Anti-entropy and joining: two nodes face to face, streams carried by hand."""

from __future__ import annotations

import pytest
from shoal.gossip import Ask, Node, Rank, Refused, ResolveSeeds, SectionKind, State, Vitals, Wake, items, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.messages import ANYONE, Busy, Flag, Ping, Sync
from shoal.gossip.sync import differing_buckets

DAY = 24 * 3600.0


class Pair:
    """Carries the asks of one node to another, replies back, and whatever follows from them."""

    def __init__(self, kit) -> None:
        self.kit = kit
        self.carried: list[bytes] = []

    def carry(self, asking: Node, serving: Node, effects, now: float):
        rest = []
        queue = [effect for effect in effects if isinstance(effect, Ask)]
        rest += [effect for effect in effects if not isinstance(effect, Ask)]
        while queue:
            ask = queue.pop(0)
            self.carried.append(ask.payload)
            reply, more = serving.serve(ask.payload, ask.to, now)
            rest += more
            got = asking.answered(ask.token, reply if reply is not None else Refused(), now)
            queue += [effect for effect in got if isinstance(effect, Ask)]
            rest += [effect for effect in got if not isinstance(effect, Ask)]
        return rest

    def kinds(self) -> list[str]:
        return [type(wire.decode(self.kit.frames.unwrap(frame))).__name__ for frame in self.carried]


@pytest.fixture
def pair(kit) -> Pair:
    return Pair(kit)


def states(node: Node) -> dict[bytes, State]:
    return {member.node_id: member.state for member in node.members()}


def joined(kit, pair, now: float = 1.0) -> tuple[Node, Node, list]:
    seed, joiner = kit.node(1), kit.node(2)
    seed.publish(SectionKind.RECORD, b"of the seed", 0.0)
    seed.set_vitals(Vitals(available_mib=7), 0.0)
    joiner.publish(SectionKind.RECORD, b"of the joiner", 0.0)
    joiner.publish(SectionKind.SCHEDULE, bytes(9000), 0.0)
    assert ResolveSeeds() in joiner.join(now)
    asks = joiner.resolved([kit.address(1), kit.address(2)], now)
    return seed, joiner, pair.carry(joiner, seed, asks, now)


def test_a_join_brings_rows_sections_and_vitals_both_ways(kit, pair):
    seed, joiner, effects = joined(kit, pair)
    assert pair.kinds() == ["Sync"]
    assert states(seed) == states(joiner) == {kit.id(1): State.ALIVE, kit.id(2): State.ALIVE}
    assert joiner.member(kit.id(1)).sections[SectionKind.RECORD].payload == b"of the seed"
    assert joiner.member(kit.id(1)).vitals.available_mib == 7
    assert seed.member(kit.id(2)).sections[SectionKind.RECORD].payload == b"of the joiner"
    assert len(seed.member(kit.id(2)).sections[SectionKind.SCHEDULE].payload) == 9000
    assert seed.joined
    assert joiner.joined
    assert seed._core.table.hash == joiner._core.table.hash
    (extra,) = [e.after for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.EXTRA]
    assert extra == pytest.approx(1.0, abs=0.2)


def test_the_first_node_whose_only_seed_is_itself_has_joined(kit):
    node = kit.node(1)
    node.join(0.0)
    node.resolved([kit.address(1)], 0.0)
    assert node.joined


def test_seeds_are_resolved_again_for_ever(kit):
    node = kit.node(2)
    effects = node.join(0.0)
    pauses = []
    for _ in range(12):
        effects = node.resolved([], 0.0)
        ((token, pause),) = [(e.token, e.after) for e in effects if isinstance(e, Wake)]
        pauses.append(pause)
        assert node.wake(token, 0.0) == [ResolveSeeds()]
    assert not node.joined
    assert max(pauses) <= 15.0
    assert pauses[0] < 2.0


def test_a_refusing_seed_is_asked_again_after_a_pause(kit):
    node = kit.node(2)
    node.join(0.0)
    (ask,) = [e for e in node.resolved([kit.address(1)], 0.0) if isinstance(e, Ask)]
    (wake,) = node.answered(ask.token, Refused(), 1.0)
    assert wake.token.purpose is Purpose.JOIN
    assert node.wake(wake.token, 3.0) == [ResolveSeeds()]


def test_a_busy_seed_names_members_and_one_is_asked_soon(kit, told):
    seed, joiner = kit.node(1), kit.node(2)
    for number in range(3, 9):
        told(seed, kit.row(number), sender=number)
    (ask,) = [e for e in joiner.resolved([kit.address(1)], 0.0) if isinstance(e, Ask)]
    replies = [seed.serve(ask.payload, kit.address(2), 1.0)[0] for _ in range(17)]
    assert isinstance(wire.decode(kit.frames.unwrap(replies[-1])), Busy)
    (wake,) = joiner.answered(ask.token, replies[-1], 1.0)
    assert 0.05 <= wake.after <= 0.15
    (again,) = [e for e in joiner.wake(wake.token, 1.1) if isinstance(e, Ask)]
    assert again.to in [kit.address(number) for number in range(3, 9)]


def test_remembered_addresses_are_asked_like_seeds(kit):
    node = kit.node(2)
    node._parts.joiner.remembered = [kit.address(number) for number in range(3, 9)]
    asks = [e for e in node.start(0.0) if isinstance(e, Ask)]
    assert len(asks) == 3


def syncs_with(pair: Pair, node: Node, partner: Node, effects, now: float):
    timers = [e.token for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]
    asks = [e for token in timers for e in node.wake(token, now)]
    return pair.carry(node, partner, asks, now)


def ping_from(kit, node: Node, now: float):
    """A ping of a node that tells its hashes and no news."""
    opening = node._core.opening(wire.PING, 5, now)
    return kit.frames.wrap(opening + wire.aim(ANYONE, 0, Rank.ALIVE, 0) + (node._core.me.vitals or b""))


def test_equal_tables_start_nothing(kit, pair):
    seed, joiner, _ = joined(kit, pair)
    for now in range(2, 200, 7):
        effects = seed.receive(ping_from(kit, joiner, float(now)), kit.address(2), float(now))
        assert not [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]


@pytest.mark.parametrize("knows", ["pinger", "pinged"])
def test_a_quiet_difference_is_exchanged_and_both_become_equal(kit, pair, told, knows):
    seed, joiner, _ = joined(kit, pair)
    learned = joiner if knows == "pinger" else seed
    told(learned, kit.row(30), sender=30, now=2.0)
    told(learned, kit.row(31, Rank.LEFT), sender=30, now=2.0)
    now = 60.0
    effects = seed.receive(ping_from(kit, joiner, now), kit.address(2), now)
    syncs_with(pair, seed, joiner, effects, now)
    assert states(seed) == states(joiner)
    assert kit.id(30) in states(seed)
    assert seed._core.table.hash == joiner._core.table.hash
    assert kit.id(30) in (seed if learned is joiner else joiner)._parts.spread.rows


def test_a_fresh_difference_waits_for_gossip(kit, pair, told):
    seed, joiner, _ = joined(kit, pair)
    now = 60.0
    told(joiner, kit.row(30, Rank.LEFT), sender=1, now=now - 0.1)
    effects = seed.receive(ping_from(kit, joiner, now), kit.address(2), now)
    assert not [e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]


def test_a_young_table_is_compared_at_once_but_at_most_once_a_second(kit, pair, told):
    seed, joiner, _ = joined(kit, pair)
    told(joiner, kit.row(30), sender=30, now=20.0)

    def starts(now: float) -> int:
        effects = seed.receive(ping_from(kit, joiner, now), kit.address(2), now)
        return len([e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC])

    assert starts(20.1) == 1
    assert starts(20.5) == 0


def test_a_difference_that_stays_for_a_sync_interval_is_exchanged_at_last(kit, pair, told):
    seed, joiner, _ = joined(kit, pair)
    started = []
    for step in range(40):
        now = 20.0 + step
        told(seed, kit.row(40, Rank.DEAD, incarnation=step), sender=2, now=now)  # never quiet
        effects = seed.receive(ping_from(kit, joiner, now), kit.address(2), now)
        started += [now for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]
    assert started[0] == 50.0


def test_a_sync_that_taught_nothing_is_not_repeated_for_an_interval(kit, pair, told):
    seed, joiner, _ = joined(kit, pair)
    told(joiner, kit.row(30), sender=30, now=2.0)
    ping = ping_from(kit, joiner, 60.0)
    effects = seed.receive(ping, kit.address(2), 60.0)
    told(seed, kit.row(30), sender=30, now=60.05)
    syncs_with(pair, seed, joiner, effects, 60.1)
    told(joiner, kit.row(31, Rank.LEFT), sender=1, now=60.2)
    for now, expected in ((80.0, 0), (92.0, 1)):
        effects = seed.receive(ping_from(kit, joiner, now), kit.address(2), now)
        assert len([e for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.SYNC]) == expected


def test_a_big_table_comes_in_pages(kit, pair, told, monkeypatch):
    monkeypatch.setattr("shoal.gossip.sync._ROWS_BYTES", 400)
    seed, joiner = kit.node(1), kit.node(2)
    for number in range(3, 60):
        told(seed, kit.row(number), sender=number)
    pair.carry(joiner, seed, joiner.resolved([kit.address(1)], 1.0), 1.0)
    assert len(states(joiner)) == 59
    assert pair.kinds().count("Sync") > 5
    assert "Push" not in pair.kinds()


def test_ages_of_the_dead_travel_with_a_sync(kit, pair, told):
    seed, joiner = kit.node(1), kit.node(2)
    told(seed, kit.row(30, Rank.LEFT), sender=3, now=10.0)
    pair.carry(joiner, seed, joiner.resolved([kit.address(1)], 100.0), 100.0)
    assert joiner._core.table.get(kit.id(30)).ended_at == 10.0


def test_a_joiner_with_members_compares_instead_of_taking_everything(kit, pair, told):
    joiner = kit.node(2)
    told(joiner, kit.row(30), sender=30)
    (ask,) = [e for e in joiner.resolved([kit.address(1)], 1.0) if isinstance(e, Ask)]
    request = wire.decode(kit.frames.unwrap(ask.payload))
    assert isinstance(request, Sync)
    assert not request.flags & Flag.JOINING


def test_differing_buckets():
    ours, theirs = [0] * items.BUCKETS, [0] * items.BUCKETS
    theirs[3] = theirs[63] = 9
    assert differing_buckets(ours, theirs) == {3, 63}


def test_the_dead_and_unreached_seeds_are_pinged_for_ever(kit, told):
    node = kit.node(1)
    node.join(0.0)
    node.resolved([kit.address(1), kit.address(50)], 0.0)
    node._parts.joiner.met()
    for timer in [e for e in told(node, kit.row(2, Rank.SUSPECT), now=1.0) if isinstance(e, Wake)]:
        node.wake(timer.token, 90.0)
    (tick,) = [e.token for e in kit.node(8).start(0.0) if isinstance(e, Wake)]
    reached = set()
    for now in range(100, 1000, 13):
        effects = node.wake(tick, float(now))
        if ResolveSeeds() in effects:
            effects += node.resolved([kit.address(1), kit.address(50)], float(now))
        reached |= {to for _, to in kit.opened(effects, Ping)}
    assert {kit.address(2), kit.address(50)} <= reached


def test_the_dead_are_pinged_until_their_tombstone_is_dropped(kit, told):
    """Two sites that were apart for a weekend: nobody else would tell them of each other."""
    node = kit.node(1)
    for timer in [e for e in told(node, kit.row(2, Rank.SUSPECT), now=1.0) if isinstance(e, Wake)]:
        node.wake(timer.token, 90.0)
    (tick,) = [e.token for e in kit.node(8).start(0.0) if isinstance(e, Wake)]

    def pinged(since: float) -> bool:
        found = [to for now in range(0, 600, 13) for _, to in kit.opened(node.wake(tick, since + now), Ping)]
        return kit.address(2) in found

    assert pinged(2 * DAY)
    assert node._core.table.get(kit.id(2)).reaped
    node.wake(tick, 7 * DAY + 100)
    assert not pinged(7 * DAY + 200)


def test_the_long_dead_keep_nobody_from_those_lost_today(kit, told):
    node = kit.node(1)
    for number in range(20, 200):
        told(node, kit.row(number, Rank.DEAD), age=int(2 * DAY))
    for timer in [e for e in told(node, kit.row(2, Rank.SUSPECT), now=1.0) if isinstance(e, Wake)]:
        node.wake(timer.token, 90.0)
    (tick,) = [e.token for e in kit.node(8).start(0.0) if isinstance(e, Wake)]
    found = [to for now in range(100, 3100, 13) for _, to in kit.opened(node.wake(tick, float(now)), Ping)]
    today, before = found.count(kit.address(2)), sum(kit.address(number) in found for number in range(20, 200))
    assert today > before > 10

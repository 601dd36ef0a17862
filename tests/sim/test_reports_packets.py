"""Section 9, reports about what arrives: forged, flipped, foreign, replayed and senseless packets; and identities."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

import pytest
import sim_checks as checks
import sim_churn as churn
import sim_scenes as scenes
from shoal.gossip import Change, Rank, SectionKind, SectionTooLarge, Settings, State
from shoal.gossip.member import SECTION_LIMIT
from shoal.gossip.seal import KeyRing, Seal
from shoal.gossip.simulation import Cluster
from shoal.gossip.suspicion import shortest


def recorded(cluster):
    """Every datagram as it is sent, with where from and to."""
    seen = []
    cluster.tap = lambda machine, data, to: seen.append((data, machine.address, cluster.by_address[to].index))
    return seen


def calm(cluster):
    """No event but those of vitals; every node alive everywhere."""
    return not [h for h in cluster.happenings if h.what is not Change.VITALS] and checks.meshed(cluster)


def test_serf_336_every_single_bit_of_frames_flipped():
    cluster = checks.rest(4, 1, record=bytes(40))
    seen = recorded(cluster)
    cluster.run(1.5)
    cluster.publish(2, b"news", SectionKind.SCHEDULE)
    cluster.run(1.5)
    cluster.tap = None
    kinds = {frame[0][4]: frame for frame in seen}
    cluster.run(10.0)
    cluster.happenings.clear()
    tables = [checks.table_of(m) for m in cluster.machines]
    flips = 0
    for data, source, to in kinds.values():
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            cluster.inject(to, bytes(flipped), source)
            flips += 1
    assert flips > 2000
    assert not cluster.happenings
    assert tables == [checks.table_of(m) for m in cluster.machines]
    refused = sum(n for m in cluster.machines for what, n in m.node.counters.items() if what.startswith("refused"))
    assert refused == flips


@pytest.mark.parametrize("seed", range(2))
def test_memberlist_358_values_at_the_end_of_their_range(seed):
    scenes.limits_are_refused(seed)


@pytest.mark.parametrize(
    "order", list(permutations([(1, Rank.ALIVE), (1, Rank.DEAD), (10, Rank.DEAD), (2, Rank.ALIVE)]))
)
def test_al8n_197_all_orders_give_one_claim(order):
    cluster = checks.rest(6, 1)
    cluster.run(5.0)
    cluster.crash(4)
    low = shortest(cluster.settings, 6)
    first = cluster.now
    for incarnation, rank in order:
        claim = scenes.claim_of(cluster, 4)._replace(incarnation=incarnation, rank=rank)
        scenes.inject(cluster, 1, 2, claim)
    entry = cluster.machines[1].node._core.table.get(cluster.machines[4].identity.node_id)
    assert (entry.claim.incarnation, entry.claim.rank) == (10, Rank.DEAD)
    assert entry.shown is State.SUSPECT
    cluster.run(first + low + 0.1 - cluster.now)
    assert cluster.shown(1, 4) is State.DEAD


def test_alertmanager_1340_a_section_of_every_size():
    cluster = checks.rest(3, 1)
    cluster.run(2.0)
    for size in range(SECTION_LIMIT + 1):
        cluster.publish(0, Random(size).randbytes(size), SectionKind.ENGINES)
        assert cluster.run_until(
            lambda size=size: all(
                (held := cluster.section(other, 0, SectionKind.ENGINES)) is not None and len(held.payload) == size
                for other in (1, 2)
            ),
            10.0,
        ), size
    for size in range(SECTION_LIMIT + 1, 17 * 1024 + 1):
        with pytest.raises(SectionTooLarge):
            cluster.publish(0, bytes(size), SectionKind.ENGINES)
    cluster.run(10.0)
    assert not any(len(m.node._parts.spread) for m in cluster.machines)


def test_mimir_6187_a_node_of_another_cluster_on_an_old_address():
    cluster = checks.rest(6, 1)
    cluster.run(5.0)
    cluster.crash(4)
    foreign = cluster.add(settings=Settings.lan(cluster="other"), address=cluster.machines[4].address)
    cluster.seeds = [0]
    cluster.start([foreign.index])
    cluster.run(130.0)
    ours = [m for m in cluster.running() if m is not foreign]
    assert len(foreign.node._core.table) == 1
    assert all(foreign.identity.node_id not in checks.table_of(m) for m in ours)
    assert not checks.false_deaths(cluster, [4, foreign.index])
    refused = sum(n for m in ours for what, n in m.node.counters.items() if what.startswith("refused"))
    assert refused > 0
    # Once a minute at each node that heard it.
    assert 0 < sum(cluster.notes.values()) <= 3 * (len(ours) + 1)


def test_serf_579_key_rotated_while_one_node_was_off():
    old, new = b"o" * 32, b"n" * 32
    cluster = Cluster(0, Settings.lan(), seed=1)
    for number in range(5):
        cluster.add(seal=Seal(KeyRing.of([old]), "shoal", Random(number)))
    cluster.start()
    assert cluster.run_until(cluster.complete, 10.0)
    cluster.crash(4)
    for step in ("install", "use"):
        for machine in cluster.machines[:4]:
            ring = machine.seal.ring
            machine.seal.ring = ring.install(new) if step == "install" else ring.use(KeyRing.of([new]).in_use)
        cluster.run(20.0)
    assert not checks.false_deaths(cluster, [4])
    cluster.restart(4)
    cluster.run(30.0)
    # It cannot read what is sealed with the new key, but the others still open what it sends.
    opened = [cluster.machines[index].node.member(cluster.machines[4].identity.node_id) for index in range(4)]
    assert all(member is not None for member in opened)
    cluster.machines[4].seal.ring = cluster.machines[4].seal.ring.install(new)
    assert cluster.run_until(cluster.complete, 30.0), [m.node.alive for m in cluster.running()]


@pytest.mark.parametrize("strangers", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_memberlist_371_a_spoofed_flood_is_not_amplified(seed, strangers):
    scenes.spoofed_flood_is_not_amplified(seed, strangers=strangers)


def test_memberlist_236_http_and_random_bytes_on_the_port():
    cluster = checks.rest(4, 1)
    cluster.run(5.0)
    chance = Random(1)
    for number in range(3000):
        data = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" if number % 2 else chance.randbytes(chance.randrange(1500))
        cluster.inject(1, data, (f"10.9.{number % 7}.9", 999))
        if number % 10 == 0:
            cluster.run(0.6)
    assert calm(cluster)
    counted = sum(n for what, n in cluster.machines[1].node.counters.items() if what.startswith(("refused", "limited")))
    assert counted > 0
    assert sum(cluster.notes.values()) <= cluster.now / 60 + 1


@pytest.mark.parametrize("seed", range(3))
def test_daos_15894_the_dead_are_not_believed(seed):
    scenes.the_dead_are_not_believed(seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_copied_state_directory(seed):
    scenes.twin_takes_a_new_id(seed)


def test_alertmanager_1661_seeds_that_cannot_be_resolved_then_wrong_then_right():
    cluster = checks.rest(4, 1)
    late = cluster.add()
    answers = [([], 60.0), ([("10.77.7.7", 7931)], 30.0), ([cluster.machines[0].address], 60.0)]
    cluster.resolve = lambda machine: answers[0][0] if machine is late else []
    cluster.start([late.index])
    while len(answers) > 1:
        cluster.run(answers[0][1])
        assert not late.node.joined
        answers.pop(0)
    assert cluster.run_until(cluster.complete, answers[0][1])


def test_consul_529_one_id_and_one_address_whatever_the_family():
    cluster = checks.rest(3, 1)
    mapped = cluster.add(address=("10.0.0.200", 7931))
    six = cluster.add(address=("fd00::7", 7931))
    cluster.seeds = [0]
    written = [("::ffff:10.0.0.0", 7931), ("10.0.0.0", 7931), ("fd00:0:0::7", 7931)]
    cluster.resolve = lambda _: written
    cluster.start([mapped.index, six.index])
    cluster.run(20.0)
    assert checks.meshed(cluster)
    assert [len(m.node._core.table) for m in cluster.machines] == [5] * 5
    addresses = {m.address for machine in cluster.machines for m in machine.node.members()}
    assert addresses == {machine.address for machine in cluster.machines}


@pytest.mark.parametrize("count", [pytest.param(150, id="150"), pytest.param(2000, id="2000", marks=pytest.mark.big)])
def test_memberlist_158_many_joiners_at_one_seed(count):
    cluster = Cluster(count, Settings.lan(), seed=1)
    cluster.recorded = frozenset({Change.FAILED, Change.SUSPECTED})
    joined, held = {}, Counter()

    def note():
        for what, size in churn.sizes(cluster.machines[0]).items():
            held[what] = max(held[what], size)
        for machine in cluster.machines:
            if machine.index not in joined and machine.node.joined:
                joined[machine.index] = cluster.now
        cluster.after(0.1, note)

    note()
    cluster.start(within=1.0)
    assert cluster.run_until(lambda: len(joined) == count, 60.0)
    assert sorted(joined.values())[int(0.95 * count)] < 15.0
    assert cluster.run_until(cluster.complete, 60.0)
    assert not cluster.of(Change.FAILED)
    assert len(cluster.machines[0].node._core.table) == count
    # At no moment did the seed hold more than twice as many of anything as there are nodes.
    assert all(size <= 2 * count for size in held.values()), held


def test_replayed_packets_change_nothing():
    cluster = checks.rest(6, 1)
    cluster.seeds = [0]
    seen = recorded(cluster)
    cluster.run(10.0)
    cluster.crash(2)
    cluster.run(0.2)
    cluster.restart(2)
    cluster.leave(3)
    cluster.run(30.0)
    cluster.tap = None
    cluster.happenings.clear()
    before = [checks.table_of(m) for m in cluster.running()]
    for data, source, to in seen:
        cluster.inject(to, data, source)
        cluster.run(0.001)
    cluster.run(30.0)
    assert not [h for h in cluster.happenings if h.what is not Change.VITALS]
    assert before == [checks.table_of(m) for m in cluster.running()]

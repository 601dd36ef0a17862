"""Section 9, reports about processes and links: stalls, stops, cuts, restarts, leaves. Named by their issue."""

from __future__ import annotations

import pytest
import sim_checks as checks
import sim_churn as churn
import sim_scenes as scenes
from shoal.gossip import Change, Settings, State
from shoal.gossip.simulation import Network


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("seed", range(1))
def test_consul_1212_alertmanager_1909_four_of_64_stall(seed, noticed):
    checks.stalls_kill_nobody(seed, count=64, stalled=4, seconds=90.0, noticed=noticed)


@pytest.mark.parametrize("seed", range(4))
def test_serf_216_udp_to_one_is_blocked(seed):
    cluster = checks.rest(12, seed)
    cluster.run(5.0)
    cluster.cuts.block(range(12), [4], streams=False)
    # Each of the others finds out by its own probes: three periods from its next turn at this target.
    periods = 2 * 12 - 1 + 3
    cluster.run(periods)
    assert set(cluster.first_seen(Change.UDP_BROKEN, 4)) == set(range(12)) - {4}
    at = min(cluster.first_seen(Change.UDP_BROKEN, 4).values()) - 5.0
    assert at <= 3.0
    cluster.run(120.0)
    assert not cluster.of(Change.FAILED)
    assert all(cluster.shown(observer, 4) is State.ALIVE for observer in range(12) if observer != 4)
    cluster.heal()
    cluster.run(periods)
    assert len(cluster.first_seen(Change.UDP_WORKS, 4)) == 11
    assert not any(m.udp_broken for machine in cluster.machines for m in machine.node.members())


@pytest.mark.parametrize("seed", range(4))
def test_consul_733_killed_and_back_at_once_on_a_new_address(seed):
    assert scenes.restart_is_one_replacement(seed, count=64) <= 1.2


@pytest.mark.parametrize("seed", range(6))
def test_antrea_4491_one_node_cut_off_for_60_s(seed):
    cluster = checks.rest(16, seed)
    cluster.run(5.0)
    cluster.partition([i for i in range(16) if i != 9])
    cluster.run(60.0)
    assert cluster.shown(0, 9) is State.DEAD
    cluster.heal()
    back = cluster.run_until(lambda: checks.meshed(cluster), 2 * cluster.settings.retry_interval)
    assert back, checks.holes(cluster)


def test_memberlist_222_foca_15_halves_for_10_minutes():
    checks.partition_heals(7, count=20)


@pytest.mark.parametrize("seed", range(3))
def test_ringpop_37_clock_a_day_back_then_restart(seed):
    cluster = checks.rest(12, seed)
    cluster.run(5.0)
    before = cluster.machines[3].identity.generation
    cluster.set_wall_clock(3, -86400.0)
    cluster.crash(3)
    cluster.run(0.5)
    cluster.restart(3)
    cluster.run(10.0)
    assert cluster.machines[3].identity.generation > before
    assert checks.meshed(cluster)
    assert len(cluster.first_seen(Change.REPLACED, 3)) == 11


@pytest.mark.parametrize("order", [(0.0, 0.05), (0.05, 0.0)])
def test_consul_7960_two_leaves_of_one_node(order):
    cluster = checks.rest(100, 1)
    cluster.run(3.0)
    sender = scenes.claim_of(cluster, 5)
    left = sender._replace(rank=scenes.Rank.LEFT)
    cluster.after(order[0], cluster.leave, 5)
    cluster.after(order[1], scenes.inject, cluster, 50, 9, left)
    cluster.run(30.0)
    assert [len(m.node._parts.spread) for m in cluster.running()] == [0] * len(cluster.running())
    assert {cluster.shown(m.index, 5) for m in cluster.running() if m.index != 5} == {State.LEFT}
    assert not cluster.of(Change.FAILED)


@pytest.mark.parametrize("seed", range(1))
def test_serf_78_isolated_for_an_hour_with_churn(seed):
    settings = Settings.lan(probe_interval=5.0, probe_timeout=1.0, gossip_tick=1.0, sync_interval=60.0)
    cluster = checks.rest(10, seed, settings=settings)
    cluster.seeds = [0]
    cluster.run(30.0)
    before = churn.sizes(cluster.machines[7])
    cluster.cuts.block([7], range(10))
    cluster.cuts.block(range(10), [7])
    for _ in range(30):
        index = cluster.chance.randrange(1, 6)
        cluster.crash(index)
        cluster.run(60.0)
        cluster.restart(index)
        cluster.run(60.0)
    after = churn.sizes(cluster.machines[7])
    assert all(size <= max(2 * before.get(what, 0), 32) for what, size in after.items()), after
    assert cluster.machines[7].node.isolated
    cluster.heal()
    assert cluster.run_until(lambda: checks.meshed(cluster), 120.0), checks.holes(cluster)


def test_consul_3706_leave_under_10_percent_loss():
    checks.leave_is_known(5, count=200, loss=0.1)


@pytest.mark.parametrize(("fast", "stop"), [(1.0, "freeze"), (1.0, "suspend"), (3.0, "suspend")])
@pytest.mark.parametrize("seed", range(1))
def test_consul_1440_a_reaped_node_never_comes_back(seed, fast, stop):
    day = 86400.0
    # Slow timings, so that days are affordable; reaping and forgetting as in every profile.
    settings = Settings.lan(probe_interval=60.0, probe_timeout=10.0, gossip_tick=10.0, sync_interval=900.0)
    cluster = checks.rest(10, seed, settings=settings)
    for index in range(10):
        cluster.drift(index, 1.0 if index % 2 else fast)
    cluster.run(600.0)
    getattr(cluster, stop)(8, 3 * day)
    cluster.crash(4)
    cluster.run(1.5 * day)
    cluster.happenings.clear()
    cluster.run(1.6 * day)
    back = [h for h in cluster.of(Change.JOINED, Change.REFUTED) if cluster.index_of(h.subject) == 4]
    assert not back
    assert cluster.run_until(lambda: all(m.node.alive == 9 for m in cluster.running()), 7200.0)
    accused = [h for h in cluster.of(Change.SUSPECTED, Change.FAILED) if h.observer == 8]
    assert [h for h in accused if cluster.index_of(h.subject) != 4] == []


@pytest.mark.parametrize("restarts", [500, pytest.param(10_000, marks=pytest.mark.big)])
def test_foca_31_many_restarts_of_one_node_are_one_row(restarts):
    cluster = checks.rest(4, 1)
    cluster.recorded = frozenset()
    for _ in range(restarts):
        cluster.crash(2)
        cluster.restart(2, join=False)
        cluster.publish(2, b"x")
        cluster.run(0.01)
    cluster.run(30.0)
    assert [len(m.node._core.table) for m in cluster.machines] == [4] * 4
    assert checks.meshed(cluster)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stop", ["freeze", "suspend"])
def test_akka_30335_frozen_for_30_s(seed, stop):
    cluster = checks.rest(16, seed)
    cluster.run(5.0)
    getattr(cluster, stop)(6, 30.0)
    cluster.run(30.0)
    cluster.happenings.clear()
    # Back: a ping a period reaches it, its packets carry what outdoes the death, and one gossip tells all.
    assert cluster.run_until(lambda: checks.meshed(cluster), 2.0), checks.holes(cluster)
    cluster.run(60.0)
    assert not [h for h in cluster.of(Change.SUSPECTED, Change.FAILED) if h.observer == 6]


@pytest.mark.parametrize("seed", range(4))
def test_serf_64_started_at_once_under_loss(seed):
    cluster = checks.Cluster(64, Settings.lan(), seed=seed, network=Network(loss=0.1))
    cluster.start(within=0.2)
    assert cluster.run_until(cluster.complete, 5.0)

"""P1, P2, P14: crashes are pinged, suspected and declared in time, however many at once."""

from __future__ import annotations

import pytest
import sim_checks as checks
import sim_probing as probing
from shoal.gossip import Change
from shoal.gossip.simulation import Network


@pytest.mark.parametrize(("count", "expected", "runs"), [(3, 0.71, 120), (10, 0.91, 100), (100, 0.98, 40)])
def test_p1_first_ping_of_a_crashed_node(count, expected, runs):
    probing.first_ping_comes_soon(0, count=count, expected=expected, runs=runs)


@pytest.mark.big
def test_p1_first_ping_among_1000():
    probing.first_ping_comes_soon(0, count=1000, expected=1.0, runs=30)


@pytest.mark.parametrize("seed", range(2))
def test_p2_everybody_is_probed_within_two_rounds_less_one_period(seed):
    probing.everybody_is_probed(seed)


@pytest.mark.parametrize("seed", range(2))
def test_p2_a_crashed_one_is_probed_or_known_by_all_within_two_rounds(seed):
    count = 16
    cluster = checks.rest(count, seed)
    cluster.run(20.0)
    seen = probing.pings(cluster)
    cluster.crash(3)
    at, target = cluster.now, cluster.machines[3].identity.node_id
    cluster.run(2 * count - 1)
    probed = {sender for _, sender, whom in seen if whom == target}
    known = set(cluster.first_seen(Change.SUSPECTED, 3)) | set(cluster.first_seen(Change.FAILED, 3))
    assert probed | known >= set(range(count)) - {3}
    assert max(cluster.first_seen(Change.FAILED, 3).values()) - at <= 2 * count - 1


@pytest.mark.parametrize("seed", range(6))
def test_p14_45_of_50_dead_at_once_are_all_declared(seed):
    checks.crash_is_noticed(seed, count=50, victims=45, within=65.0)


def test_p14_40_percent_of_200_dead_at_once_are_all_declared():
    checks.crash_is_noticed(1, count=200, victims=80, within=65.0)


def test_p14_under_loss():
    checks.crash_is_noticed(2, count=50, victims=20, within=65.0, network=Network(loss=0.1))


@pytest.mark.big
@pytest.mark.parametrize("seed", range(10, 40))
def test_p14_many_times(seed):
    checks.crash_is_noticed(seed, count=50, victims=45, within=65.0)


@pytest.mark.big
def test_p14_400_of_1000_dead_at_once():
    checks.crash_is_noticed(1, count=1000, victims=400, within=65.0)

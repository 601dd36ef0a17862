"""Many nodes started at once: every view complete, at once. The seed is in the name of each case."""

from __future__ import annotations

import pytest
from shoal.gossip import SectionKind, Settings
from shoal.gossip.simulation import Cluster, Network


def started(count: int, seed: int, *, loss: float = 0.0, within: float = 0.5) -> Cluster:
    cluster = Cluster(count, Settings.lan(), seed=seed, network=Network(loss=loss))
    for machine in cluster.machines:
        machine.node.publish(SectionKind.RECORD, bytes([machine.index % 256]) * 440, 0.0)
    cluster.start(within=within)
    return cluster


def records(cluster: Cluster) -> int:
    return sum(SectionKind.RECORD in m.sections for machine in cluster.machines for m in machine.node.members())


@pytest.mark.parametrize("seed", range(10))
def test_64_at_once_are_complete_within_three_seconds(seed):
    cluster = started(64, seed)
    assert cluster.run_until(cluster.complete, 3.5), f"seed {seed}: {[m.node.alive for m in cluster.machines]}"
    assert cluster.run_until(lambda: records(cluster) == 64 * 64, 3.5 - cluster.now + 1.0), f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_128_at_once_are_complete_within_ten_seconds_under_loss(seed):
    cluster = started(128, seed, loss=0.05)
    assert cluster.run_until(cluster.complete, 10.5), f"seed {seed}: {[m.node.alive for m in cluster.machines]}"


@pytest.mark.parametrize("seed", range(3))
def test_equal_tables_cost_nothing_and_idle_nodes_stay_within_their_bytes(seed):
    cluster = started(32, seed)
    cluster.run(60.0)
    machines = cluster.machines
    assert len({machine.node._core.table.hash for machine in machines}) == 1
    syncs = sum(machine.node.counters["syncs asked"] for machine in machines)
    sent = [(machine.bytes_out, machine.packets_out) for machine in machines]
    cluster.run(60.0)
    assert sum(machine.node.counters["syncs asked"] for machine in machines) == syncs
    octets = sum(m.bytes_out - before for m, (before, _) in zip(machines, sent, strict=True))
    packets = sum(m.packets_out - before for m, (_, before) in zip(machines, sent, strict=True))
    assert octets / 32 / 60 <= 221
    assert packets / 32 / 60 <= 2.05


def test_seeds_that_come_up_late_are_found():
    cluster = Cluster(8, Settings.lan(), seed=5)
    cluster.start(range(1, 8))
    cluster.run(20.0)
    cluster.start([0])
    assert cluster.run_until(cluster.complete, 20.0)


def test_a_cluster_that_went_down_comes_up_without_seeds():
    cluster = started(8, 3)
    assert cluster.run_until(cluster.complete, 5.0)
    cluster.seeds = []
    for machine in cluster.machines:
        cluster.crash(machine.index)
    cluster.run(5.0)
    for machine in cluster.machines:
        cluster.restart(machine.index)
    assert cluster.run_until(cluster.complete, 15.0)


@pytest.mark.big
def test_1000_at_once_under_loss():
    cluster = started(1000, 1, loss=0.05)
    assert cluster.run_until(cluster.complete, 30.0), sorted(m.node.alive for m in cluster.machines)[:10]

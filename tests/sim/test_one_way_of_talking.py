"""Clusters in which only datagrams get through, and nodes that only streams reach: slower, and complete in the end."""

from __future__ import annotations

import pytest
import sim_checks as checks
from shoal.gossip import Change, SectionKind, Settings, State
from shoal.gossip.simulation import Cluster, Network

SEEDS = range(4)


def built(count, seed, *, loss=0.0, **settings):
    """A cluster without TCP, not started; each node has a record."""
    cluster = Cluster(count, Settings.lan(**settings), seed=seed, network=Network(loss=loss))
    for machine in cluster.machines:
        machine.node.publish(SectionKind.RECORD, bytes([machine.index]) * 440, 0.0)
    cluster.cuts.block_streams(range(count))
    return cluster


def grown(count, seed, **settings):
    cluster = built(count, seed, **settings)
    cluster.start(within=0.5)
    assert cluster.run_until(cluster.complete, 30.0)
    return cluster


@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize("seed", SEEDS)
def test_many_started_at_once_by_datagrams_alone(seed, loss):
    cluster = built(16, seed, loss=loss)
    cluster.start(within=0.5)
    assert cluster.run_until(cluster.complete, 20.0), [m.node.alive for m in cluster.machines]
    assert cluster.run_until(lambda: checks.equal_tables(cluster), 20.0), checks.differences(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_halves_that_never_met_find_each_other_by_datagrams_alone(seed):
    cluster = built(8, seed)
    cluster.resolve = lambda machine: [cluster.machines[4 * (machine.index // 4)].address]
    cluster.start(within=0.5)
    cluster.run(30.0)
    assert {machine.node.alive for machine in cluster.machines} == {4}
    cluster.resolve = lambda _: [cluster.machines[0].address, cluster.machines[4].address]
    assert cluster.run_until(cluster.complete, 60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_halves_that_forgot_each_other_find_each_other_by_datagrams_alone(seed):
    cluster = grown(6, seed, reap_after=60.0, forget_after=120.0)
    cluster.seeds = [0, 3]
    for machine in cluster.machines:
        cluster.obey(machine, machine.node.join(cluster.now))
    cluster.partition(range(3), range(3, 6))
    cluster.run(400.0)
    assert {len(machine.node._core.table) for machine in cluster.machines} == {3}
    cluster.heal()
    cluster.cuts.block_streams(range(6))
    assert cluster.run_until(cluster.complete, 60.0)


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_id_at_an_old_address_is_found_by_those_who_look_for_the_old_one(seed, streams):
    """Installed anew, without seeds: it knows nobody, and they know only where the one before lived."""
    cluster = grown(8, seed)
    cluster.seeds = []
    if streams:
        cluster.heal()
    cluster.reinstall(3)
    assert cluster.run_until(cluster.complete, 60.0), [m.node.alive for m in cluster.machines]


@pytest.mark.parametrize("both", [False, True], ids=["in", "in and out"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_without_udp_knows_and_is_known(seed, both):
    """serf#216, for longer: it hears no gossip, and is to learn of deaths and labels all the same."""
    cluster = checks.rest(12, seed, record=b"record")
    cluster.run(10.0)
    cluster.cuts.block(range(12), [4], streams=False)
    if both:
        cluster.cuts.block([4], range(12), streams=False)
    cluster.run(60.0)
    cluster.publish(7, b"cordoned", SectionKind.SCHEDULE)
    cluster.publish(4, b"drained", SectionKind.SCHEDULE)
    cluster.crash(9)

    def known():
        others = [m.index for m in cluster.running() if m.index != 4]
        heard = cluster.section(4, 7, SectionKind.SCHEDULE) is not None and cluster.shown(4, 9) is State.DEAD
        return heard and all(cluster.section(other, 4, SectionKind.SCHEDULE) is not None for other in others)

    assert cluster.run_until(known, 60.0)
    assert not checks.false_deaths(cluster, [9]), cluster.of(Change.FAILED)

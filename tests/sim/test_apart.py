"""Clusters that came up in pieces find each other: seeds without an address, seeds that are down, old addresses."""

import pytest
from shoal.gossip import Settings
from shoal.gossip.simulation import Cluster

SEEDS = range(5)


def settled(count, seed, **settings):
    """A cluster that all know all of, and that has no seeds any longer."""
    cluster = Cluster(count, Settings.lan(**settings), seed=seed)
    cluster.start(within=1.0)
    assert cluster.run_until(cluster.complete, 10.0)
    cluster.seeds = []
    return cluster


def down(cluster, indexes):
    for index in indexes:
        cluster.crash(index)


def up(cluster, indexes):
    for index in indexes:
        cluster.restart(index)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_without_an_address_is_looked_up_again_though_somebody_joined_us(seed):
    """Nodes 1 and 2 are one cluster before the name of their seed, node 0, resolves anywhere."""
    cluster = Cluster(3, Settings.lan(), seed=seed)
    named = {1: [], 2: [1]}
    cluster.resolve = lambda machine: [cluster.machines[index].address for index in named.get(machine.index, [])]
    cluster.start([0], join=False)
    cluster.start([1, 2], within=1.0)
    cluster.run(30.0)
    assert [machine.node.alive for machine in cluster.machines] == [1, 2, 2]
    named[1] = [0]
    assert cluster.run_until(cluster.complete, 60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_other_seeds_are_looked_up_again_though_we_are_one_ourselves(seed):
    """All have one list of seeds; at the start each machine knows but its own name."""
    cluster = Cluster(3, Settings.lan(), seed=seed)
    cluster.resolve = lambda machine: [machine.address]
    cluster.start(within=1.0)
    cluster.run(30.0)
    assert [machine.node.alive for machine in cluster.machines] == [1, 1, 1]
    cluster.resolve = lambda _: [machine.address for machine in cluster.machines]
    assert cluster.run_until(cluster.complete, 60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_name_that_stands_for_another_machine_by_now_is_looked_up_again(seed):
    cluster = Cluster(4, Settings.lan(), seed=seed)
    cluster.seeds = [0]
    cluster.start([0, 1], within=1.0)
    cluster.start([2, 3], join=False)
    cluster.run(20.0)
    assert [machine.node.alive for machine in cluster.machines] == [2, 2, 1, 1]
    cluster.seeds = [2]
    assert cluster.run_until(lambda: cluster.machines[0].node.alive == 3, 120.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lookup", [0.0, 0.1, 1.0])
def test_seeds_that_are_down_are_asked_again_beside_old_addresses_that_are_down_too(seed, lookup):
    """The name server answers when the old addresses have refused, or before."""
    cluster = settled(4, seed)
    answer = cluster._resolved
    cluster._resolved = lambda *found: cluster.after(lookup, answer, *found)
    down(cluster, range(4))
    cluster.seeds = [0]
    up(cluster, [3])
    cluster.run(60.0)
    up(cluster, [0])
    assert cluster.run_until(lambda: cluster.machines[3].node.alive == 2, 20.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_join_between_two_tries_does_not_end_the_tries(seed):
    cluster = Cluster(2, Settings.lan(), seed=seed)
    cluster.start([1])
    cluster.crash(0)
    cluster.run(4.0)
    for _ in range(3):
        cluster.obey(cluster.machines[1], cluster.machines[1].node.join(cluster.now))
        cluster.run(0.5)
    cluster.run(60.0)
    cluster.restart(0)
    assert cluster.run_until(cluster.complete, 20.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_halves_that_came_up_alone_are_one_cluster_after_the_next_outage(seed):
    cluster = settled(4, seed)
    down(cluster, range(4))
    for half in ([0, 1], [2, 3]):
        up(cluster, half)
        cluster.run(30.0)
        assert [cluster.machines[index].node.alive for index in half] == [2, 2]
        down(cluster, half)
    up(cluster, range(4))
    assert cluster.run_until(cluster.complete, 60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_halves_that_came_up_behind_a_cut_are_one_cluster_after_it(seed):
    cluster = settled(8, seed)
    down(cluster, range(8))
    cluster.partition(range(4), range(4, 8))
    up(cluster, range(8))
    cluster.run(600.0)
    assert {machine.node.alive for machine in cluster.machines} == {4}
    cluster.heal()
    assert cluster.run_until(cluster.complete, 60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_halves_that_were_apart_for_longer_than_the_dead_are_shown_are_one_cluster_again(seed):
    """Without seeds: nobody but the dead is there to be asked, and what they had was dropped."""
    settings = Settings.lan(reap_after=120.0, forget_after=3600.0)
    cluster = Cluster.established(8, settings, seed=seed, record=b"record")
    cluster.run(5.0)
    cluster.partition(range(4), range(4, 8))
    cluster.run(400.0)
    assert [len(list(machine.node.members())) for machine in cluster.machines] == [4] * 8
    cluster.heal()
    assert cluster.run_until(cluster.complete, 60.0)
    assert cluster.run_until(
        lambda: all(cluster.section(one, other) is not None for one in range(8) for other in range(8)), 10.0
    )


def test_an_address_where_nobody_was_found_is_given_up_as_the_dead_are():
    cluster = settled(3, 1, reap_after=300.0, forget_after=900.0)
    down(cluster, range(3))
    up(cluster, [0, 1])
    lost = cluster.machines[2].address
    assert cluster.run_until(lambda: lost in cluster.machines[0].node.snapshot(), 60.0)
    cluster.run(cluster.settings.forget_after + 120.0)
    assert lost not in cluster.machines[0].node.snapshot()
    sent = []
    cluster.tap = lambda _machine, _data, to: sent.append(to)
    cluster.run(300.0)
    assert lost not in sent


@pytest.mark.parametrize("seed", SEEDS)
def test_one_whose_seeds_are_gone_has_joined_when_somebody_found_it_by_a_datagram(seed):
    """Node 1 comes back to a seed that is gone; node 2 held it dead, and pings it: no stream was ever opened to it."""
    cluster = Cluster(3, Settings.lan(), seed=seed)
    cluster.start(within=1.0)
    assert cluster.run_until(cluster.complete, 10.0)
    cluster.leave(0)
    cluster.crash(1)
    cluster.run(60.0)
    cluster.restart(1, forgetful=True)
    assert cluster.run_until(lambda: cluster.machines[2].node.alive == 2, 60.0)
    assert cluster.run_until(lambda: cluster.machines[1].node.joined, 20.0)

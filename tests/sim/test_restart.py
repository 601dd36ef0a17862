"""A node that comes back quickly, a peer that leaves politely, seeds that never answer."""

import pytest
from shoal.gossip import Change, Settings, State
from shoal.gossip.simulation import Cluster, Network


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_quick_restart_is_not_suspected_for_the_silence_of_the_run_before(count):
    for seed in range(40):
        cluster = Cluster(count, Settings.lan(), seed=seed)
        cluster.start(within=1.0)
        cluster.run(6.0)
        cluster.crash(1)
        cluster.run(0.5)
        cluster.restart(1)
        back = cluster.now
        cluster.run(4.0)
        returned = cluster.machines[1].identity.node_id
        late = [happening for happening in cluster.of(Change.SUSPECTED) if happening.at > back + 0.05]
        assert not [happening for happening in late if happening.subject == returned], f"seed {seed}"


def test_the_last_one_after_a_polite_leave_is_alone_and_not_isolated():
    cluster = Cluster(2, Settings.lan(), seed=1)
    cluster.start(within=1.0)
    cluster.run(5.0)
    cluster.leave(1)
    cluster.run(60.0)
    assert not cluster.machines[0].node.isolated


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_of_many_that_leave_at_once_all_are_known_to_have_left(loss):
    for seed in range(20):
        cluster = Cluster(20, Settings.local(), seed=seed, network=Network(loss=loss))
        cluster.start(within=1.0)
        cluster.run(12.0)
        for index in range(1, 20):
            cluster.after(0.3 * cluster.chance.random(), cluster.leave, index)
        cluster.run(4.0)
        assert {cluster.shown(0, index) for index in range(1, 20)} == {State.LEFT}, f"seed {seed}"


def test_the_last_one_after_a_crash_is_isolated_first():
    cluster = Cluster(2, Settings.lan(), seed=1)
    cluster.start(within=1.0)
    cluster.run(5.0)
    cluster.crash(1)
    assert cluster.run_until(lambda: cluster.machines[0].node.isolated, 10.0)


def test_a_join_that_does_not_succeed_is_noted_again_and_again():
    cluster = Cluster(2, Settings.lan(), seed=1)
    cluster.crash(0)
    cluster.start([1])
    cluster.run(300.0)
    assert 3 <= cluster.notes["join.failed"] <= 10

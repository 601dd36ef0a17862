"""Crashes are noticed by everybody, the living are not; the same seed gives the same run."""

from __future__ import annotations

from statistics import median

import pytest
from shoal.gossip import Change, Settings, State, trial
from shoal.gossip.simulation import Cluster, Network


def grown(count: int, seed: int, *, loss: float = 0.0, settings: Settings | None = None) -> Cluster:
    """A cluster in which everybody knows everybody and nothing is queued any more."""
    cluster = Cluster(count, settings or Settings.lan(), seed=seed, network=Network(loss=loss))
    cluster.start(within=0.5)
    assert cluster.run_until(cluster.complete, 30.0), f"seed {seed}"
    cluster.run(10.0)
    return cluster


def test_200_nodes_5_percent_loss_20_crashes():
    report = trial.run(trial.Trial(nodes=200, settings=Settings.lan(), loss=0.05, crashes=20, seed=7))
    assert report.complete_after is not None
    assert len(report.last_failed) == 20
    assert report.false_failures == 0
    assert max(report.last_failed) < 25.0
    assert len(report.change_known) == 199


def test_the_same_seed_gives_the_same_run():
    def once(seed: int) -> trial.Report:
        return trial.run(trial.Trial(nodes=32, settings=Settings.local(), loss=0.1, crashes=3, seed=seed))

    assert once(11) == once(11)
    assert once(11) != once(12)


def test_a_kill_among_64_is_known_to_the_last_survivor_in_time():
    cluster, took = grown(64, 1), []
    for victim in range(1, 8):
        at = cluster.now
        cluster.crash(victim)
        cluster.run(20.0)
        seen = cluster.first_seen(Change.FAILED, victim)
        assert len(seen) == 64 - victim
        took.append(max(seen.values()) - at)
    assert median(took) <= 9.0, took
    assert max(took) <= 14.0, took
    assert len(cluster.of(Change.FAILED)) == sum(64 - victim for victim in range(1, 8))


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_is_one_replacement_for_everybody(seed):
    cluster = grown(16, seed)
    cluster.happenings.clear()
    cluster.crash(5)
    cluster.run(0.1)
    cluster.restart(5)
    cluster.run(20.0)
    assert cluster.complete()
    others = [h for h in cluster.happenings if h.observer != 5 and h.what is not Change.VITALS]
    assert sorted((h.observer, h.what) for h in others) == [(i, Change.REPLACED) for i in range(16) if i != 5]


@pytest.mark.parametrize("seed", range(3))
def test_leaving_is_known_everywhere_at_once_and_is_no_death(seed):
    cluster = grown(64, seed)
    at = cluster.now
    cluster.leave(5)
    cluster.run(30.0)
    seen = cluster.first_seen(Change.LEFT, 5)
    assert len(seen) >= 63
    assert max(moment for observer, moment in seen.items() if observer != 5) - at <= 1.0, f"seed {seed}"
    assert not cluster.of(Change.FAILED, Change.SUSPECTED)


@pytest.mark.parametrize("seed", range(3))
def test_a_stop_of_three_seconds_kills_nobody(seed):
    cluster = grown(32, seed, settings=Settings.local())
    cluster.freeze(5, 3.0)
    cluster.run(30.0)
    assert not cluster.of(Change.FAILED), f"seed {seed}"
    assert cluster.complete()


@pytest.mark.parametrize("seed", range(2))
def test_a_partition_heals(seed):
    cluster = grown(16, seed)
    cluster.partition(range(8), range(8, 16))
    cluster.run(60.0)
    assert {cluster.shown(one, other) for one in range(8) for other in range(8, 16)} == {State.DEAD}
    assert {cluster.shown(one, other) for one in range(8) for other in range(8)} == {State.ALIVE}
    cluster.heal()
    assert cluster.run_until(cluster.complete, 30.0), f"seed {seed}"


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_loss_alone_kills_nobody(loss):
    cluster = grown(32, 4, loss=loss)
    cluster.run(120.0)
    assert not cluster.of(Change.FAILED)


@pytest.mark.big
def test_1000_nodes_5_percent_loss_10_crashes():
    report = trial.run(trial.Trial(nodes=1000, settings=Settings.lan(), loss=0.05, crashes=10, seed=7))
    assert len(report.last_failed) == 10
    assert report.false_failures == 0

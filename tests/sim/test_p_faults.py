"""P8 to P11 and P13: stalls, odd clocks, a day of churn, everybody restarted, partitions."""

from __future__ import annotations

import pytest
import sim_checks as checks
import sim_churn as churn
from shoal.gossip import Settings


def test_p8_a_quarter_stalls_up_to_10_s():
    checks.stalls_kill_nobody(0, seconds=90.0)


@pytest.mark.parametrize("seed", range(2))
def test_p8_a_quarter_has_packets_that_wait_up_to_10_s(seed):
    checks.stalls_kill_nobody(seed, noticed=False)


@pytest.mark.parametrize("seed", range(2))
def test_p8_at_local_timings(seed):
    checks.stalls_kill_nobody(seed, count=32, stalled=8, settings=Settings.local())


@pytest.mark.big
@pytest.mark.parametrize("noticed", [True, False])
def test_p8_a_quarter_of_400_for_five_minutes(noticed):
    checks.stalls_kill_nobody(1, count=400, stalled=100, seconds=300.0, noticed=noticed)


@pytest.mark.parametrize("seed", range(4))
def test_p9_clock_steps_drift_suspend_and_freeze(seed):
    checks.stopped_and_odd_clocks(seed)


def test_p10_a_day_of_churn_leaves_everything_flat():
    churn.stays_flat(0)


@pytest.mark.big
def test_p10_a_day_of_churn_at_lan_timings():
    churn.stays_flat(3, settings=Settings.lan(reap_after=1800.0, forget_after=7200.0))


def test_p11_100_of_100_restarted_over_5_s():
    checks.all_restart(0)


@pytest.mark.big
@pytest.mark.parametrize("seed", range(2))
def test_p11_500_of_500_restarted_over_5_s(seed):
    checks.all_restart(seed, count=500)


def test_p13_halves_for_10_minutes():
    checks.partition_heals(0)


@pytest.mark.big
def test_p13_halves_of_500_for_10_minutes():
    checks.partition_heals(1, count=500)

"""P3, P4, P12: news reaches everybody, soon by gossip and in the end by syncs, whatever happened meanwhile."""

from __future__ import annotations

import pytest
import sim_checks as checks
from shoal.gossip import Change, SectionKind


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_p3_a_row_reaches_200_within_its_ticks(loss):
    checks.spread_is_quick(1, loss=loss)


@pytest.mark.big
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_p3_a_row_reaches_1000_within_seven_ticks(loss):
    assert checks.spread_is_quick(1, count=1000, loss=loss, news=20) <= 7 + (loss > 0)


@pytest.mark.big
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_p3_a_row_reaches_10000_within_nine_ticks(loss):
    assert checks.spread_is_quick(1, count=10_000, loss=loss, news=1) <= 9 + (loss > 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("count", "seconds"), [(64, 3.5), pytest.param(1000, 6.0, marks=pytest.mark.big)])
def test_a_section_that_no_packet_holds_doubles_its_holders_by_pulls(count, seconds, seed):
    cluster = checks.rest(count, seed)
    cluster.run(5.0)
    cluster.publish(7, bytes(9000), SectionKind.HISTORY)
    assert cluster.run_until(lambda: len(cluster.first_seen(Change.SECTION, 7)) == count, seconds)


@pytest.mark.parametrize("seed", range(30))
def test_p4_and_p7_no_hole_stays_and_no_claim_falls_after_random_faults(seed):
    checks.no_hole_stays(seed)


@pytest.mark.parametrize("seed", range(3))
def test_p4_at_lan_timings(seed):
    checks.no_hole_stays(seed, settings=checks.Settings.lan(), count=24)


@pytest.mark.big
@pytest.mark.parametrize("seed", range(1000, 1600))
def test_p4_many_times(seed):
    checks.no_hole_stays(seed)


@pytest.mark.parametrize("seed", range(1))
def test_p12_leave_is_known_everywhere(seed):
    checks.leave_is_known(seed)


@pytest.mark.big
def test_p12_leave_is_known_everywhere_among_1000():
    checks.leave_is_known(1, count=1000)

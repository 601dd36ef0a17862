"""What `shoal simulate` prints comes from here: figures, curves, a plot, and word of progress."""

from __future__ import annotations

import json

import pytest
from shoal.gossip import Settings, trial

PLAN = trial.Trial(nodes=24, settings=Settings.lan(), loss=0.05, crashes=2, seed=3)


@pytest.fixture(scope="module")
def report():
    return trial.run(PLAN)


def test_the_summary_is_plain_data(report):
    found = trial.summary(report)
    assert json.loads(json.dumps(found)) == found
    assert found["unnoticed"] == found["falsely_dead"] == 0
    assert found["crashed"] == 2
    assert found["first_suspected_p50_s"] < found["noticed_p50_s"] <= found["all_noticed_last_s"]


def test_curves_rise_to_all(report):
    for points in trial.curves(report).values():
        shares = [share for _, share in points]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_the_plot_has_a_line_for_each_point(report):
    lines = trial.plot(report)
    assert len(lines) == sum(len(points) + 1 for points in trial.curves(report).values())
    assert lines[-1].endswith("#" * 40)


def test_progress_names_the_phases_in_order():
    told = []
    trial.run(PLAN, lambda phase, seconds: told.append((phase, seconds)))
    assert list(dict.fromkeys(phase for phase, _ in told)) == ["start", "change", "rest", "crash"]
    assert [seconds for _, seconds in told] == sorted(seconds for _, seconds in told)


def test_big_clusters_begin_at_rest():
    report = trial.run(trial.Trial(nodes=trial.MOST_STARTED + 1, settings=Settings.local(), crashes=1, seed=1))
    assert report.complete_after is None
    assert report.unnoticed == report.false_failures == 0


def test_a_trial_without_crashes_has_no_curve_of_them():
    report = trial.run(trial.Trial(nodes=4, settings=Settings.lan(), crashes=0, seed=1))
    assert trial.curves(report)["crash_noticed"] == []
    assert trial.summary(report)["noticed_p50_s"] is None

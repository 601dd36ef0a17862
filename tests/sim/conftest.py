"""Every failing run tells the seeds that it used and how to run it again; a run is decided by its seed alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shoal.gossip import items
from shoal.gossip.simulation import Cluster

# Tests are imported by path (import-mode=importlib), so that their shared checkers need a place to be found.
sys.path.insert(0, str(Path(__file__).parent))

_SEEDS: list[str] = []


@pytest.fixture(autouse=True)
def noted_seeds(monkeypatch):
    """Note the seed of every cluster that a test builds."""
    _SEEDS.clear()
    build = Cluster.__init__

    def noted(self, count, settings, *, seed, **rest):
        _SEEDS.append(str(seed))
        build(self, count, settings, seed=seed, **rest)

    monkeypatch.setattr(Cluster, "__init__", noted)
    # Rows parsed by one core are not for another: mutations change what may be parsed.
    items._parse_row.cache_clear()
    yield
    items._parse_row.cache_clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        mark = " -m big" if item.get_closest_marker("big") else ""
        seeds = ", ".join(dict.fromkeys(_SEEDS[-8:])) or "none"
        report.sections.append(("replay", f"seeds {seeds}\npytest{mark} '{item.nodeid}'"))

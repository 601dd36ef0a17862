"""Ten thousand nodes for a minute: crashes are noticed by all, nobody else is, and memory stays bounded."""

from __future__ import annotations

import resource
import sys

import pytest
import sim_checks as checks
from shoal.gossip import Change

# Shared base tables: without them 10 000 tables of 10 000 rows would not fit any machine.
MOST_MIB = 8 * 1024


@pytest.mark.big
def test_10000_nodes_for_60_s_with_10_crashes():
    cluster = checks.rest(10_000, 1)
    cluster.recorded = frozenset({Change.FAILED, Change.SUSPECTED})
    cluster.run(5.0)
    crashed = cluster.chance.sample(range(10_000), 10)
    for victim in crashed:
        cluster.crash(victim)
    at = cluster.now
    cluster.run(55.0)
    assert not checks.false_deaths(cluster, crashed)
    last = [max(cluster.first_seen(Change.FAILED, victim).values(), default=0.0) - at for victim in crashed]
    seen = [len(cluster.first_seen(Change.FAILED, victim)) for victim in crashed]
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)
    print(f"\nlast survivor knew after {[round(s, 1) for s in last]} s, {seen} observers, {mib:.0f} MiB")
    assert seen == [10_000 - 10] * 10
    assert mib < MOST_MIB

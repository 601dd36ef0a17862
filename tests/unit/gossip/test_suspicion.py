from __future__ import annotations

import pytest
from shoal.gossip import Settings
from shoal.gossip.suspicion import most_unconfirmed, send_limit, shortest, spread_time, timeout

LAN, LOCAL = Settings.lan(), Settings.local()


@pytest.mark.parametrize(("size", "seconds"), [(1, 4.0), (10, 4.0), (100, 8.0), (1000, 12.0)])
def test_the_shortest_suspicion_grows_with_the_logarithm(size, seconds):
    assert shortest(LAN, size) == pytest.approx(seconds)


@pytest.mark.parametrize(("confirmations", "seconds"), [(0, 48.0), (1, 22.763), (2, 8.0), (3, 8.0)])
def test_confirmations_shorten_it_from_the_longest_to_the_shortest(confirmations, seconds):
    assert timeout(LAN, 100, confirmations) == pytest.approx(seconds, abs=0.01)


def test_where_nobody_could_confirm_the_shortest_holds_at_once():
    assert timeout(LAN, 3, 0) == shortest(LAN, 3)
    assert timeout(Settings.lan(suspicion_multiplier=2), 100, 0) == pytest.approx(4.0)


def test_spread_time_and_send_limit():
    assert spread_time(LAN, 64) == pytest.approx(0.2 * 4)
    assert spread_time(LAN, 1) == spread_time(LAN, 2)
    assert [send_limit(LAN, size) for size in (1, 9, 10, 1000)] == [4, 4, 8, 16]
    assert send_limit(LOCAL, 5) == 2


def test_a_deaf_node_may_accuse_few_alone():
    assert [most_unconfirmed(size) for size in (1, 2, 50, 1000)] == [2, 3, 7, 11]

"""P5 and P6: loss alone kills nobody, suspicions are as rare as computed, and traffic is bounded whatever happens."""

from __future__ import annotations

import pytest
import sim_checks as checks
import sim_traffic
from shoal.gossip import Change, Settings
from shoal.gossip.liveness import Liveness
from shoal.gossip.probe import Prober
from shoal.gossip.simulation import Network


def suspicions_per_probe(loss, relays=3):
    """The formula of P5: the direct round trip fails, no relay brings an ack, and at least one brings a nack."""
    direct = 1 - (1 - loss) ** 2
    silent = 1 - (1 - loss) ** 4
    nack = (1 - loss) ** 2 * direct
    return direct * (silent**relays - (silent - nack) ** relays)


def p5(monkeypatch, count, seconds, seed):
    done = {"probes": 0, "accusations": 0}
    begin, accuse = Prober._begin, Liveness.accuse

    def counted_begin(self, target, now):
        done["probes"] += 1
        return begin(self, target, now)

    def counted_accuse(self, node_id, now):
        done["accusations"] += 1
        return accuse(self, node_id, now)

    monkeypatch.setattr(Prober, "_begin", counted_begin)
    monkeypatch.setattr(Liveness, "accuse", counted_accuse)
    settings = Settings.lan(tcp_fallback=False)
    cluster = checks.rest(count, seed, settings=settings, network=Network(loss=0.1))
    cluster.run(seconds)
    assert not cluster.of(Change.FAILED)
    return done["accusations"] / done["probes"], done


def test_the_formula_is_the_one_of_the_contract():
    assert suspicions_per_probe(0.1) == pytest.approx(6.4e-3, rel=0.01)


def test_p5_200_nodes_10_minutes_at_10_percent(monkeypatch):
    rate, done = p5(monkeypatch, 200, 600.0, 5)
    assert done["probes"] > 0.8 * 200 * 600
    assert rate == pytest.approx(suspicions_per_probe(0.1), rel=0.2), done


@pytest.mark.big
def test_p5_1000_nodes_10_minutes_at_10_percent(monkeypatch):
    rate, done = p5(monkeypatch, 1000, 600.0, 5)
    print(rate, done)
    assert rate == pytest.approx(suspicions_per_probe(0.1), rel=0.2), done


@pytest.mark.parametrize("profile", [Settings.lan, Settings.local, Settings.wan])
def test_p5_nobody_dies_of_loss_in_any_profile(profile):
    checks.loss_kills_nobody(3, settings=profile(), seconds=300.0)


@pytest.mark.parametrize("count", [4, 32, 256])
def test_p6_idle_traffic_is_the_same_in_every_size(count):
    cluster = checks.rest(count, 1)
    cluster.run(5.0)
    rates = sim_traffic.traffic(cluster, 20.0)
    octets, packets, streams = (sum(rate[column] for rate in rates) / count for column in range(3))
    assert octets <= sim_traffic.IDLE_BYTES
    assert packets <= sim_traffic.IDLE_PACKETS
    assert streams == 0
    assert octets == pytest.approx(211, abs=10)


@pytest.mark.parametrize("fault", sim_traffic.FAULTS, ids=lambda fault: fault.__name__)
def test_p6_bytes_are_bounded_in_every_fault_and_fall_to_rest_after_it(fault):
    sim_traffic.is_bounded(6, fault=fault)

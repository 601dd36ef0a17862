"""P6: what nodes send at rest and in faults."""

from __future__ import annotations

from shoal.gossip.simulation import Network
from sim_checks import demand, rest

# Gossip ticks with full packets to all receivers, twice that for pings, acks, relays and corrections.
MOST_BYTES = 2 * 5 * 3 * 1228
IDLE_BYTES, IDLE_PACKETS = 221, 2.05


def traffic(cluster, seconds):
    """Bytes and packets of each node in each second of that time."""
    before = [(m.bytes_out, m.packets_out, m.stream_bytes_out) for m in cluster.machines]
    cluster.run(seconds)
    after = [(m.bytes_out, m.packets_out, m.stream_bytes_out) for m in cluster.machines]
    return [
        tuple((new - old) / seconds for new, old in zip(one, other, strict=True))
        for one, other in zip(after, before, strict=True)
    ]


def heavy_loss(cluster):
    cluster.network = Network(loss=0.4)


def halves(cluster):
    cluster.partition(range(16), range(16, 32))


def blocked_udp(cluster):
    cluster.cuts.block([0], range(32), streams=False)
    cluster.cuts.block(range(32), [0], streams=False)


def one_way(cluster):
    cluster.cuts.block(range(8), range(32))


def half_dead(cluster):
    for index in range(16):
        cluster.crash(index)


def stalled(cluster):
    for index in range(8):
        cluster.stall(index, 10.0, working=1.0, until=120.0)


def twin(cluster):
    cluster.start([cluster.clone(3).index])


def doubled(cluster):
    cluster.network = Network(doubled=0.5, held=0.5, hold=3.0)


FAULTS = [heavy_loss, halves, blocked_udp, one_way, half_dead, stalled, twin, doubled]


def is_bounded(seed, *, fault):
    """P6: bytes of each node in every second of a fault, and at rest some time after it."""
    cluster = rest(32, seed, record=bytes(440))
    cluster.seeds = [0, 1]
    cluster.run(5.0)
    fault(cluster)
    for _ in range(30):
        for octets, _, streams in traffic(cluster, 3.0):
            demand(octets <= MOST_BYTES and streams <= MOST_BYTES, "P6 bytes in a fault", octets, streams)
    cluster.heal()
    cluster.network = Network()
    cluster.run(120.0)
    octets = sum(octets for octets, _, _ in traffic(cluster, 20.0)) / len(cluster.running())
    demand(octets <= IDLE_BYTES + 30, "P6 bytes after a fault", octets)

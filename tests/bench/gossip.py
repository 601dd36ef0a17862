"""What gossip costs: microseconds for each packet taken, plain and sealed, and simulated node-seconds in a second.

    python tests/bench/gossip.py [--nodes 64] [--rounds 20000]

Prints JSON. A ping is taken and answered; an ack is taken, ends its round and feeds the round trip.
"""

from __future__ import annotations

import argparse
import json
from random import Random
from time import perf_counter

from shoal.gossip import Identity, KeyRing, Node, Seal, Send, Settings, Token, Vitals, Wake, items, wire
from shoal.gossip.effects import Purpose
from shoal.gossip.frames import Frames, PlainFrames
from shoal.gossip.limits import PACKETS_A_SECOND
from shoal.gossip.member import Claim, Rank
from shoal.gossip.messages import Row, Speaker
from shoal.gossip.simulation import Cluster

KEY = bytes(range(32))
GENERATION = 1_700_000_000_000


def place(number: int) -> tuple[str, int]:
    return (f"10.0.{number >> 8}.{number & 255}", 7931)


def node_id(number: int) -> bytes:
    return number.to_bytes(2, "big") * 8


def frames_of(kind: str, seed: int) -> Frames:
    return Seal(KeyRing.of([KEY]), "shoal", Random(seed)) if kind == "sealed" else PlainFrames("shoal")


def settled(kind: str, nodes: int) -> tuple[Node, Frames]:
    """A node of a cluster in which nothing is news any more, and the frames of the others."""
    identity = Identity(node_id=node_id(1), generation=GENERATION, boot_id=bytes(8))
    node = Node(identity, Settings.lan(), Random(1), advertise=place(1), seal=frames_of(kind, 1))
    node.start(0.0)
    node.set_vitals(Vitals(available_mib=1000), 0.0)
    frames = frames_of(kind, 2)
    for number in range(2, nodes + 1):
        row = items.pack_row(Row(Claim(node_id(number), GENERATION, 0, Rank.ALIVE, place(number))))
        speaker = Speaker(node_id(number), GENERATION, 0)
        node.receive(frames.wrap(wire.message(wire.GOSSIP, speaker, (row,))), place(number), 0.0)
    for turn in range(100):
        node.wake(Token(Purpose.GOSSIP, number=node._parts.spread._tick_number), float(turn))
    return node, frames


def opening(node: Node, kind: int, request: int, sender: int) -> bytes:
    table = node._core.table
    summary = (0, bytes(8), table.hash, 0, table.buckets[0])
    return wire.opening(kind, request, Speaker(node_id(sender), GENERATION, 0), 16, summary) + _plus(kind)


def _plus(kind: int) -> bytes:
    vitals = Vitals(available_mib=500).pack()
    return (wire.aim(node_id(1), GENERATION, Rank.ALIVE, 0) if kind == wire.PING else b"") + vitals


def pings(kind: str, nodes: int, rounds: int) -> float:
    node, frames = settled(kind, nodes)
    senders = [2 + number % (nodes - 1) for number in range(rounds)]
    packets = [frames.wrap(opening(node, wire.PING, number, sender)) for number, sender in enumerate(senders)]
    pace = nodes * PACKETS_A_SECOND / 2
    began = perf_counter()
    for number, (sender, packet) in enumerate(zip(senders, packets, strict=True)):
        node.receive(packet, place(sender), 100.0 + number / pace)
    return (perf_counter() - began) / rounds * 1e6


def acks(kind: str, nodes: int, rounds: int) -> float:
    """Rounds run first; only taking the acks is timed."""
    node, frames = settled(kind, nodes)
    numbers = {node_id(number): number for number in range(2, nodes + 1)}
    took = 0.0
    for turn in range(rounds):
        now = 200.0 + turn
        effects = node.wake(Token(Purpose.PROBE), now)
        (request,) = [e.token.number for e in effects if isinstance(e, Wake) and e.token.purpose is Purpose.DIRECT]
        (sent,) = [e for e in effects if isinstance(e, Send)]
        target = numbers[wire.decode(frames.unwrap(sent.data)).target]
        packet = frames.wrap(opening(node, wire.ACK, request, target))
        began = perf_counter()
        node.receive(packet, place(target), now + 0.001)
        took += perf_counter() - began
    return took / rounds * 1e6


def node_seconds(nodes: int) -> float:
    cluster = Cluster(nodes, Settings.lan(), seed=1)
    cluster.start(within=0.5)
    cluster.run_until(cluster.complete, 30.0)
    cluster.run(10.0)
    began = perf_counter()
    cluster.run(30.0)
    return 30.0 * nodes / (perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20_000)
    options = parser.parse_args()
    report: dict[str, object] = {"nodes": options.nodes}
    for kind in ("plain", "sealed"):
        report[f"ping_us_{kind}"] = round(pings(kind, options.nodes, options.rounds), 1)
        report[f"ack_us_{kind}"] = round(acks(kind, options.nodes, options.rounds // 4), 1)
    report["simulated_node_seconds_per_second"] = round(node_seconds(options.nodes))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

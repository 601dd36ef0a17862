"""memberlist#236, mimir#6187: what is no packet of this cluster is counted, noted once a minute, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from shoal.gossip import KeyRing, Note, Seal, Settings, wire
from shoal.gossip.frames import MAGIC, PlainFrames

HTTP = b"GET / HTTP/1.1\r\nHost: 10.0.0.1:7931\r\n\r\n"


def said(kit) -> bytes:
    """A whole message, as another cluster would say it."""
    return wire.message(wire.GOSSIP, kit.speaker(9), ())


def sealed(kit, key: bytes = b"k" * 32, cluster: str = "shoal") -> bytes:
    return Seal(KeyRing.of([key]), cluster, Random(1)).wrap(said(kit))


STRANGE = {
    "http": (lambda _kit: HTTP, "frame magic"),
    "random": (lambda _kit: Random(7).randbytes(300), "frame magic"),
    "nothing": (lambda _kit: b"", "frame magic"),
    "another version": (lambda _kit: MAGIC + b"\x09" + bytes(60), "frame version"),
    "another cluster": (lambda kit: PlainFrames("reef").wrap(said(kit)), "wrong key or cluster"),
    "sealed": (sealed, "wrong key or cluster"),
    "our header and junk": (lambda _kit: MAGIC + b"\x01\x00" + Random(7).randbytes(90), "wrong key or cluster"),
}


@pytest.fixture(params=["datagram", "stream"])
def take(request):
    """`take(node, data, source, now)`: what it does about a packet or a request; a request gets no answer."""

    def take(node, data, source, now):
        if request.param == "datagram":
            return node.receive(data, source, now)
        reply, effects = node.serve(data, source, now)
        assert reply is None
        return effects

    return take


@pytest.mark.parametrize("kind", STRANGE)
def test_it_is_counted_and_noted_once_a_minute_with_the_address(kit, take, kind):
    make, place = STRANGE[kind]
    node = kit.node(1)
    before = (list(node.members()), node.isolated, node.joined)
    effects = [
        (now, take(node, make(kit), kit.address(20 + number), now))
        for number, now in enumerate((1.0, 1.1, 30.0, 60.9, 61.0, 61.1, 120.9, 121.1))
    ]
    notes = [(now, note) for now, found in effects for note in found]
    assert [now for now, _ in notes] == [1.0, 61.0, 121.1]
    assert [type(note) for _, note in notes] == [Note] * 3
    assert [note.event for _, note in notes] == ["packet.refused"] * 3
    assert [note.fields["source"] for _, note in notes] == ["10.0.0.20:7931", "10.0.0.24:7931", "10.0.0.27:7931"]
    assert node.counters[f"refused: {place}"] == len(effects)
    assert (list(node.members()), node.isolated, node.joined) == before


@pytest.mark.parametrize("kind", ["http", "random", "another cluster", "plain"])
def test_a_sealed_node_does_the_same(kit, take, kind):
    make = {"plain": lambda kit: kit.frames.wrap(said(kit)), **{name: made for name, (made, _) in STRANGE.items()}}[
        kind
    ]
    seal = Seal(KeyRing.of([b"o" * 32]), "shoal", Random(2))
    node = kit.node(1, seal=seal)
    found = [take(node, data, kit.address(9), now) for now in (1.0, 59.0, 61.5) for data in (make(kit), make(kit))]
    assert [len(effects) for effects in found] == [1, 0, 0, 0, 1, 0]
    assert sum(count for what, count in node.counters.items() if what.startswith("refused")) == 6
    assert len(list(node.members())) == 1


def test_an_ipv6_source_is_told_as_people_write_it(kit):
    (note,) = kit.node(1).receive(HTTP, ("fd00::7", 7931), 1.0)
    assert note.fields["source"] == "[fd00::7]:7931"


def test_one_that_is_refused_on_both_ways_is_noted_once(kit):
    node = kit.node(1)
    assert node.receive(HTTP, kit.address(9), 1.0)
    assert node.serve(HTTP, kit.address(9), 2.0) == (None, [])


def test_a_node_of_one_cluster_never_answers_one_of_another(kit):
    """Whatever a node sends first to an address, the node of another cluster there says nothing at all."""
    here = kit.node(1)
    there = kit.node(2, Settings.lan(cluster="reef"))
    first = here.receive(kit.gossip(9), kit.address(9), 1.0)  # somebody to talk to, and so something to say
    assert first
    packets = [PlainFrames("shoal").wrap(said(kit)), kit.gossip(9), *(e.data for e in first if hasattr(e, "data"))]
    effects = [effect for data in packets for effect in there.receive(data, kit.address(1), 1.0)]
    assert [type(effect) for effect in effects] == [Note]
    assert len(list(there.members())) == 1

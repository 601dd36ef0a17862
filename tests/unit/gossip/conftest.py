"""Makers of nodes, claims and packets: tests say only what matters to them."""

from __future__ import annotations

from random import Random

import pytest
from shoal.gossip import Address, Identity, Node, Rank, Send, Settings, wire
from shoal.gossip.errors import WireError
from shoal.gossip.frames import PlainFrames
from shoal.gossip.items import digest_of, pack_address
from shoal.gossip.member import Claim, Section
from shoal.gossip.messages import ANYONE, Head, Row, Speaker, Summary

GENERATION = 1000


def greeting(speaker: Speaker, address: Address) -> bytes:
    """A ping as it comes over a stream: whoever has it knows its sender."""
    opening = wire.opening(wire.PING, 0, speaker, 0, Summary(0, bytes(8), 0, 0, 0))
    return b"".join((opening, wire.aim(ANYONE, 0, 0, 0), pack_address(address)))


class Acquainted(Node):
    """A node that whoever sends it a datagram has met before, over a stream: most tests are about what comes after."""

    meets_strangers = False

    def receive(self, data, source, now):
        return self._greeted(data, source, now) + super().receive(data, source, now)

    def _greeted(self, data, source, now):
        try:
            speaker = wire.decode(Kit.frames.unwrap(data)).sender
        except WireError:
            return []
        if (
            self.meets_strangers
            or not isinstance(self._core.frames, PlainFrames)
            or self._core.table.get(speaker.node_id) is not None
        ):
            return []
        return self.serve(Kit.frames.wrap(greeting(speaker, source)), source, now)[1]


class Kit:
    """Ids are one byte repeated; node `n` lives at 10.0.0.n."""

    frames = PlainFrames("shoal")

    def id(self, number: int) -> bytes:
        return bytes([number]) * 16

    def address(self, number: int) -> Address:
        return (f"10.0.0.{number}", 7931)

    def identity(self, number: int, generation: int = GENERATION) -> Identity:
        return Identity(node_id=self.id(number), generation=generation, boot_id=bytes([number]) * 8)

    def node(self, number: int = 1, settings: Settings | None = None, *, seed: int = 1, **changes) -> Node:
        node = Acquainted(
            self.identity(number, changes.pop("generation", GENERATION)),
            settings or Settings.lan(),
            Random(seed),
            advertise=self.address(number),
            **changes,
        )
        node.start(0.0)
        return node

    def claim(self, number: int, rank: Rank = Rank.ALIVE, *, generation=GENERATION, incarnation=0, accusers=()):
        prefixes = tuple(sorted(self.id(accuser)[:8] for accuser in accusers))
        return Claim(self.id(number), generation, incarnation, rank, self.address(number), prefixes)

    def row(self, number: int, rank: Rank = Rank.ALIVE, *, heads: tuple[Head, ...] = (), **claim) -> Row:
        return Row(self.claim(number, rank, **claim), heads)

    def section(self, payload: bytes, *, generation=GENERATION, version=1) -> Section:
        return Section(generation, version, digest_of(payload), payload)

    def speaker(self, number: int, *, generation=GENERATION, incarnation=0) -> Speaker:
        return Speaker(self.id(number), generation, incarnation)

    def gossip(self, sender: int, *parts: bytes, **speaker) -> bytes:
        """A gossip datagram with these packed items."""
        return self.frames.wrap(wire.message(wire.GOSSIP, self.speaker(sender, **speaker), parts))

    def greeting(self, sender: int) -> bytes:
        return greeting(self.speaker(sender), self.address(sender))

    def opened(self, effects, kind=None):
        """The messages of all sends among the effects, with their destinations."""
        sent = [(wire.decode(self.frames.unwrap(e.data)), e.to) for e in effects if isinstance(e, Send)]
        return sent if kind is None else [(m, to) for m, to in sent if isinstance(m, kind)]


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture
def told(kit):
    """`told(node, row, sender=.., now=..)`: the node hears a row from a member; gives the effects."""
    from shoal.gossip.items import pack_row

    def tell(node: Node, row: Row, *, sender: int = 9, now: float = 0.0, age: int | None = None):
        return node.receive(kit.gossip(sender, pack_row(row, age)), kit.address(sender), now)

    return tell

"""Makers of nodes, claims and packets: tests say only what matters to them."""

from __future__ import annotations

from random import Random

import pytest
from shoal.gossip import Address, Identity, Node, Rank, Send, Settings, wire
from shoal.gossip.frames import PlainFrames
from shoal.gossip.items import digest_of
from shoal.gossip.member import Claim, Section
from shoal.gossip.messages import Head, Row, Speaker

GENERATION = 1000


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
        node = Node(
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

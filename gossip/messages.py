"""What nodes say to each other, as values. `wire` turns them from bytes; every field has its type and range by then.

Over UDP: Ping, Ack, PingRequest, Nack, NotMe, Gossip, and Page -> Paged where TCP is blocked. Over TCP, one request and
one reply per connection: Sync -> Synced or Busy, Push -> Pushed, Pull -> Pulled or Busy, Ping -> Ack.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .member import Address, Claim, Rank, Section

ANYONE = bytes(16)
"""The target of a ping to an address of which only that is known, such as a seed's."""


class Flag:
    """Bits of a ping, an ack or a sync; plain integers, because every packet tests them."""

    QUIET_TABLE: Final = 1
    """The sender's table has been unchanged for twice the spread time."""
    QUIET_BUCKET: Final = 2
    """So has the bucket that this packet carries."""
    YOUNG: Final = 4
    """The sender's table gained a member in the last seconds."""
    RELAYED: Final = 8
    """The ack was asked for by a relay, which passes it on: sender is the target, source is the relay."""
    VITALS: Final = 16
    """The sender's vitals follow the fixed part."""
    JOINING: Final = 32
    """A sync of a node that knows nobody yet: send everything."""
    STALE: Final = 64
    """The sender of a reply was away for long: it teaches only itself."""
    BUSY: Final = 128
    """A page is refused; its rows are members to ask instead."""


class Head(NamedTuple):
    """Version of one section of a row's node, within the generation of the row."""

    kind: int
    version: int
    digest: bytes


class Row(NamedTuple):
    """A claim about a node with the versions of its sections: what gossip is made of."""

    claim: Claim
    heads: tuple[Head, ...] = ()
    """Sorted by kind."""


class Speaker(NamedTuple):
    """The sender's claim about itself, less the address."""

    node_id: bytes
    generation: int
    incarnation: int


class Summary(NamedTuple):
    """What a ping and an ack say of their sender's knowledge."""

    record_version: int
    """0 while it has no record."""
    record_digest: bytes
    table_hash: int
    bucket: int
    bucket_hash: int


class SectionItem(NamedTuple):
    """A section on its way."""

    node_id: bytes
    kind: int
    section: Section


class VitalsItem(NamedTuple):
    """Vitals of a third node. Every string of 30 bytes is valid vitals, so they stay packed until somebody reads."""

    node_id: bytes
    generation: int
    age: float
    """Seconds since they were true."""
    packed: bytes


class Want(NamedTuple):
    """A section asked for; any version at least as new will do."""

    node_id: bytes
    generation: int
    kind: int
    version: int


class Place(NamedTuple):
    """How far an exchange by pages has come: after this section, or this row, of this node. See `pages`."""

    phase: int = 0
    node_id: bytes = ANYONE
    kind: int = 0

    @property
    def begins(self) -> bool:
        return not self.phase and self.node_id == ANYONE


class Items(NamedTuple):
    """The variable part of any message."""

    rows: tuple[Row, ...] = ()
    ages: tuple[tuple[bytes, int], ...] = ()
    """Seconds since the end of the dead and left among `rows`, by node id."""
    sections: tuple[SectionItem, ...] = ()
    vitals: tuple[VitalsItem, ...] = ()
    wants: tuple[Want, ...] = ()
    hashes: tuple[int, ...] = ()
    """All bucket hashes, or nothing."""
    address: Address | None = None
    """The sender's own, when it differs from the source of its packets."""
    boot_id: bytes = b""
    cursor: int = 0
    """A reply that stopped early goes on from this bucket; a request asks from here."""
    place: Place | None = None
    """Likewise for pages."""
    observed: Address | None = None
    """Where the receiver's packets come from, when that is not the address that it claims."""
    unknown: int = 0
    """Items of types that this version does not know; skipped."""


NO_ITEMS = Items()


class Ping(NamedTuple):
    """Are you there, and are you still that node? Also tells the target how the sender sees it."""

    request: int
    sender: Speaker
    flags: int
    summary: Summary
    target: bytes
    target_generation: int
    view_rank: Rank
    view_incarnation: int
    vitals: bytes
    items: Items


class Ack(NamedTuple):
    """Here I am, with my own generation and claim."""

    request: int
    sender: Speaker
    flags: int
    summary: Summary
    vitals: bytes
    items: Items


class PingRequest(NamedTuple):
    """Ping that node for me, and say within `wait_ms` whether it answered you."""

    request: int
    sender: Speaker
    target: bytes
    target_generation: int
    to: Address
    wait_ms: int
    items: Items


class Nack(NamedTuple):
    """I hear you, but the target did not answer me."""

    request: int
    sender: Speaker
    items: Items


class NotMe(NamedTuple):
    """The pinged address is mine, the pinged id is not."""

    request: int
    sender: Speaker
    items: Items


class Gossip(NamedTuple):
    """News only."""

    sender: Speaker
    items: Items


class Sync(NamedTuple):
    """Compare tables by bucket hashes; `joining` asks for everything."""

    sender: Speaker
    flags: int
    items: Items


class Synced(NamedTuple):
    """Rows of the buckets that differ; for a joiner also sections and vitals."""

    sender: Speaker
    flags: int
    items: Items


class Page(NamedTuple):
    """One datagram of a sync without TCP, as long as its reply may be: what I have, and what comes next after `place`?

    `joining` as in a Sync.
    """

    request: int
    sender: Speaker
    flags: int
    items: Items


class Paged(NamedTuple):
    """The next rows and sections; without a place that was all."""

    request: int
    sender: Speaker
    flags: int
    items: Items


class Busy(NamedTuple):
    """Ask one of these instead, or ask later."""

    sender: Speaker
    items: Items


class Push(NamedTuple):
    """What a sync showed the other to lack."""

    sender: Speaker
    items: Items


class Pushed(NamedTuple):
    """Taken."""

    sender: Speaker
    items: Items


class Pull(NamedTuple):
    """Send these sections."""

    sender: Speaker
    items: Items


class Pulled(NamedTuple):
    """Those of them that I hold."""

    sender: Speaker
    items: Items


Message = (
    Ping
    | Ack
    | PingRequest
    | Nack
    | NotMe
    | Gossip
    | Sync
    | Synced
    | Busy
    | Push
    | Pushed
    | Pull
    | Pulled
    | Page
    | Paged
)

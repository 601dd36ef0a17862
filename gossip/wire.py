"""Messages to bytes and back. Total: any bytes give a message or a WireError, and nothing else.

    every message    type u8, flags u8, request u64, sender id 16, generation u64, incarnation u32      38 bytes
    ping, ack        record version u32, digest 8, table hash u32, bucket u8, bucket hash u32           21 more
    ping             target id 16, generation u64, view rank u8, view incarnation u32                   29 more
    ping-req         target id 16, generation u64, wait u16; the target's address is its first item
    then vitals (30) if the flag says so, then items (see `items`)

Integers are big-endian. A frame around it (see `frames`, `seal`) makes the datagram or the stream's payload.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from . import items as tail
from .errors import WireError
from .member import Address, Rank
from .messages import (
    ANYONE,
    Ack,
    Busy,
    Flag,
    Gossip,
    Items,
    Message,
    Nack,
    NotMe,
    Page,
    Paged,
    Ping,
    PingRequest,
    Pull,
    Pulled,
    Push,
    Pushed,
    Speaker,
    Summary,
    Sync,
    Synced,
)
from .vitals import PACKED_BYTES as VITALS_BYTES

PING, ACK, PING_REQUEST, NACK, NOT_ME, GOSSIP, SYNC, SYNCED, BUSY, PUSH, PUSHED, PULL, PULLED, PAGE, PAGED = range(
    1, 16
)

_HEADER = struct.Struct(">BBQ16sQI")
_SUMMARY = struct.Struct(">I8sIBI")
_PING = struct.Struct(">16sQBI")
_REQUEST = struct.Struct(">16sQH")

HEADER_BYTES = _HEADER.size
ACK_BYTES = HEADER_BYTES + _SUMMARY.size
PING_BYTES = ACK_BYTES + _PING.size
REQUEST_BYTES = HEADER_BYTES + _REQUEST.size
# A ping request is at least as long as all that it makes a relay send: a ping, an ack or a nack, and two more headers.
LEAST_REQUEST_BYTES = PING_BYTES + ACK_BYTES + 60
# The payload of a stream's frame: some thousands of rows; more is paged by bucket.
STREAM_BYTES = 1 << 20

_RANKS = tuple(Rank)
_PLAIN: dict[int, type[Nack | NotMe]] = {NACK: Nack, NOT_ME: NotMe}
_STREAMED: dict[int, type[Gossip | Busy | Push | Pushed | Pull | Pulled]] = {
    GOSSIP: Gossip,
    BUSY: Busy,
    PUSH: Push,
    PUSHED: Pushed,
    PULL: Pull,
    PULLED: Pulled,
}


def opening(kind: int, request: int, sender: Speaker, flags: int, summary: Summary) -> bytes:
    """The fixed part that a ping and an ack share. An ack is this, vitals if flagged, and items."""
    return _HEADER.pack(kind, flags, request, *sender) + _SUMMARY.pack(*summary)


def without_vitals(opening: bytes) -> bytes:
    """The same opening of a message that carries none."""
    return opening[:1] + bytes((opening[1] & ~Flag.VITALS,)) + opening[2:]


def aim(target: bytes, generation: int, view_rank: int, view_incarnation: int) -> bytes:
    """What follows the opening of a ping: whom it is for, and how the sender sees that node."""
    return _PING.pack(target, generation, view_rank, view_incarnation)


def ping_request(request: int, sender: Speaker, target: tuple[bytes, int, int], to: Address) -> bytes:
    """`target`: id, generation, and how many milliseconds the relay may wait."""
    said = b"".join((_HEADER.pack(PING_REQUEST, 0, request, *sender), _REQUEST.pack(*target), tail.pack_address(to)))
    return said + tail.pack_padding(LEAST_REQUEST_BYTES - len(said))


def message(kind: int, sender: Speaker, extra: Iterable[bytes] = (), request: int = 0, flags: int = 0) -> bytes:
    """Any message that has only the common header and items."""
    return b"".join((_HEADER.pack(kind, flags, request, *sender), *extra))


def decode(data: bytes) -> Message:
    """The message of one frame's payload. Raises WireError."""
    if len(data) < HEADER_BYTES:
        raise WireError("message", f"at least {HEADER_BYTES} bytes", len(data))
    kind, flags, request, node_id, made, incarnation = _HEADER.unpack_from(data)
    if node_id == ANYONE:
        raise WireError("sender", "a node id", node_id)
    sender = Speaker(
        node_id,
        tail.generation(made, "sender generation"),
        tail.incarnation(incarnation, "sender incarnation"),
    )
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(data, request, sender, flags)
    items = tail.parse(data, HEADER_BYTES)
    if kind in _PLAIN:
        return _PLAIN[kind](request, sender, items)
    if kind in _STREAMED:
        return _STREAMED[kind](sender, items)
    raise WireError("message type", "a known one", kind)


def _ping(data: bytes, request: int, sender: Speaker, flags: int) -> Ping:
    if len(data) < PING_BYTES:
        raise WireError("ping", f"at least {PING_BYTES} bytes", len(data))
    target, made, rank, incarnation = _PING.unpack_from(data, ACK_BYTES)
    if target != ANYONE:
        tail.generation(made, "target generation")
    if rank >= len(_RANKS):
        raise WireError("view", "a rank", rank)
    vitals, items = _vitals_and_items(data, PING_BYTES, flags)
    view = tail.incarnation(incarnation, "view incarnation")
    return Ping(request, sender, flags, _summary(data), target, made, _RANKS[rank], view, vitals, items)


def _ack(data: bytes, request: int, sender: Speaker, flags: int) -> Ack:
    if len(data) < ACK_BYTES:
        raise WireError("ack", f"at least {ACK_BYTES} bytes", len(data))
    vitals, items = _vitals_and_items(data, ACK_BYTES, flags)
    return Ack(request, sender, flags, _summary(data), vitals, items)


def _ping_request(data: bytes, request: int, sender: Speaker, _flags: int) -> PingRequest:
    if len(data) < LEAST_REQUEST_BYTES:
        raise WireError("ping request", f"at least {LEAST_REQUEST_BYTES} bytes", len(data))
    target, made, wait_ms = _REQUEST.unpack_from(data, HEADER_BYTES)
    items = tail.parse(data, REQUEST_BYTES)
    if items.address is None:
        raise WireError("ping request", "the target's address", None)
    made = tail.generation(made, "target generation")
    return PingRequest(request, sender, target, made, items.address, wait_ms, items)


def _sync(data: bytes, _request: int, sender: Speaker, flags: int) -> Sync:
    items = tail.parse(data, HEADER_BYTES)
    if not items.hashes:
        raise WireError("sync", "bucket hashes", None)
    return Sync(sender, flags, items)


def _synced(data: bytes, _request: int, sender: Speaker, flags: int) -> Synced:
    items = tail.parse(data, HEADER_BYTES)
    if not items.hashes:
        raise WireError("sync reply", "bucket hashes", None)
    return Synced(sender, flags, items)


def _page(data: bytes, request: int, sender: Speaker, flags: int) -> Page:
    items = tail.parse(data, HEADER_BYTES)
    if not items.hashes or items.place is None:
        raise WireError("page", "bucket hashes and a place", None)
    return Page(request, sender, flags, items)


def _paged(data: bytes, request: int, sender: Speaker, flags: int) -> Paged:
    return Paged(request, sender, flags, tail.parse(data, HEADER_BYTES))


def _summary(data: bytes) -> Summary:
    summary = Summary(*_SUMMARY.unpack_from(data, HEADER_BYTES))
    if summary.bucket >= tail.BUCKETS:
        raise WireError("bucket", f"below {tail.BUCKETS}", summary.bucket)
    return summary


def _vitals_and_items(data: bytes, start: int, flags: int) -> tuple[bytes, Items]:
    if not flags & Flag.VITALS:
        return b"", tail.parse(data, start)
    stop = start + VITALS_BYTES
    if len(data) < stop:
        raise WireError("vitals", f"{VITALS_BYTES} bytes", len(data) - start)
    return data[start:stop], tail.parse(data, stop)


_SPECIAL: dict[int, Callable[[bytes, int, Speaker, int], Message]] = {
    PING: _ping,
    ACK: _ack,
    PING_REQUEST: _ping_request,
    SYNC: _sync,
    SYNCED: _synced,
    PAGE: _page,
    PAGED: _paged,
}

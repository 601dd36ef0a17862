"""Frames: what surrounds a message in a datagram or a stream. This module is the unsealed form; `seal` is the other.

    magic 2 | version u8 | key id u8 | payload | CRC-32 over header, cluster name and payload

The checksum refuses every single-bit flip and the packets of another cluster; it keeps nobody out who wants in.
"""

from __future__ import annotations

from typing import Protocol
from zlib import crc32

from .errors import FrameRefused
from .member import Address

MAGIC = b"\xb6\x5a"  # not ASCII, so that no text protocol begins like it
VERSION = 1
PLAIN_KEY_ID = 0
HEADER_BYTES = 4
_CRC_BYTES = 4
SEAL_BYTES = 28  # nonce and tag of the sealed form
# Place of the refusal of a frame that is ours in form, and of another key or cluster; also the counter's name.
WRONG_KEY = "wrong key or cluster"
# The IPv6 minimum MTU (1280) less IP and UDP headers, with room for options: never rely on fragments.
DATAGRAM_BYTES = 1200
# The same for both forms, so that switching sealing on moves no limit.
PAYLOAD_BYTES = DATAGRAM_BYTES - HEADER_BYTES - SEAL_BYTES


class Frames(Protocol):
    """Wraps payloads into frames and back."""

    @property
    def overhead(self) -> int:
        """Bytes that a frame adds to its payload."""
        ...

    def wrap(self, payload: bytes, to: Address | None = None, /) -> bytes:
        """The frame of a datagram to that address."""
        ...

    def wrap_stream(self, payload: bytes, to: Address | None = None, /) -> bytes:
        """The frame of a request or a reply over TCP."""
        ...

    def unwrap(self, frame: bytes, source: Address | None = None, /) -> bytes:
        """The payload of either. Raises FrameRefused."""
        ...

    def renew(self) -> None:
        """Time was lost, or another process may be using what we use: repeat nothing."""
        ...


class PlainFrames:
    """Frames of a cluster without a key."""

    overhead = HEADER_BYTES + _CRC_BYTES

    def __init__(self, cluster: str) -> None:
        self._header = MAGIC + bytes((VERSION, PLAIN_KEY_ID))
        self._seed = crc32(cluster.encode(), crc32(self._header))

    def wrap(self, payload: bytes, _to: Address | None = None, /) -> bytes:
        return self._header + payload + crc32(payload, self._seed).to_bytes(_CRC_BYTES, "big")

    wrap_stream = wrap

    def unwrap(self, frame: bytes, _source: Address | None = None, /) -> bytes:
        check_header(frame)
        if frame[3] != PLAIN_KEY_ID:
            raise FrameRefused(WRONG_KEY, "an unsealed frame: this cluster has no key", frame[3])
        payload = frame[HEADER_BYTES:-_CRC_BYTES]
        if len(frame) < HEADER_BYTES + _CRC_BYTES or crc32(payload, self._seed) != int.from_bytes(frame[-4:], "big"):
            raise FrameRefused(WRONG_KEY, "the checksum of this cluster", frame[-4:])
        return payload

    def renew(self) -> None:
        """Nothing here could repeat."""


def check_header(frame: bytes) -> None:
    """Raises FrameRefused unless this is our protocol in our version."""
    if len(frame) < HEADER_BYTES or not frame.startswith(MAGIC):
        raise FrameRefused("frame magic", "a shoal frame", frame[:HEADER_BYTES])
    if frame[2] != VERSION:
        raise FrameRefused("frame version", f"version {VERSION}", frame[2])

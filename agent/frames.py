"""Frames of the local socket, without a socket: `u32 little-endian length | msgpack map`.

The invariant in two lines: any bytes give messages or one `BadFrame`, nothing else;
and feeding them in pieces gives exactly what feeding them at once gives.
"""

from __future__ import annotations

import msgpack  # pyright: ignore[reportMissingTypeStubs]

from .errors import BadArgument, BadFrame, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# A requirement or a set of labels is a few kilobytes; a mebibyte leaves room and still bounds a hostile caller.
REQUEST_BYTES = 1 << 20
# A page of 256 nodes whose records all have the largest size gossip carries (16 KiB), with as much again for the rest.
REPLY_BYTES = 16 << 20
LENGTH_BYTES = 4
# Consumed bytes are cut off the buffer only now and then, else a pipelined burst would be copied once a frame.
_CUT_BYTES = 64 << 10
# msgpack ships no types.
_codec: Any = msgpack


def encode(message: Mapping[str, Any], limit: int) -> bytes:
    """One frame holding `message`.

    Raises:
        BadArgument: it holds what msgpack has no form for: an object, a number over 64 bits, text that is not Unicode.
        Refused: it does not fit `limit` bytes.
    """
    try:
        payload: bytes = _codec.packb(message)
    except UnicodeEncodeError as error:
        raise BadArgument(f"text that is not valid Unicode: {error.object!r}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(f"a value that cannot be sent: {error}") from error
    if len(payload) > limit:
        raise Refused(f"a message of {len(payload)} bytes, where at most {limit} can be sent", hint="ask for less")
    return len(payload).to_bytes(LENGTH_BYTES, "little") + payload


class FrameReader:
    """Turns fed bytes into messages. After a `BadFrame` every further `next_message` raises it again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._start = 0
        self._broken: str | None = None

    def feed(self, data: bytes) -> None:
        if self._broken is None:
            self._buffer += data

    @property
    def pending(self) -> int:
        """Bytes that are fed and not yet given out as messages."""
        return len(self._buffer) - self._start

    def next_message(self) -> dict[str, Any] | None:
        """The next whole message, or None until more bytes are fed.

        Raises:
            BadFrame: the bytes are no frame, or announce one over the limit.
        """
        if self._broken is not None:
            raise BadFrame(self._broken)
        try:
            return self._take()
        except BadFrame as error:
            self._broken = error.message
            self._buffer.clear()
            self._start = 0
            raise

    def _take(self) -> dict[str, Any] | None:
        begin = self._start + LENGTH_BYTES
        if len(self._buffer) < begin:
            return None
        length = int.from_bytes(self._buffer[self._start : begin], "little")
        if length > self._limit:
            raise BadFrame(f"a frame of {length} bytes, where at most {self._limit} are taken")
        end = begin + length
        if len(self._buffer) < end:
            return None
        message = _decode(self._buffer[begin:end])
        self._start = end
        if end == len(self._buffer) or end > _CUT_BYTES:
            del self._buffer[:end]
            self._start = 0
        return message


def _decode(payload: bytearray) -> dict[str, Any]:
    try:
        message = _codec.unpackb(payload, ext_hook=_no_extension)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadFrame(f"a frame that is not msgpack: {error}") from error
    if (kind := type(message).__name__) != "dict":
        raise BadFrame(f"a frame holding {kind}, where a map is expected")
    for key in message:
        if type(key) is not str:
            raise BadFrame(f"a frame with the key {key!r}, where keys are strings")
    return message


def _no_extension(code: int, _data: bytes) -> None:
    raise ValueError(f"extension type {code}")

"""TCP beside UDP: one request frame, one reply frame, within a deadline. The gossip core decides what they say."""

import contextlib
import socket
import struct
from collections.abc import Callable, Generator

import trio

from ..gossip.effects import Outcome, Refused, TimedOut
from ..gossip.member import Address
from .udp import canonical

_LENGTH = struct.Struct("<I")
# A sync of 10 000 members with 60-label records is about 6 MiB; more than four times that is no sync of ours.
FRAME_BYTES = 32 << 20
# A client gets this long to say and hear everything: a slow reader must not hold a place.
SERVE_SECONDS = 10.0
# A join storm is answered with `busy` by the core; past this many open connections new ones are closed at once.
SERVED_AT_ONCE = 64
# Requests and replies of all connections together: two of the largest frames, so that no crowd of hostile peers, each
# within its own limit, fills the memory.
HELD_BYTES = 2 * FRAME_BYTES
# Bytes are asked for in pieces of this size, so that a claimed length allocates nothing.
PIECE = 1 << 16


def _unbounded(_count: int) -> None:
    """Of our own questions there are few at a time, and each is bounded by its frame."""


class FrameRefused(Exception):
    """The other side sent no whole frame within the limits; the connection is of no further use."""


async def ask(to: Address, payload: bytes, within: float) -> Outcome:
    """Send `payload` to `to` as one frame and read one back. `Refused` is an answer too: something lives there."""
    with trio.move_on_after(within):
        try:
            async with await _connect(to) as stream:
                await _send(stream, payload)
                return await _receive(stream)
        except (ConnectionRefusedError, trio.BrokenResourceError, FrameRefused):
            return Refused()
        except OSError:
            return TimedOut()
    return TimedOut()


class StreamServer:
    """Accepts connections and answers each with what `serve(payload, source)` returns; None closes without a word.

    `count` is told of each connection that ended otherwise, by a constant text.
    """

    def __init__(
        self, sock: socket.socket, serve: Callable[[bytes, Address], bytes | None], count: Callable[[str], None]
    ) -> None:
        self._sock = trio.socket.from_stdlib_socket(sock)
        self._serve = serve
        self._count = count
        self._open = 0
        self._held = 0

    async def run(self) -> None:
        await trio.serve_listeners(self._one, [trio.SocketListener(self._sock)])

    def close(self) -> None:
        self._sock.close()

    async def _one(self, stream: trio.SocketStream) -> None:
        if self._open >= SERVED_AT_ONCE:
            self._count("streams: too many")
            await trio.aclose_forcefully(stream)
            return
        self._open += 1
        try:
            with trio.move_on_after(SERVE_SECONDS) as scope, self._share() as take:
                await self._exchange(stream, take)
            if scope.cancelled_caught:
                self._count("streams: too slow")
        except FrameRefused:
            self._count("streams: no frame")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self._count("streams: broken")
        finally:
            self._open -= 1
            await trio.aclose_forcefully(stream)

    async def _exchange(self, stream: trio.SocketStream, take: Callable[[int], None]) -> None:
        source = canonical(stream.socket.getpeername())
        reply = self._serve(await _receive(stream, take), source)
        if reply is not None:
            take(len(reply))
            await _send(stream, reply)
            await _until_closed(stream)

    @contextlib.contextmanager
    def _share(self) -> Generator[Callable[[int], None]]:
        """What one connection takes of `HELD_BYTES`, until its end; taking more than is left refuses the frame."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if self._held + count > HELD_BYTES:
                raise FrameRefused(f"all connections hold {self._held} bytes already")
            self._held += count
            taken += count

        try:
            yield take
        finally:
            self._held -= taken


async def _connect(to: Address) -> trio.SocketStream:
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    sock = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        await sock.connect(to)
    except BaseException:
        sock.close()
        raise
    return trio.SocketStream(sock)


async def _send(stream: trio.SocketStream, payload: bytes) -> None:
    await stream.send_all(_LENGTH.pack(len(payload)) + payload)


async def _receive(stream: trio.SocketStream, take: Callable[[int], None] = _unbounded) -> bytes:
    (length,) = _LENGTH.unpack(await _exactly(stream, _LENGTH.size, take))
    if length > FRAME_BYTES:
        raise FrameRefused(f"a frame of {length} bytes, more than {FRAME_BYTES}")
    return await _exactly(stream, length, take)


async def _exactly(stream: trio.SocketStream, count: int, take: Callable[[int], None]) -> bytes:
    buffer = bytearray()
    while len(buffer) < count:
        piece = await stream.receive_some(min(PIECE, count - len(buffer)))
        if not piece:
            raise FrameRefused(f"the connection ended after {len(buffer)} of {count} bytes")
        take(len(piece))
        buffer += piece
    return bytes(buffer)


async def _until_closed(stream: trio.SocketStream) -> None:
    """Let the asker close first: its side then holds the TIME_WAIT, and a reply in flight is not cut off by a reset."""
    await stream.receive_some(1)

"""TCP beside UDP: one request frame, one reply frame, within a deadline. The gossip core decides what they say."""

import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Callable, Generator

import attrs
import trio

from ..gossip.effects import Outcome, Refused, TimedOut
from ..gossip.member import Address
from .exhaustion import EXHAUSTED_SECONDS, is_exhaustion
from .udp import canonical

_LENGTH = struct.Struct("<I")
# A sync of 10 000 members with 60-label records is about 6 MiB; more than four times that is no sync of ours.
FRAME_BYTES = 32 << 20
# A client gets this long to say and hear everything: a slow reader must not hold a place.
SERVE_SECONDS = 10.0
# A join storm is answered with `busy` by the core; past this many open connections one has to make way.
SERVED_AT_ONCE = 64
# Requests and replies of all connections together: two of the largest frames, so that no crowd of hostile peers, each
# within its own limit, fills the memory.
HELD_BYTES = 2 * FRAME_BYTES
# Bytes are asked for in pieces of this size, so that a claimed length allocates nothing.
PIECE = 1 << 16


def _unbounded(_count: int) -> None:
    """Of our own questions there are few at a time, and each is bounded by its frame."""


class _Full(Exception):
    """No place or no bytes are left for this connection."""


class FrameRefused(Exception):
    """The other side sent no whole frame within the limits; the connection is of no further use."""


class NoFrame(FrameRefused):
    """What came in the place of a length is none of ours, but `head` of something else, such as HTTP."""

    def __init__(self, head: bytes, message: str) -> None:
        super().__init__(message)
        self.head = head


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


@attrs.define(eq=False)
class _Visit:
    """One open connection, and what it takes of the bytes that all may hold."""

    host: str
    scope: trio.CancelScope
    held: int = 0
    answering: bool = False
    """A whole request came and its reply is not sent yet: it makes way for nobody."""


class StreamServer:
    """Accepts connections and answers each with what `serve(payload, source)` returns; None closes without a word.

    When places or bytes run out, connections that ask nothing make way, those of the host that holds the most first:
    whoever only holds them keeps nobody out. `count` is told of each connection that ended otherwise than by an
    answer, by a constant text.
    """

    def __init__(
        self, sock: socket.socket, serve: Callable[[bytes, Address], bytes | None], count: Callable[[str], None]
    ) -> None:
        self._sock = trio.socket.from_stdlib_socket(sock)
        self._serve = serve
        self._count = count
        self._visits: dict[_Visit, None] = {}
        """The open connections, oldest first."""

    @property
    def held(self) -> int:
        """Bytes of requests and replies that all connections hold."""
        return sum(visit.held for visit in self._visits)

    async def run(self) -> None:
        async with trio.SocketListener(self._sock) as listener, trio.open_nursery() as nursery:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if not is_exhaustion(error):
                        raise
                    self._count("streams: no descriptors left")
                    await trio.sleep(EXHAUSTED_SECONDS)
                else:
                    nursery.start_soon(self._one, stream)

    def close(self) -> None:
        self._sock.close()

    async def _one(self, stream: trio.SocketStream) -> None:
        try:
            source = canonical(stream.socket.getpeername())
            with trio.move_on_after(SERVE_SECONDS) as scope, self._place(source[0], scope) as visit:
                await self._exchange(stream, source, visit)
            if scope.cancelled_caught:
                self._count("streams: too slow" if trio.current_time() >= scope.deadline else "streams: made way")
        except _Full:
            self._count("streams: too many")
        except FrameRefused:
            self._count("streams: no frame")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self._count("streams: broken")
        finally:
            await trio.aclose_forcefully(stream)

    async def _exchange(self, stream: trio.SocketStream, source: Address, visit: _Visit) -> None:
        try:
            request = await _receive(stream, lambda count: self._hold(visit, count))
        except NoFrame as refusal:
            # Refused as such a datagram is, and so noted with its source.
            self._serve(refusal.head, source)
            raise
        visit.answering = True
        reply = self._serve(request, source)
        if reply is not None:
            self._hold(visit, len(reply))
            await _send(stream, reply)
            visit.answering = False
            await _until_closed(stream)

    @contextlib.contextmanager
    def _place(self, host: str, scope: trio.CancelScope) -> Generator[_Visit]:
        """One of the `SERVED_AT_ONCE` places, until the connection's end."""
        visit = _Visit(host, scope)
        if len(self._visits) >= SERVED_AT_ONCE:
            self._make_way(visit, lambda _: 1)
        self._visits[visit] = None
        try:
            yield visit
        finally:
            self._visits.pop(visit, None)

    def _hold(self, visit: _Visit, count: int) -> None:
        """Keep that many bytes more for a connection; raises _Full."""
        visit.held += count
        while self.held > HELD_BYTES:
            self._make_way(visit, lambda visit: visit.held)

    def _make_way(self, newcomer: _Visit, weigh: Callable[[_Visit], int]) -> None:
        """End a connection that asks nothing for one that needs its place or bytes.

        One of the host that has the most: its heaviest, of equal ones the oldest.

        Raises:
            _Full: there is none, or none that has not less than the newcomer.
        """
        shares: Counter[str] = Counter()
        for visit in self._visits:
            shares[visit.host] += weigh(visit)

        def rank(visit: _Visit) -> tuple[int, int]:
            return shares[visit.host], weigh(visit)

        others = [visit for visit in self._visits if not visit.answering and visit is not newcomer]
        other = max(others, key=rank, default=newcomer)
        if other is newcomer or rank(other) < rank(newcomer):
            raise _Full
        del self._visits[other]
        other.scope.cancel()


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
    head = await _exactly(stream, _LENGTH.size, take)
    (length,) = _LENGTH.unpack(head)
    if length > FRAME_BYTES:
        raise NoFrame(head, f"a frame of {length} bytes, more than {FRAME_BYTES}")
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

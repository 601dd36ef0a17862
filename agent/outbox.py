"""What one client is to be sent: at once when the socket takes it, else queued within a bound and written later."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

import trio

# What is queued for a client that does not read, before its requests and streams wait.
HELD_BYTES = 1 << 20
# A client that takes not one byte in this time is gone or stopped; what is queued for it is dropped with it.
STALLED_SECONDS = 60.0


class Outbox:
    """The sending side of one non-blocking socket.

    `put` never waits; whoever puts much awaits `room` before more. `broken` is called with the reason when the client
    is gone or takes nothing, and must end the connection.
    """

    def __init__(self, sock: socket.socket, broken: Callable[[str], None]) -> None:
        self._sock = sock
        self._broken = broken
        self._queue: deque[memoryview] = deque()
        self._held = 0
        self._filled = trio.Event()
        self._waiting = trio.lowlevel.ParkingLot()

    @property
    def full(self) -> bool:
        return self._held >= HELD_BYTES

    def put(self, frame: bytes) -> None:
        rest = memoryview(frame)
        if not self._queue:
            rest = rest[self._send(rest) :]
        if rest:
            self._queue.append(rest)
            self._held += len(rest)
            self._filled.set()

    async def room(self) -> None:
        """Wait until less than `HELD_BYTES` are queued."""
        while self.full:
            await self._waiting.park()

    async def drained(self) -> None:
        """Wait until nothing is queued: a client that says no more may still read."""
        while self._queue:
            await self._waiting.park()

    async def run(self) -> None:
        """Write what is queued, until cancelled."""
        while True:
            await self._filled.wait()
            self._filled = trio.Event()
            while self._queue:
                with trio.move_on_after(STALLED_SECONDS) as stalled:
                    await trio.lowlevel.wait_writable(self._sock)
                if stalled.cancelled_caught:
                    self._broken("stalled")
                    return
                self._flush()

    def _flush(self) -> None:
        first = self._queue[0]
        sent = self._send(first)
        self._held -= sent
        if sent == len(first):
            self._queue.popleft()
        else:
            self._queue[0] = first[sent:]
        self._waiting.unpark_all()

    def _send(self, data: memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._broken("gone")
            return len(data)

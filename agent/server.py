"""The local socket's server: connections, pipelining, deadlines and limits.

A query is answered inside the task that read it: one receive, one send, nothing scheduled between. Commands and
streams get a task each, under the connection's nursery. Whatever a client does or leaves undone, the server holds for
it no more than `outbox.HELD_BYTES`, one frame, and its calls in flight.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
import trio

from ..capabilities.errors import shown
from .api import Answer, Api, Command, Later, Pages, Query, Stream
from .calls_nodes import greeting
from .errors import BadArgument, BadFrame, Busy, Internal, ShoalError, UsageError
from .exhaustion import EXHAUSTED_SECONDS, is_exhaustion
from .frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode
from .in_flight import CONTROLS, InFlight, RequestId, request_id, scope, take_credit
from .listener import Listener
from .outbox import Outbox
from .peer import Caller, Level, identify

log = structlog.get_logger("shoal.api")

# Far more than a machine has local clients; each costs a descriptor and two tasks.
CONNECTIONS = 256
# Kept for root and the agent's user, so that an operator gets in when clients took all the others.
RESERVED = 16
# Commands and streams of one connection at a time; queries are answered in order and are not counted.
IN_FLIGHT = 64
# Answers at a time that are worked out in threads: they share one interpreter, so more would only slow the loop.
THINKING = 1
# Answering a burst of pipelined queries, the loop turns to others after this long.
SLICE_SECONDS = 0.002
# To be out of descriptors is logged once in a while.
TOLD_SECONDS = 60.0

_RECEIVE_BYTES = 64 << 10
_OUR_FAULT = "the agent failed at this call; its log says more"


class Server:
    """Serves one API on a listening socket, which it gives back when it ends."""

    def __init__(self, api: Api, listener: Listener) -> None:
        self._api = api
        self._listener = listener
        self._connections = 0
        self._exhausted_at = float("-inf")
        self._thinking = trio.CapacityLimiter(THINKING)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then the socket's file is gone."""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    await trio.lowlevel.wait_readable(self._listener.sock)
                    await self._accept_waiting(nursery)
        finally:
            self._listener.close()

    async def _accept_waiting(self, nursery: trio.Nursery) -> None:
        while True:
            try:
                sock, _ = self._listener.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not is_exhaustion(error):
                    continue  # the client was gone before it was accepted
                self._tell_exhausted(error)
                await trio.sleep(EXHAUSTED_SECONDS)
                return
            self._admit(sock, nursery)

    def _tell_exhausted(self, error: OSError) -> None:
        now = trio.current_time()
        if now - self._exhausted_at >= TOLD_SECONDS:
            self._exhausted_at = now
            log.warning("api.exhausted", error=error.strerror)

    def _admit(self, sock: socket.socket, nursery: trio.Nursery) -> None:
        sock.setblocking(False)
        try:
            caller = identify(sock, agent_uid=os.getuid(), group=self._listener.group)
        except OSError:
            sock.close()
            return
        if self._connections >= (CONNECTIONS if caller.level is Level.ADMIN else CONNECTIONS - RESERVED):
            self._api.count("connections turned away")
            _turn_away(sock)
            return
        self._connections += 1
        nursery.start_soon(self._serve, sock, caller)

    async def _serve(self, sock: socket.socket, caller: Caller) -> None:
        try:
            await Connection(sock, self._api, caller, self._thinking).run()
        except Exception:
            log.exception("api.connection_failed", uid=caller.uid)
            self._api.count(Internal.kind)
        finally:
            self._connections -= 1
            trio.lowlevel.notify_closing(sock)
            sock.close()


def _turn_away(sock: socket.socket) -> None:
    error = Busy("the agent serves as many connections as it may", retry_ms=1000)
    with sock:
        try:
            sock.send(encode({"err": error.to_wire()}, REPLY_BYTES))
        except OSError:
            return


class Connection:
    """One client: a task that reads, a task that writes what did not fit at once, one per command or stream."""

    def __init__(self, sock: socket.socket, api: Api, caller: Caller, thinking: trio.CapacityLimiter) -> None:
        self._sock = sock
        self._thinking = thinking
        self._api = api
        self._caller = caller
        self._reader = FrameReader(REQUEST_BYTES)
        self._outbox = Outbox(sock, self._broken)
        self._flights: dict[RequestId, InFlight] = {}
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._outbox.run)
                self._put({"hello": greeting(self._api.backend.node_id, self._caller.level, self._api.names)})
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        # The outbox knows us as we know it: what both still hold is not to wait for the garbage collector.
        del self._outbox, self._reader

    async def _read(self, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                data = self._sock.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                await self._outbox.drained()
                return
            self._reader.feed(data)
            try:
                await self._answer_all(nursery)
            except BadFrame as error:
                self._fail(None, error)
                await self._outbox.drained()
                return

    async def _answer_all(self, nursery: trio.Nursery) -> None:
        turn_ends = trio.current_time() + SLICE_SECONDS
        while (message := self._reader.next_message()) is not None:
            await self._answer(message, nursery)
            await self._outbox.room()
            if self._reader.pending and trio.current_time() > turn_ends:
                await trio.lowlevel.checkpoint()
                turn_ends = trio.current_time() + SLICE_SECONDS

    async def _answer(self, message: dict[str, Any], nursery: trio.Nursery) -> None:
        asked: RequestId | None = None
        try:
            asked = request_id(message)
            name, arguments = message.get("call"), message.get("args")
            control = CONTROLS.get(name) if isinstance(name, str) else None
            if control is not None:
                self._put({"id": asked, "ok": control(self._flights, arguments)})
                return
            call = self._api.call(name)
            self._api.count(call.name)
            if isinstance(call, Query):
                await self._put_answer(asked, call.answer(self._api.request(call, arguments, self._caller.level)))
            else:
                self._start(call, asked, message, nursery)
        except ShoalError as error:
            self._fail(asked, error)
        except Exception:
            log.exception("api.call_failed", call=shown(message.get("call")))
            self._fail(asked, Internal(_OUR_FAULT))

    def _start(self, call: Command | Stream, asked: RequestId, message: dict[str, Any], nursery: trio.Nursery) -> None:
        if asked in self._flights:
            raise UsageError(f"the request id {asked!r} is in use by a call that is not answered yet")
        if len(self._flights) >= IN_FLIGHT:
            raise Busy(f"{IN_FLIGHT} calls of this connection wait already", retry_ms=100)
        arguments, credit = message.get("args"), None
        if isinstance(call, Stream):
            arguments, credit = take_credit(arguments)
        request = self._api.request(call, arguments, self._caller.level)
        flight = InFlight(asked, scope(message), credit, self._put, self._outbox)
        self._flights[asked] = flight
        if isinstance(call, Stream):
            nursery.start_soon(self._fly, flight, lambda: call.run(request, flight))
        else:
            nursery.start_soon(self._fly, flight, lambda: call.run(request), call)

    async def _fly(self, flight: InFlight, run: Callable[[], Awaitable[Any]], command: Command | None = None) -> None:
        """Run one command or stream to its end and send how it ended.

        What comes after a command (`then`) also comes after one that its client or deadline ended: it had begun.
        """
        then = None if command is None else command.then
        answer: Any = None
        try:
            with flight.scope:
                answer = await run()
            if flight.scope.cancelled_caught:
                self._fail(flight.request_id, flight.ended_early())
            else:
                self._put({"id": flight.request_id, "ok": answer or {}})
        except ShoalError as error:
            then = None
            self._fail(flight.request_id, error)
        except Exception:
            then = None
            log.exception("api.call_failed", request=flight.request_id)
            self._fail(flight.request_id, Internal(_OUR_FAULT))
        finally:
            del self._flights[flight.request_id]
            if then is not None:
                then(self._api.backend)

    async def _put_answer(self, asked: RequestId, answer: Answer | Pages | Later) -> None:
        if isinstance(answer, Later):
            answer = await trio.to_thread.run_sync(answer.work, abandon_on_cancel=True, limiter=self._thinking)
        if not isinstance(answer, Pages):
            self._put({"id": asked, "ok": answer})
            return
        ready: dict[str, Any] | None = None
        for part in answer.parts:
            if ready is not None:
                self._put({"id": asked, "ok": ready, "more": True})
                await trio.lowlevel.checkpoint()
                await self._outbox.room()
            ready = part
        self._put({"id": asked, "ok": ready})

    def _put(self, message: dict[str, Any]) -> None:
        try:
            frame = encode(message, REPLY_BYTES)
        except BadArgument as error:
            raise TypeError("an answer that cannot be sent") from error  # our fault, not that of who asked
        self._outbox.put(frame)

    def _fail(self, asked: RequestId | None, error: ShoalError) -> None:
        self._api.count(error.kind)
        self._put({"id": asked, "err": error.to_wire()})

    def _broken(self, reason: str) -> None:
        if reason == "stalled":
            self._api.count("stalled clients")
        self._scope.cancel()

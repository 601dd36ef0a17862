"""One connection of a blocking client to the agent's socket: frames, the hello, replies in their order, errors."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

from .errors import BadFrame, NoPermission, Refused, ShoalError, Unreachable, UsageError, from_wire
from .frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PROTOCOL = 1
_RECEIVE_BYTES = 256 << 10
# The agent answers a passed deadline itself, with a typed error; the socket's own limit is only for one that hangs.
_GRACE_S = 2.0
# Frames that the agent may send ahead of our asking for more, and how many are used up before we ask.
_CREDIT = 64
_REFILL = 32


class Gone(Unreachable):
    """The agent closed the connection before any byte of the reply: on a kept one it may just have been restarted."""


class Connection:
    """A connected socket and the hello that came first on it."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._reader = FrameReader(REPLY_BYTES)
        self._last_id = 0
        self._socket = _connect(path, timeout)
        self._greeted = False
        self._heard = False

    def close(self) -> None:
        self._socket.close()

    def ask(self, call: str, args: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        request = self._send(call, args, timeout, deadline_ms=max(1, int(timeout * 1000)))
        answer: dict[str, Any] = {}
        while True:
            reply = self._reply(request)
            for key, value in _answer(reply).items():
                before = answer.get(key)
                answer[key] = before + value if isinstance(value, list) and isinstance(before, list) else value
            if not reply.get("more"):
                return answer

    def stream(self, call: str, args: Mapping[str, Any], timeout: float) -> Iterator[dict[str, Any]]:
        request = self._send(call, {**args, "credit": _CREDIT}, timeout)
        used = 0
        pages: list[Any] = []
        while True:
            event = _answer(self._reply(request))
            used += 1
            if used == _REFILL:
                # Failing, it is the end: what has arrived is read first.
                with contextlib.suppress(OSError):
                    self._socket.sendall(self._request("credit", {"stream": request, "add": used}))
                used = 0
            self._socket.settimeout(None)
            if event.get("partial"):
                pages += field(event, "nodes", list)
                continue
            if pages:
                event["nodes"] = pages + field(event, "nodes", list)
                pages = []
            event.pop("partial", None)
            yield event

    def _send(self, call: str, args: Mapping[str, Any], timeout: float, **fields: int) -> int:
        frame = self._request(call, args, **fields)
        self._socket.settimeout(timeout + _GRACE_S)
        self._heard = False
        try:
            self._socket.sendall(frame)
        except OSError as error:
            # The agent may have said why before it closed, as when it serves too many connections.
            self._drain()
            raise self._ended() from error
        return self._last_id

    def _request(self, call: str, args: Mapping[str, Any], **fields: int) -> bytes:
        self._last_id += 1
        return encode({"id": self._last_id, "call": call, "args": args, **fields}, REQUEST_BYTES)

    def _reply(self, request: int) -> dict[str, Any]:
        """The next reply to `request`; replies to others (the credit of a stream) are passed over."""
        while True:
            message = self._message()
            if "hello" in message and not self._greeted:
                self._greeted = True
                _agree(field(message, "hello", dict))
                continue
            if "err" not in message and "ok" not in message:
                raise BadFrame("a reply that is neither an answer nor an error")
            if message.get("id") not in (request, None):
                continue
            if "err" in message:
                raise from_wire(message["err"])
            return message

    def _message(self) -> dict[str, Any]:
        while (message := self._reader.next_message()) is None:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError as error:
                raise Unreachable(
                    f"the agent on {self._path} does not answer", hint="it may be stopped or overloaded"
                ) from error
            except ConnectionError as error:
                raise self._ended() from error
            except OSError as error:
                raise Unreachable(f"the connection to the agent on {self._path} broke: {error.strerror}") from error
            if not data:
                raise self._ended()
            self._heard = True
            self._reader.feed(data)
        return message

    def _ended(self) -> Unreachable:
        kind = Unreachable if self._heard else Gone
        return kind(f"the agent on {self._path} closed the connection", hint="it may be stopping")

    def _drain(self) -> None:
        try:
            while True:
                message = self._message()
                if "err" in message:
                    raise from_wire(message["err"])
        except Unreachable:
            return


def field(answer: Mapping[str, Any], name: str, kind: type) -> Any:
    """A part of what the agent sent.

    Raises:
        BadFrame: it is not there, or of another type.
    """
    value = answer.get(name)
    if type(value) is not kind:
        what = "nothing" if name not in answer else type(value).__name__
        raise BadFrame(f"an answer with {what} for {name!r}, where a {kind.__name__} is expected")
    return value


def _answer(reply: Mapping[str, Any]) -> dict[str, Any]:
    return field(reply, "ok", dict)


def _agree(hello: Mapping[str, Any]) -> None:
    protocol: list[Any] = field(hello, "protocol", list)
    if [type(number) for number in protocol] != [int, int]:
        raise BadFrame(f"a hello with the protocol {protocol!r}, where two numbers are expected")
    lowest, highest = protocol
    if not lowest <= PROTOCOL <= highest:
        raise Refused(
            f"this client speaks protocol {PROTOCOL}, the agent (version {hello.get('version')}) {lowest} to {highest}",
            hint="use a client of the agent's version",
        )


def _connect(path: str, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise _unreachable(path, error) from error
    except ValueError as error:
        connection.close()
        raise UsageError(f"{path!r} is no path of a socket: {error}") from error
    return connection


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116 - pathlib would double a client's start
    except OSError:
        return True


def _unreachable(path: str, error: OSError) -> ShoalError:
    start = "start one with `shoal run`, or name its socket with --socket or SHOAL_API_SOCKET"
    if isinstance(error, PermissionError):
        return NoPermission(f"no permission to use the socket {path}", hint="join the group that owns it, or use sudo")
    if isinstance(error, FileNotFoundError):
        return Unreachable(f"no agent answers on {path}: there is no such socket", hint=start)
    if isinstance(error, ConnectionRefusedError):
        why = "nothing listens there any more" if _is_socket(path) else "it is no socket"
        return Unreachable(f"no agent answers on {path}: {why}", hint=start)
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return Unreachable(f"the agent on {path} does not take connections", hint="it may be stopped or overloaded")
    return Unreachable(f"no agent answers on {path}: {error.strerror or error}", hint=start)

"""A blocking client of the local socket: standard library and msgpack only, so that any program can hold one.

    with Client() as shoal:
        for node in shoal.find_suitable_nodes("gpu_nvidia, gpu_vram_mb>=8000", limit=3):
            print(node["name"], node["addr"])

Answers are plain dicts and lists, as they come off the wire. A `Client` belongs to one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import socket

from .errors import BadFrame, NoPermission, Refused, ShoalError, Unreachable, from_wire
from .frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode
from .socket_path import asking_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Self

PROTOCOL = 1
_RECEIVE_BYTES = 256 << 10
# The agent answers a passed deadline itself, with a typed error; the socket's own limit is only for one that hangs.
_GRACE_S = 2.0
# Frames that the agent may send ahead of our asking for more, and how many are used up before we ask.
_CREDIT = 64
_REFILL = 32


class Client:
    """One connection to the agent, made at the first call and again after it was lost.

    `timeout` is in seconds and bounds every call that does not bring its own.

    Raises (every method that asks the agent):
        Unreachable: no agent answers there; the message names the socket.
        NoPermission: the socket, or this call, is not for this user.
        ShoalError: what the agent answered; see `errors`.
    """

    def __init__(self, socket_path: str | None = None, timeout: float = 10.0) -> None:
        self.socket_path = socket_path or asking_path(os.environ, os.getuid())
        self.timeout = timeout
        self._connection: _Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, call: str, args: Mapping[str, Any] | None = None, timeout: float | None = None) -> dict[str, Any]:
        """The answer to one call. The lists of a paged answer come joined."""
        within = self.timeout if timeout is None else timeout
        if self._connection is None:
            self._connection = _Connection(self.socket_path, within)
        try:
            return self._connection.ask(call, args or {}, within)
        except (Unreachable, BadFrame):
            self.close()
            raise

    def hello(self) -> dict[str, Any]:
        """What the agent said of itself: protocol range, features, version, node id, and the level of this user."""
        return self.call("hello")

    def version(self) -> str:
        return str(self.call("version")["version"])

    def status(self) -> dict[str, Any]:
        return self.call("status")

    def members(
        self, *, labels: bool | Iterable[str] = True, states: Iterable[str] | None = None
    ) -> list[dict[str, Any]]:
        """All known nodes, by name. `labels` picks label keys; `states` are of alive, suspect, dead, left."""
        args: dict[str, Any] = {"labels": labels if isinstance(labels, bool) else list(labels)}
        if states is not None:
            args["states"] = list(states)
        return self.call("members", args)["nodes"]

    def show(self, node: str) -> dict[str, Any]:
        """One node by its name, or by its id or the beginning of it."""
        return self.call("show", {"node": node})["node"]

    def find_suitable_nodes(self, requirement: object = "", limit: int | None = None) -> list[dict[str, Any]]:
        """The nodes that satisfy a requirement (its text form, or an object that prints it), best first."""
        return self.find(requirement, limit)["nodes"]

    def find(
        self, requirement: object = "", limit: int | None = None, *, labels: bool | Iterable[str] = True
    ) -> dict[str, Any]:
        """The whole answer: `nodes`, `total` matching, `known` nodes, `failing` terms when none match, `warnings`."""
        args: dict[str, Any] = {"requirement": str(requirement)}
        args["labels"] = labels if isinstance(labels, bool) else list(labels)
        if limit is not None:
            args["limit"] = limit
        return self.call("find", args)

    def wait(self, members: int, timeout: float = 60.0, *, requirement: object = "") -> dict[str, Any]:
        """Return when so many nodes are alive here and satisfy the requirement; `DeadlinePassed` after `timeout` s."""
        return self.call("wait", {"members": members, "requirement": str(requirement)}, timeout)

    def join(self, addresses: Iterable[str], timeout: float | None = None) -> dict[str, Any]:
        return self.call("join", {"addresses": list(addresses)}, timeout)

    def leave(self, timeout: float | None = None) -> None:
        """The agent leaves the cluster and stops."""
        self.call("leave", {}, timeout)

    def forget(self, node: str) -> dict[str, Any]:
        return self.call("forget", {"node": node})

    def labels_list(self) -> dict[str, bool | int | str]:
        return self.call("labels_list")["labels"]

    def labels_set(self, labels: Mapping[str, bool | int | str]) -> None:
        self.call("labels_set", {"labels": dict(labels)})

    def labels_unset(self, keys: Iterable[str]) -> list[str]:
        """The keys that were set and now are not."""
        return self.call("labels_unset", {"keys": list(keys)})["unset"]

    def watch(self, *, labels: bool | Iterable[str] = True, vitals: bool = False) -> Iterator[dict[str, Any]]:
        """Changes as they come, for ever, on a connection of their own.

        First `{"event": "snapshot", "nodes": [...]}`, then one dict per change with the node as it is afterwards.
        `{"event": "resync", "nodes": [...]}` replaces all that came before: this reader was too slow to be sent
        every change.
        """
        args = {"labels": labels if isinstance(labels, bool) else list(labels), "vitals": vitals}
        connection = _Connection(self.socket_path, self.timeout)
        try:
            yield from connection.stream("watch", args, self.timeout)
        finally:
            connection.close()


class _Connection:
    """A connected socket and the hello that came first on it."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._reader = FrameReader(REPLY_BYTES)
        self._last_id = 0
        self._socket = _connect(path, timeout)
        self._greeted = False

    def close(self) -> None:
        self._socket.close()

    def ask(self, call: str, args: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        request = self._send(call, args, timeout, deadline_ms=max(1, int(timeout * 1000)))
        answer: dict[str, Any] = {}
        while True:
            reply = self._reply(request)
            page: dict[str, Any] = reply["ok"]
            for key, value in page.items():
                if isinstance(value, list) and key in answer:
                    answer[key] += value
                else:
                    answer[key] = value
            if not reply.get("more"):
                return answer

    def stream(self, call: str, args: Mapping[str, Any], timeout: float) -> Iterator[dict[str, Any]]:
        request = self._send(call, {**args, "credit": _CREDIT}, timeout)
        used = 0
        pages: list[Any] = []
        while True:
            event: dict[str, Any] = self._reply(request)["ok"]
            used += 1
            if used == _REFILL:
                # Failing, it is the end: what has arrived is read first.
                with contextlib.suppress(OSError):
                    self._socket.sendall(self._request("credit", {"stream": request, "add": used}))
                used = 0
            self._socket.settimeout(None)
            if event.get("partial"):
                pages += event["nodes"]
                continue
            if pages:
                event["nodes"] = pages + event["nodes"]
                pages = []
            event.pop("partial", None)
            yield event

    def _send(self, call: str, args: Mapping[str, Any], timeout: float, **fields: int) -> int:
        frame = self._request(call, args, **fields)
        self._socket.settimeout(timeout + _GRACE_S)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            # The agent may have said why before it closed, as when it serves too many connections.
            self._drain()
            raise Unreachable(f"the agent on {self._path} closed the connection") from error
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
                _agree(message["hello"])
                continue
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
            except OSError as error:
                raise Unreachable(f"the connection to the agent on {self._path} broke: {error.strerror}") from error
            if not data:
                raise Unreachable(f"the agent on {self._path} closed the connection", hint="it may be stopping")
            self._reader.feed(data)
        return message

    def _drain(self) -> None:
        try:
            while True:
                message = self._message()
                if "err" in message:
                    raise from_wire(message["err"])
        except Unreachable:
            return


def _agree(hello: Mapping[str, Any]) -> None:
    lowest, highest = hello.get("protocol", (0, 0))
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
    return connection


def _unreachable(path: str, error: OSError) -> ShoalError:
    start = "start one with `shoal run`, or name its socket with --socket or SHOAL_API_SOCKET"
    if isinstance(error, PermissionError):
        return NoPermission(f"no permission to use the socket {path}", hint="join the group that owns it, or use sudo")
    if isinstance(error, FileNotFoundError):
        return Unreachable(f"no agent answers on {path}: there is no such socket", hint=start)
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"no agent answers on {path}: nothing listens there any more", hint=start)
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return Unreachable(f"the agent on {path} does not take connections", hint="it may be stopped or overloaded")
    return Unreachable(f"no agent answers on {path}: {error.strerror or error}", hint=start)

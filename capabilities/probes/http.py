"""One bounded HTTP GET to a process of this machine, over TCP or a Unix socket."""

import contextlib
import json
import socket
import time
import urllib.parse

import attrs
import h11

# A server on the same machine answers within milliseconds; a hung one must not hold up a survey.
ANSWER_SECONDS = 0.5
# The largest answer that is read is the list of loaded models.
ANSWER_BYTES = 1024 * 1024


@attrs.frozen
class HttpAnswer:
    """A reply: status, JSON body (None when it is none), and whether a process of this machine gave it."""

    status: int
    json: object = None
    local: bool = True


def get(url: str, seconds: float = ANSWER_SECONDS) -> HttpAnswer:
    """GET `http://address:port/path` or `unix:/socket:/path`; an address is `localhost` or made of numbers.

    Raises OSError when there is no HTTP answer in time, and ValueError when the URL is none.
    """
    deadline = time.monotonic() + seconds
    peer = h11.Connection(h11.CLIENT)
    with contextlib.closing(_connected(url, seconds)) as connection:
        local = _is_local(connection)
        connection.sendall(_request(peer, url))
        try:
            status, body = _answer(peer, connection, deadline)
        except h11.RemoteProtocolError as broken:
            raise OSError(f"the answer is not HTTP: {broken}") from None
    return HttpAnswer(status=status, json=_parsed(body), local=local)


def _request(peer: h11.Connection, url: str) -> bytes:
    path, host = _target(url)
    headers = [("Host", host), ("Accept", "application/json"), ("Connection", "close")]
    try:
        request = peer.send(h11.Request(method="GET", target=path, headers=headers))
    except (h11.LocalProtocolError, UnicodeEncodeError) as odd:
        raise ValueError(f"{url!r} is no URL: {odd}") from None
    return request + peer.send(h11.EndOfMessage())


def _answer(peer: h11.Connection, connection: socket.socket, deadline: float) -> tuple[int, bytes]:
    """Status and body of a whole answer."""
    parts: list[bytes] = []
    status = size = 0
    while size <= ANSWER_BYTES:
        event = peer.next_event()
        if event is h11.NEED_DATA:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no whole answer in time")
            connection.settimeout(left)
            peer.receive_data(connection.recv(65536))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
            size += len(event.data)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return status, b"".join(parts)
    raise OSError(f"an answer of more than {ANSWER_BYTES} bytes")


def _connected(url: str, seconds: float) -> socket.socket:
    family, address = _address(url)
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _address(url: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Where to connect. Names are not looked up: that asks the network, and may take long."""
    if url.startswith("unix:"):
        return socket.AF_UNIX, url.split(":", 2)[1]
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or "localhost"
    port = parts.port or 80
    if host == "localhost":
        return socket.AF_INET, ("127.0.0.1", port)
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return family, (host, port)
    raise OSError(f"{host} is no address")


def _target(url: str) -> tuple[str, str]:
    """The path to ask for and the Host header."""
    if url.startswith("unix:"):
        return url.split(":", 2)[2], "localhost"
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.quote(parts.path or "/"), parts.netloc


def _is_local(connection: socket.socket) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    return connection.getsockname()[0] == connection.getpeername()[0]


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None

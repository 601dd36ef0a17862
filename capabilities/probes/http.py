"""One bounded HTTP GET to a process of this machine, over TCP or a Unix socket; no more of HTTP than that needs.

The request is HTTP/1.0, so that the answer ends with the connection and is never chunked.
"""

import contextlib
import json
import socket
import time
import urllib.parse

import attrs

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
    with contextlib.closing(_connected(url, seconds)) as connection:
        local = _is_local(connection)
        path, host = _target(url)
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n".encode("ascii"))
        parts: list[bytes] = []
        size = 0
        while size <= ANSWER_BYTES:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no whole answer within {seconds} s")
            connection.settimeout(left)
            part = connection.recv(65536)
            if not part:
                return _parsed(b"".join(parts), local=local)
            parts.append(part)
            size += len(part)
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


def _parsed(answer: bytes, *, local: bool) -> HttpAnswer:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit() or len(words[1]) != 3:
        raise OSError("the answer is not HTTP")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    return HttpAnswer(status=int(words[1]), json=parsed, local=local)

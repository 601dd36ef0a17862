import contextlib
import socket
import threading
import time

import pytest
from shoal.capabilities.probes.http import get


@contextlib.contextmanager
def serving(answer, family=socket.AF_INET, path=None, pause=0.0, stays=False):
    """A server that takes one request and sends `answer` in two parts; gives its address and what it was asked.

    It closes the connection then, unless it `stays` until the end.
    """
    end = threading.Event()
    server = socket.socket(family)
    server.bind(path or ("127.0.0.1", 0))
    server.listen()
    asked = []

    def serve():
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            asked.append(connection.recv(4096))
            for part in (answer[: len(answer) // 2], answer[len(answer) // 2 :]):
                connection.sendall(part)
                time.sleep(pause)
            if stays:
                end.wait(60)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname(), asked
    finally:
        end.set()
        server.close()


GOOD = b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{"version": "0.5.7"}'


def test_over_tcp():
    with serving(GOOD) as ((host, port), asked):
        answer = get(f"http://{host}:{port}/api/version")
    assert (answer.status, answer.json, answer.local) == (200, {"version": "0.5.7"}, True)
    assert asked[0].startswith(b"GET /api/version HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    "framed",
    [
        b"Content-Length: 10\r\n\r\n[1, 2, 3]\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\n[1, \r\n5\r\n2, 3]\r\n0\r\n\r\n",
    ],
)
def test_an_answer_ends_where_it_says(framed):
    with serving(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + framed, stays=True) as ((host, port), _):
        assert get(f"http://{host}:{port}/", seconds=30).json == [1, 2, 3]


def test_an_answer_that_is_cut_off_is_none():
    with (
        serving(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}") as ((host, port), _),
        pytest.raises(OSError, match="not HTTP"),
    ):
        get(f"http://{host}:{port}/")


def test_over_a_unix_socket(tmp_path):
    path = str(tmp_path / "s")
    with serving(GOOD, socket.AF_UNIX, path) as (_, asked):
        assert get(f"unix:{path}:/version").json == {"version": "0.5.7"}
    assert asked[0].startswith(b"GET /version HTTP/1.1\r\n")


@pytest.mark.parametrize("answer", [b"", b"junk", b"SSH-2.0-x\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", b"\xff" * 100])
def test_what_is_no_http_is_an_error(answer):
    with serving(answer) as ((host, port), _), pytest.raises(OSError, match="not HTTP"):
        get(f"http://{host}:{port}/")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_is_none(body):
    with serving(b"HTTP/1.1 500 Oops\r\n\r\n" + body) as ((host, port), _):
        answer = get(f"http://{host}:{port}/")
    assert (answer.status, answer.json) == (500, None)


def test_a_server_that_drips_is_too_slow():
    with serving(GOOD, pause=0.4) as ((host, port), _), pytest.raises(TimeoutError):
        get(f"http://{host}:{port}/", seconds=0.2)


def test_a_server_that_says_too_much():
    with (
        serving(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3_000_000) as ((host, port), _),
        pytest.raises(OSError, match="more than"),
    ):
        get(f"http://{host}:{port}/", seconds=5)


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        get(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("user", ["\xe9", "a\x00b"])
def test_what_is_no_url(user):
    with serving(GOOD) as ((host, port), asked), pytest.raises(ValueError, match="no URL"):
        get(f"http://{user}@{host}:{port}/")
    assert b"GET" not in b"".join(asked)


@pytest.mark.parametrize("url", ["http://gpu.lan:80/", "http://\xe9/", "http://127.0.0.1.5/"])
def test_names_are_not_looked_up(url):
    with pytest.raises(OSError, match="no address"):
        get(url)

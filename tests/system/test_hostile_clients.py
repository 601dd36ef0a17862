"""Junk at the local socket of a running agent: it stays up, serves the others, says what it refused, and stays flat."""

import random
import socket
import struct
import time

import msgpack
import psutil
import pytest

HTTP = b"POST /v1/members HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
ROUNDS = 40
# What a first use of rarely used code may cost; a leak of each request would be ten times that.
GROWTH_BYTES = 8 << 20
CONNECTIONS = 256
# The whole of the largest request.
REQUEST_BYTES = 1 << 20


def frame(payload):
    return struct.pack("<I", len(payload)) + payload


def call(name, number=1, **rest):
    return frame(msgpack.packb({"id": number, "call": name, **rest}))


@pytest.fixture
def one(agents, eventually):
    one = agents("one", labels={"zone": "a"}).start().ready()
    eventually(lambda: one.status()["members"]["alive"] == 1, "itself")
    return one


def process(agent):
    return psutil.Process(agent.process.pid)


def thrown(agent, *pieces, read=True):
    """Send these pieces on a connection of their own; what came back until the agent closed it, or we did."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(agent.socket))
        answer = bytearray()
        try:
            for piece in pieces:
                sock.sendall(piece)
            sock.shutdown(socket.SHUT_WR)
            while read and (data := sock.recv(1 << 16)):
                answer += data
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was told why before, or sent more than was read
        return bytes(answer)


def messages(answer):
    """The frames of an answer."""
    found = []
    while answer:
        (length,) = struct.unpack("<I", answer[:4])
        found.append(msgpack.unpackb(answer[4 : 4 + length]))
        answer = answer[4 + length :]
    return found


def refusals(chance):
    """What is no frame, or no map: each ends its connection with one typed error."""
    whole = call("members")
    return {
        "http": HTTP,
        "a tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500),
        "a length over the limit": struct.pack("<I", REQUEST_BYTES + 1) + b"\x80",
        "the greatest length": struct.pack("<I", 0xFFFFFFFF),
        "an empty frame": frame(b""),
        "no map": frame(msgpack.packb([1, 2, 3])),
        "keys that are no text": frame(msgpack.packb({1: 2, b"id": 3})),
        "more behind the map": frame(whole[4:] + b"\xc0"),
        "a map cut short": frame(whole[4:-3]),
        "arrays nested deeply": frame(b"\x91" * (REQUEST_BYTES - 1) + b"\xc0"),
        "maps nested deeply": frame(b"\x81\xa1a" * (REQUEST_BYTES // 3 - 1) + b"\xc0"),
        "an array of four billion": frame(b"\xdd\xff\xff\xff\xff" + b"\xc0" * 100),
        "a map of four billion": frame(b"\xdf\xff\xff\xff\xff" + b"\xa1a\xc0" * 100),
        "a text of four gigabytes": frame(b"\x81\xa2id\xdb\xff\xff\xff\xff"),
        "an extension": frame(b"\x81\xa2id\xc7\x04\x05abcd"),
        "text that is no unicode": frame(b"\x81\xa2id\xa2\xff\xfe"),
        "a byte that msgpack never uses": frame(b"\xc1"),
    }


def test_what_is_no_request_is_refused_counted_and_costs_nothing(one, eventually):
    chance = random.Random(3)
    shapes = refusals(chance)
    for name, data in shapes.items():
        hello, error = messages(thrown(one, data))
        assert "hello" in hello, name
        assert error["err"]["kind"] == "bad-frame", name
    counted = one.status()["calls"]["bad-frame"]
    before, held = process(one).memory_info().rss, process(one).num_fds()
    for _ in range(ROUNDS):
        for data in shapes.values():
            thrown(one, data)
    assert one.status()["calls"]["bad-frame"] == counted + ROUNDS * len(shapes)
    assert process(one).memory_info().rss - before < GROWTH_BYTES
    eventually(lambda: process(one).num_fds() <= held, "its descriptors")
    assert "Traceback" not in one.output()


def test_damaged_requests_give_answers_or_typed_errors(one, eventually):
    """Cut anywhere, any bit flipped, sent again and out of order: all of it in one connection each."""
    chance = random.Random(4)
    whole = [
        call("members", 1, args={"labels": True}),
        call("find", 2, args={"requirement": "zone=a, !gpu_nvidia", "limit": 3}),
        call("labels_set", 3, args={"labels": {"zone": "a"}}),
        call("wait", 4, args={"members": 9}, deadline_ms=5),
        call("place", 5, args={"task": {"description": "translate a letter"}}),
        call("watch", 6, args={"credit": 1}),
        call("explain", 7, args={"requirement": "arch=amd64"}),
    ]
    stream = b"".join(whole)
    thrown(one, stream)
    before, held = process(one).memory_info().rss, process(one).num_fds()
    answered = 0
    for _ in range(ROUNDS):
        cut = chance.randrange(len(stream))
        flipped = bytearray(stream)
        for _ in range(chance.randrange(1, 9)):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        mixed = b"".join(chance.choices(whole, k=30))
        for data in (stream[:cut], bytes(flipped), mixed, stream[:cut] + stream):
            told = messages(thrown(one, data))
            assert "hello" in told[0]
            assert all({"ok", "err"} & message.keys() for message in told[1:])
            answered += len(told) - 1
    assert answered > ROUNDS
    assert process(one).memory_info().rss - before < GROWTH_BYTES
    eventually(lambda: process(one).num_fds() <= held, "its descriptors")
    assert one.status()["calls"].get("internal", 0) == 0
    assert "Traceback" not in one.output()


def test_clients_that_never_finish_or_never_read_do_not_keep_others_out(one, eventually):
    """As many connections as there may be, each in the middle of something; then all go at once."""
    one.status()
    held = process(one).num_fds()
    kept, turned_away = [], 0
    try:
        for number in range(CONNECTIONS + 20):
            sock = socket.socket(socket.AF_UNIX)
            kept.append(sock)
            sock.settimeout(20)
            sock.connect(str(one.socket))
            greeting = messages(sock.recv(1 << 16))[0]
            if "err" in greeting:
                assert greeting["err"]["kind"] == "busy"
                turned_away += 1
            else:
                sock.sendall((call("members")[:-1], b"\x05", call("watch"), b"")[number % 4])
        assert turned_away >= 20
        assert one.process.poll() is None
        kept.pop(0).close()
        eventually(lambda: one.status()["calls"]["connections turned away"] >= turned_away, "a place for one more")
    finally:
        for sock in kept:
            sock.close()
    eventually(lambda: process(one).num_fds() <= held, "its descriptors")
    assert one.status()["watchers"] == 0
    assert "Traceback" not in one.output()


def test_a_client_that_asks_and_does_not_read_costs_a_bounded_amount(one):
    """Megabytes of questions whose answers are megabytes: it is made to wait, and others are not."""
    chance = random.Random(5)
    one.call("labels_set", {"labels": {f"word-{n}": chance.randbytes(60).hex() for n in range(60)}})
    before, asked = process(one).memory_info().rss, call("members")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(one.socket))
        sock.settimeout(0.3)
        sent, until = 0, time.monotonic() + 60
        try:
            while time.monotonic() < until and sent < 64 << 20:
                sent += sock.send(asked * 1000)
        except TimeoutError:
            pass
        assert sent < 16 << 20, "it takes no more questions than it can answer"
        assert one.status()["members"]["alive"] == 1
        assert process(one).memory_info().rss - before < 24 << 20
    assert one.status()["name"] == "one"

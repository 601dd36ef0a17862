"""Junk at the gossip port of a running agent: it stays up, says what it refused, and its memory is flat."""

import contextlib
import random
import socket
import struct

import psutil
import pytest
from shoal.gossip import Ask, Identity, Node, Settings

HTTP = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n"
DATAGRAMS = 6000
CONNECTIONS = 300
# What a first use of rarely used code may cost; a leak of a datagram's size each would be ten times that.
GROWTH_BYTES = 4 << 20


def junk(chance):
    """One datagram of some hostile kind."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(1400))
    if kind == 1:
        return HTTP
    if kind == 2:
        return chance.randbytes(60_000)
    if kind == 3:
        return b""
    return b"shoal"[: chance.randrange(6)] + chance.randbytes(40)


@pytest.fixture
def pair(cluster):
    return cluster("one", "two")


def place(agent):
    host, _, port = agent.address.rpartition(":")
    return host, int(port)


def refused(agent):
    gossip = agent.status()["gossip"]
    return sum(count for what, count in gossip.items() if what.startswith(("refused", "malformed")))


def memory(agent):
    return psutil.Process(agent.process.pid).memory_info().rss


def throw_datagrams(agent, to, chance, count):
    """Waits for the agent now and then, so that the kernel drops none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for number in range(count):
            sock.sendto(junk(chance), to)
            if number % 100 == 0:
                agent.status()


def test_junk_datagrams_are_counted_and_change_nothing(pair, eventually):
    one, two = pair
    to, chance = place(one), random.Random(7)
    throw_datagrams(one, to, chance, DATAGRAMS // 4)
    before, counted = memory(one), refused(one)
    throw_datagrams(one, to, chance, DATAGRAMS)
    eventually(lambda: refused(one) >= counted + DATAGRAMS * 0.9)
    assert memory(one) - before < GROWTH_BYTES
    assert one.states() == two.states() == {"one": "alive", "two": "alive"}
    assert one.output().count("packet.refused") == 1, "logged once a minute"
    assert "Traceback" not in one.output()


def by_datagram(to, data):
    """Send it; where from, and what came back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(to)
        sock.settimeout(0.2)
        sock.send(data)
        with contextlib.suppress(TimeoutError):
            return sock.getsockname(), sock.recv(2048)
        return sock.getsockname(), b""


def by_stream(to, data):
    with socket.create_connection(to, timeout=20) as sock:
        here = sock.getsockname()
        with contextlib.suppress(ConnectionResetError):
            sock.sendall(data)
            return here, sock.recv(2048)
        return here, b""


@pytest.mark.parametrize("send", [by_datagram, by_stream])
def test_http_and_random_bytes_are_logged_once_with_their_address_and_nothing_else_happens(pair, eventually, send):
    """memberlist#236. What the next minute brings is in the tests of the core, which have their own clock."""
    one, two = pair
    before = [(agent.states(), agent.status()["members"]) for agent in pair]
    chance = random.Random(9)
    # As a length they are far too much.
    strange = [chance.randbytes(3) + b"\xff" + chance.randbytes(600) for _ in range(20)]
    sources = []
    for number, data in enumerate((HTTP, HTTP, *strange, HTTP), 1):
        source, answer = send(place(one), data)
        assert answer == b""
        sources.append(":".join(map(str, source)))
        eventually(lambda number=number: refused(one) == number, "that it is counted")
    lines = [line for line in one.output().splitlines() if "packet.refused" in line]
    assert len(lines) == 1, "once a minute"
    assert f"source={sources[0]} " in f"{lines[0]} "
    assert "a shoal frame" in lines[0]
    assert "packet.refused" not in two.output()
    assert [(agent.states(), agent.status()["members"]) for agent in pair] == before


def test_junk_connections_are_counted_and_held_in_bounds(pair, eventually):
    one, two = pair
    to, chance = place(one), random.Random(8)
    shapes = (
        lambda: HTTP,
        lambda: chance.randbytes(500),
        lambda: struct.pack("<I", 0xFFFFFFFF),
        lambda: struct.pack("<I", 100) + chance.randbytes(100),
        lambda: struct.pack("<I", 0),
        lambda: b"",
    )

    def throw(count):
        for number in range(count):
            with socket.create_connection(to, timeout=20) as sock:
                try:
                    sock.sendall(shapes[number % len(shapes)]())
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(4096):
                        pass
                except OSError as error:  # closed by the agent, at any of these steps
                    if isinstance(error, TimeoutError):
                        raise

    throw(CONNECTIONS // 3)
    before = memory(one)
    throw(CONNECTIONS)
    gossip = one.status()["gossip"]
    assert gossip["streams: no frame"] >= CONNECTIONS // 3
    assert refused(one) >= CONNECTIONS // 6
    assert memory(one) - before < GROWTH_BYTES
    assert one.states() == two.states() == {"one": "alive", "two": "alive"}
    assert "Traceback" not in one.output()


def asked(address, frame):
    """What is answered to a frame, or to whatever it is; b"" for a connection that was closed."""
    answer = bytearray()
    with socket.create_connection(address, timeout=20) as sock:
        try:
            sock.sendall(frame)
            sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(1 << 16):
                answer += data
        except (BrokenPipeError, ConnectionResetError):
            pass  # closed by the agent, at any of these steps
    return bytes(answer)


def test_requests_of_ours_cut_flipped_and_sent_again_raise_nobody_from_the_dead(pair, eventually):
    """A node joins and is gone at once. What it said may be heard from anybody, for ever."""
    one, _ = pair
    to, chance = place(one), random.Random(10)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        phantom = Identity(node_id=b"phantom node id!", generation=1000, boot_id=b"boot id!")
        node = Node(phantom, Settings.local(), random.Random(1), advertise=gone.getsockname())
    node.start(0.0)
    node.join(0.0)
    (ask,) = [effect for effect in node.resolved([to], 0.0) if isinstance(effect, Ask)]
    whole = struct.pack("<I", len(ask.payload)) + ask.payload

    def state_of_phantom():
        rows = {row["node_id"]: row["state"] for row in one.call("members")["nodes"]}
        return rows.get(phantom.node_id.hex())

    assert len(asked(to, whole)) > 4, "the request is a good one"
    assert state_of_phantom() is not None
    eventually(lambda: state_of_phantom() == "dead", "its death")

    def throw(count):
        for _ in range(count):
            flipped = bytearray(whole)
            place_of_bit = chance.randrange(32, 8 * len(whole))
            flipped[place_of_bit // 8] ^= 1 << place_of_bit % 8
            assert asked(to, bytes(flipped)) == b""
            assert asked(to, whole[: chance.randrange(len(whole))]) == b""
            assert asked(to, struct.pack("<I", len(ask.payload) - 1) + ask.payload) == b""
            asked(to, whole)

    throw(CONNECTIONS // 6)
    before, gossip = memory(one), one.status()["gossip"]
    counted, cut = refused(one), gossip["streams: no frame"]
    throw(CONNECTIONS // 3)
    assert refused(one) - counted == 2 * (CONNECTIONS // 3)
    assert one.status()["gossip"]["streams: no frame"] - cut == CONNECTIONS // 3
    assert memory(one) - before < GROWTH_BYTES
    assert state_of_phantom() == "dead"
    assert [one.states()[name] for name in ("one", "two")] == ["alive", "alive"]
    assert "Traceback" not in one.output()


def test_a_crowd_of_big_frames_does_not_fill_the_memory(pair):
    """Each connection stays within the limit of one frame; together they would take a gigabyte."""
    one, _ = pair
    to = place(one)
    before = memory(one)
    held = []
    try:
        for _ in range(40):
            sock = socket.create_connection(to, timeout=20)
            held.append(sock)
            sock.settimeout(0.05)
            sock.sendall(struct.pack("<I", 32 << 20))
        piece, most, sent = bytes(1 << 20), 0, 0
        for _ in range(24):
            for sock in held:
                try:
                    sock.sendall(piece)
                    sent += len(piece)
                except OSError:
                    continue
            most = max(most, memory(one) - before)
        assert sent > 64 << 20
        assert most < 160 << 20
        assert one.states() == {"one": "alive", "two": "alive"}
        gossip = one.status()["gossip"]
        assert gossip.get("streams: made way", 0) + gossip.get("streams: too many", 0) > 0
    finally:
        for sock in held:
            sock.close()

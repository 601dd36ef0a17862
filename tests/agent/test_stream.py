"""TCP beside UDP, both ends over real loopback connections."""

import contextlib
import errno
import select
import socket
import struct
import sys

import pytest
import trio
from shoal.agent import stream as stream_module
from shoal.agent.stream import FRAME_BYTES, SERVE_SECONDS, SERVED_AT_ONCE, StreamServer, ask
from shoal.gossip import Refused, TimedOut

HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"


def frame(payload):
    return struct.pack("<I", len(payload)) + payload


class Served:
    """A running stream server: what it was asked, what it counted."""

    def __init__(self):
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(256)
        self.sock.setblocking(False)
        self.address = self.sock.getsockname()
        self.asked = []
        self.counted = []
        self.reply = lambda payload: b"re:" + payload
        self.server = StreamServer(self.sock, self._serve, self.counted.append)

    def _serve(self, payload, source):
        self.asked.append((payload, source))
        return self.reply(payload)


@pytest.fixture
async def served(nursery):
    made = Served()
    nursery.start_soon(made.server.run)
    await trio.testing.wait_all_tasks_blocked()
    yield made
    made.server.close()


@pytest.fixture
def connect(served):
    @contextlib.asynccontextmanager
    async def connect():
        async with await trio.open_tcp_stream(*served.address) as stream:
            yield stream

    return connect


async def rest(stream, within=5.0):
    """All bytes until the other side closes; a reset is a close too."""
    heard = bytearray()
    with trio.fail_after(within), contextlib.suppress(trio.BrokenResourceError):
        while piece := await stream.receive_some(1 << 16):
            heard += piece
    return bytes(heard)


# Serving


async def test_one_frame_in_one_frame_out(served, connect):
    async with connect() as stream:
        await stream.send_all(frame(b"question"))
        assert await stream.receive_some() == frame(b"re:question")
        source = stream.socket.getsockname()
    assert served.asked == [(b"question", source)]
    assert await ask(served.address, b"another", 5) == b"re:another"
    assert served.counted == []


async def test_a_frame_may_come_byte_by_byte(served, connect):
    async with connect() as stream:
        for byte in frame(b"slowly"):
            await stream.send_all(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert await stream.receive_some() == frame(b"re:slowly")


@pytest.mark.parametrize("size", [0, 1, 1 << 16, (1 << 16) + 1, 3 << 20])
async def test_frames_of_every_size(served, size):
    payload = bytes(size)
    assert await ask(served.address, payload, 30) == b"re:" + payload


async def test_no_reply_closes_without_a_word(served, connect):
    served.reply = lambda _payload: None
    async with connect() as stream:
        await stream.send_all(frame(b"question"))
        assert await rest(stream) == b""
    assert await ask(served.address, b"question", 5) == Refused()


@pytest.mark.parametrize(
    "junk",
    [
        HTTP,
        struct.pack("<I", FRAME_BYTES + 1),
        b"\xff" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # a TLS hello
    ],
)
async def test_what_is_no_frame_ends_the_connection_at_once_and_is_counted(served, connect, junk, autojump_clock):
    async with connect() as stream:
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(junk)
        assert await rest(stream) == b""
        source = stream.socket.getsockname()
    assert served.counted == ["streams: no frame"]
    assert served.asked == [(junk[:4], source)], "the core refuses what it is, and notes from where"
    assert trio.current_time() < 1, "at once, not at a deadline"


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 11])
async def test_a_frame_that_ends_early_is_counted(served, connect, cut, eventually):
    async with connect() as stream:
        await stream.send_all(frame(b"question")[:cut])
    await eventually(lambda: served.counted == ["streams: no frame"])
    assert served.asked == []


async def test_a_peer_that_resets_is_counted(served, connect, eventually):
    async with connect() as stream:
        await stream.send_all(b"\1")
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await eventually(lambda: served.counted == ["streams: broken"])


@pytest.mark.parametrize("said", [b"", b"\x05", frame(b"question")[:-1]])
async def test_a_slow_client_is_let_go(served, connect, said, autojump_clock):
    async with connect() as stream:
        await stream.send_all(said)
        assert await rest(stream, SERVE_SECONDS + 1) == b""
    assert trio.current_time() == pytest.approx(SERVE_SECONDS, abs=1)
    assert served.counted == ["streams: too slow"]


async def test_a_client_that_does_not_read_is_let_go(served, connect, autojump_clock, eventually):
    served.reply = lambda _payload: bytes(FRAME_BYTES)
    async with connect() as stream:
        await stream.send_all(frame(b"question"))
        await eventually(lambda: served.counted, SERVE_SECONDS + 1)
    assert served.counted == ["streams: too slow"]
    assert served.server.held == 0


@pytest.fixture
async def crowd(served):
    """Opens connections that say nothing, from a host of loopback."""

    async with contextlib.AsyncExitStack() as held:

        async def crowd(count, host="127.0.0.1"):
            opened = [await trio.open_tcp_stream(*served.address, local_address=host) for _ in range(count)]
            for stream in opened:
                await held.enter_async_context(stream)
            await trio.testing.wait_all_tasks_blocked()
            return opened

        yield crowd


def closed(stream):
    """Whether the server has ended it; where it sends nothing else there is nothing else to read."""
    return bool(select.select([stream.socket.fileno()], [], [], 0)[0])


async def test_past_the_limit_the_oldest_that_asked_nothing_makes_way(served, crowd):
    streams = await crowd(SERVED_AT_ONCE)
    await streams[0].send_all(frame(b"first"))
    assert await streams[0].receive_some() == frame(b"re:first")
    served.reply = lambda _payload: b""
    for number in range(SERVED_AT_ONCE):
        assert await ask(served.address, bytes([number]), 5) == b""
    assert served.counted == ["streams: made way"], "the others found the place that it left"
    assert await rest(streams[0]) == b""
    await streams[1].send_all(frame(b"second"))
    assert await streams[1].receive_some() == frame(b"")


async def test_a_crowd_that_comes_again_keeps_nobody_out(served, crowd):
    for _ in range(3):
        await crowd(SERVED_AT_ONCE)
        assert await ask(served.address, b"question", 5) == b"re:question"
    assert set(served.counted) == {"streams: made way"}


@pytest.mark.skipif(sys.platform != "linux", reason="loopback has one address here")
async def test_the_host_with_the_most_connections_makes_way_first(served, crowd):
    (other,) = await crowd(1, "127.0.0.2")
    streams = await crowd(2 * SERVED_AT_ONCE)
    ended = [closed(stream) for stream in streams]
    assert ended == [number <= SERVED_AT_ONCE for number in range(2 * SERVED_AT_ONCE)]
    await other.send_all(frame(b"patient"))
    assert await other.receive_some() == frame(b"re:patient")


async def test_who_waits_for_a_reply_makes_way_for_nobody(served, crowd):
    served.reply = lambda _payload: bytes(FRAME_BYTES)
    (reader,) = await crowd(1)
    await reader.send_all(frame(b"everything"))
    heard = bytearray(await reader.receive_some(1))
    served.reply = lambda payload: payload
    streams = await crowd(SERVED_AT_ONCE - 1)
    assert await ask(served.address, b"one more", 5) == b"one more"
    assert closed(streams[0])
    while len(heard) < 4 + FRAME_BYTES:
        heard += await reader.receive_some(1 << 20)
    assert served.counted == ["streams: made way"]


async def test_one_more_than_are_being_answered_is_closed_at_once(served, crowd, monkeypatch):
    monkeypatch.setattr(stream_module, "SERVED_AT_ONCE", 1)
    served.reply = lambda _payload: bytes(FRAME_BYTES)
    (reader,) = await crowd(1)
    await reader.send_all(frame(b"everything"))
    await reader.receive_some(1)
    assert await ask(served.address, b"one too many", 5) == Refused()
    assert served.counted == ["streams: too many"]


async def test_all_connections_together_hold_a_bounded_amount(served, crowd, monkeypatch):
    """Each within its own limit, many at once: the heaviest makes way, be it the one that wants more."""
    monkeypatch.setattr(stream_module, "HELD_BYTES", 250_000)
    first, second, third = await crowd(3)
    for stream, size in ((first, 90_000), (second, 120_000), (third, 35_000)):
        await stream.send_all(frame(bytes(size))[:-1])
        await trio.testing.wait_all_tasks_blocked()
    assert served.counted == []
    assert await ask(served.address, bytes(20_000), 5) == b"re:" + bytes(20_000)
    assert served.counted == ["streams: made way"]
    assert [closed(stream) for stream in (first, second, third)] == [False, True, False]
    assert await ask(served.address, bytes(200_000), 5) == Refused()
    assert served.counted == ["streams: made way", "streams: too many"]
    assert 125_000 < served.server.held < 126_000


async def test_out_of_descriptors_nobody_is_accepted_for_a_moment(served, monkeypatch):
    accept = trio.SocketListener.accept
    failures = [OSError(errno.EMFILE, "Too many open files")] * 3

    async def exhausted(listener):
        await trio.lowlevel.checkpoint()
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(trio.SocketListener, "accept", exhausted)
    assert [await ask(served.address, b"question", 5) for _ in range(2)] == [b"re:question"] * 2
    assert set(served.counted) == {"streams: no descriptors left"}


async def test_a_claimed_length_allocates_nothing(served, connect):
    async with connect() as stream:
        await stream.send_all(struct.pack("<I", FRAME_BYTES) + b"x")
        await trio.testing.wait_all_tasks_blocked()
        assert served.server.held == 5


# Asking


@pytest.fixture
async def peer(nursery):
    """Listens and treats each connection as `peer.treat(stream)` says."""

    class Peer:
        async def treat(self, stream):
            raise NotImplementedError

    made = Peer()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made.address = listener.socket.getsockname()
    nursery.start_soon(trio.serve_listeners, lambda stream: made.treat(stream), [listener])  # noqa: PLW0108 - a test sets it later
    return made


async def test_nobody_there_is_a_refusal():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    assert await ask(address, b"question", 5) == Refused()


def reset(stream):
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


@pytest.mark.parametrize("said", [b"", b"\1", frame(b"whole")[:-1], struct.pack("<I", FRAME_BYTES + 1), HTTP])
async def test_an_answer_that_is_no_frame_is_a_refusal(peer, said):
    async def treat(stream):
        await stream.receive_some()
        await stream.send_all(said)
        await stream.aclose()

    peer.treat = treat
    assert await ask(peer.address, b"question", 5) == Refused()


async def test_a_reset_is_a_refusal(peer):
    async def treat(stream):
        await stream.receive_some()
        reset(stream)

    peer.treat = treat
    assert await ask(peer.address, b"question", 5) == Refused()


@pytest.mark.parametrize("said", [b"", frame(b"whole")[:-1]])
async def test_silence_is_a_time_out(peer, said, autojump_clock):
    async def treat(stream):
        await stream.send_all(said)
        await trio.sleep_forever()

    peer.treat = treat
    started = trio.current_time()
    assert await ask(peer.address, b"question", 3) == TimedOut()
    assert trio.current_time() - started == pytest.approx(3, abs=0.1)


async def test_one_that_does_not_read_is_a_time_out(peer, autojump_clock):
    async def treat(_stream):
        await trio.sleep_forever()

    peer.treat = treat
    assert await ask(peer.address, bytes(FRAME_BYTES), 3) == TimedOut()


@pytest.mark.parametrize("address", [("255.255.255.255", 7931), ("224.0.0.1", 7931), ("127.0.0.1", 0)])
async def test_where_no_connection_can_be_made_is_no_answer(address):
    assert await ask(address, b"question", 2) in (TimedOut(), Refused())


async def test_an_empty_reply_is_a_reply(peer):
    async def treat(stream):
        await stream.receive_some()
        await stream.send_all(frame(b""))

    peer.treat = treat
    assert await ask(peer.address, b"question", 5) == b""


async def test_asking_leaves_no_descriptor(peer):
    import psutil

    peer.treat = trio.aclose_forcefully
    process = psutil.Process()
    before = process.num_fds()
    for _ in range(20):
        await ask(peer.address, b"question", 5)
    await trio.testing.wait_all_tasks_blocked()
    assert process.num_fds() <= before

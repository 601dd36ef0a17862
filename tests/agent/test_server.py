"""The server over a real Unix socket: hello, pipelining, deadlines, limits, errors."""

import errno
import gc
import random
import weakref
from pathlib import Path

import pytest
import trio
from shoal.agent import in_flight, outbox, server
from shoal.agent.api import Query
from shoal.agent.calls import api_for
from shoal.agent.errors import SocketInUse
from shoal.agent.frames import REQUEST_BYTES, encode
from shoal.agent.listener import open_listener
from shoal.agent.server import Server
from structlog.testing import capture_logs

# Stands for a value that is nested deeper than Python's `repr` goes.
DEEP = "DEEP"


def encode_text(text):
    return bytes([0xA0 + len(text)]) + text.encode()


def names(socket_path):
    return sorted(entry.name for entry in Path(socket_path).parent.iterdir())


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_the_first_frame_is_a_hello(connect, backend):
    async with connect(greeted=False) as wire:
        hello = (await wire.receive())["hello"]
        assert hello["protocol"] == [1, 1]
        assert hello["node_id"] == backend.node_id
        assert hello["level"] == "admin"
        assert "credit" in hello["features"]
        assert "find" in hello["calls"]
        assert (await wire.ask("hello"))["ok"] == hello


async def test_pipelined_requests_are_answered_in_order(connect):
    async with connect() as wire:
        await wire.send(*({"id": number, "call": "version"} for number in range(50)))
        assert [(await wire.receive())["id"] for _ in range(50)] == list(range(50))


async def test_a_command_that_waits_holds_up_nothing(connect, backend):
    async with connect() as wire:
        await wire.send({"id": "slow", "call": "join", "args": {"addresses": ["10.0.0.1", "10.0.0.2:99"]}})
        assert "ok" in await wire.ask("version")
        backend.gate.set()
        assert await wire.receive() == {"id": "slow", "ok": {"asked": 2, "answered": 1}}
        assert backend.log == [("join", (("10.0.0.1", 7931), ("10.0.0.2", 99)))]


async def test_a_passed_deadline_is_a_typed_error(connect):
    async with connect() as wire:
        reply = await wire.ask("wait", {"members": 99}, deadline_ms=20)
        assert reply["err"]["kind"] == "deadline"


async def test_a_call_can_be_cancelled(connect):
    async with connect() as wire:
        await wire.send({"id": "w", "call": "wait", "args": {"members": 99}})
        await wire.send({"id": "c", "call": "cancel", "args": {"id": "w"}})
        replies = {reply["id"]: reply for reply in [await wire.receive(), await wire.receive()]}
        assert replies["c"]["ok"] == {"found": True}
        assert replies["w"]["err"]["kind"] == "cancelled"
        assert (await wire.ask("cancel", {"id": "w"}))["ok"] == {"found": False}


@pytest.mark.parametrize(
    ("message", "kind", "says"),
    [
        ({"call": "version"}, "bad-argument", "needs an id"),
        ({"id": -1, "call": "version"}, "bad-argument", "expected a whole number from 0"),
        ({"id": None, "call": "version"}, "bad-argument", "expected text"),
        ({"id": 1}, "unknown-call", "no call None"),
        ({"id": 1, "call": "mebmers"}, "unknown-call", "did you mean members?"),
        ({"id": 1, "call": {"a": 1}}, "unknown-call", "no call"),
        ({"id": 1, "call": "members", "args": [1]}, "bad-argument", "expected a map, got list"),
        ({"id": 1, "call": "find", "args": {"limt": 3}}, "bad-argument", "did you mean limit?"),
        ({"id": 1, "call": "find", "args": {"limit": True}}, "bad-argument", "whole number from 1"),
        ({"id": 1, "call": "find", "args": {"limit": 0}}, "bad-argument", "whole number from 1"),
        ({"id": 1, "call": "find", "args": {"labels": "all"}}, "bad-argument", "expected a list, got str"),
        ({"id": 1, "call": "find", "args": {"requirement": "x" * 20_000}}, "bad-argument", "at most 16384 bytes"),
        ({"id": 1, "call": "members", "args": {"states": ["alvie"]}}, "bad-argument", "did you mean alive?"),
        ({"id": 1, "call": "version", "args": {"x": 1}}, "bad-argument", "this call takes no arguments"),
        ({"id": 1, "call": "show"}, "bad-argument", "argument node: it must be given"),
        ({"id": 1, "call": "show", "args": {"node": "n9"}}, "unknown-node", "no node is called 'n9'"),
        ({"id": 1, "call": "wait", "args": {"members": 1}, "deadline_ms": 0}, "bad-argument", "deadline_ms"),
        ({"id": 1, "call": "join", "args": {"addresses": ["10.0.0.1:x"]}}, "bad-argument", "addresses[0]"),
        ({"id": 1, "call": "labels_set", "args": {"labels": {"7up": 1}}}, "bad-argument", "begins with a letter"),
        ({"id": 1, "call": "labels_set", "args": {"labels": {"a": 1.5}}}, "bad-argument", "labels.a"),
        ({"id": 1, "call": "labels_set", "args": {"labels": {}}}, "bad-argument", "1 to 256 entries"),
        ({"id": 1, "call": "labels_set", "args": {"labels": {"forbidden": 1}}}, "refused", "no room"),
        ({"id": 1, "call": "forget", "args": {"node": "n2"}}, "refused", "n2 is alive"),
        ({"id": 1, "call": "watch", "args": {"credit": 0}}, "bad-argument", "argument credit"),
        ({"id": 1, "call": "credit", "args": {"stream": 1}}, "bad-argument", "argument add"),
    ],
)
async def test_what_is_wrong_is_a_typed_error_and_the_connection_goes_on(connect, message, kind, says):
    async with connect() as wire:
        await wire.send(message)
        error = (await wire.receive())["err"]
        assert error["kind"] == kind
        assert says in error["msg"] + " " + error.get("hint", "")
        assert "ok" in await wire.ask("version")


async def test_unknown_fields_of_a_request_are_ignored(connect):
    async with connect() as wire:
        assert "ok" in await wire.ask("version", later="field")


async def test_bytes_that_are_no_frame_end_the_connection_with_the_reason(connect):
    async with connect() as wire:
        await wire.stream.send_all(b"GET /members HTTP/1.1\r\n\r\n")
        reply = await wire.receive()
        assert reply["err"]["kind"] == "bad-frame"
        assert await wire.receive() is None


async def test_a_handler_that_fails_is_logged_counted_and_answered(connect, serving):
    def broken(request):
        raise RuntimeError("secret detail")

    serving._calls["broken"] = Query(name="broken", answer=broken)
    serving._calls["odd"] = Query(name="odd", answer=lambda request: {"value": object()})
    async with connect() as wire:
        for call in ("broken", "odd"):
            reply = await wire.ask(call)
            assert reply["err"]["kind"] == "internal"
            assert "secret" not in str(reply)
        assert serving.counters["internal"] == 2


@pytest.mark.parametrize(
    ("call", "args"),
    [
        (None, {}),
        ("find", {"requirement": DEEP}),
        ("find", {"options": {"prefer": DEEP}}),
        ("find", {"options": {"spread": DEEP}}),
        ("members", {"states": [DEEP]}),
        ("labels_set", {"labels": {"a": DEEP}}),
        ("labels_unset", {"keys": [DEEP]}),
        ("place", {"task": {"description": DEEP}}),
        ("place", {"task": {"required_tools": DEEP}}),
        ("place", {"task": "a", "policy": {"name": DEEP}}),
        ("wait", {"members": DEEP}),
        ("watch", {"credit": DEEP}),
        ("cancel", {"id": DEEP}),
    ],
)
async def test_what_is_nested_deep_is_refused_like_any_other_value(connect, call, args):
    message = {"id": 1, "call": call or DEEP, "args": args}
    payload = encode(message, REQUEST_BYTES)[4:].replace(encode_text(DEEP), b"\x91" * 1000 + b"\x90")
    async with connect() as wire:
        await wire.stream.send_all(len(payload).to_bytes(4, "little") + payload)
        reply = await wire.receive()
        assert reply["err"]["kind"] in ("bad-argument", "bad-requirement", "unknown-call")
        assert "ok" in await wire.ask("version")


async def test_an_answer_over_the_limit_is_refused(connect, serving):
    serving._calls["big"] = Query(name="big", answer=lambda request: {"text": "x" * (17 << 20)})
    async with connect() as wire:
        reply = await wire.ask("big")
        assert reply["err"]["kind"] == "refused"
        assert reply["err"]["hint"] == "ask for less"


async def test_more_connections_than_allowed_are_told_to_come_back(connect, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    async with connect(), connect() as second:
        async with connect(greeted=False) as third:
            error = (await third.receive())["err"]
            assert (error["kind"], error["retry_ms"]) == ("busy", 1000)
            assert await third.receive() is None
        assert "ok" in await second.ask("version")


async def test_more_waiting_calls_than_allowed_are_busy(connect, monkeypatch):
    monkeypatch.setattr(server, "IN_FLIGHT", 1)
    async with connect() as wire:
        await wire.send({"id": 5, "call": "wait", "args": {"members": 99}})
        await wire.send({"id": 6, "call": "wait", "args": {"members": 99}})
        reply = await wire.receive()
        assert reply["id"] == 6
        assert reply["err"]["kind"] == "busy"


async def test_an_id_in_use_is_refused(connect):
    async with connect() as wire:
        await wire.send({"id": 5, "call": "wait", "args": {"members": 99}})
        await wire.send({"id": 5, "call": "wait", "args": {"members": 1}})
        assert "in use" in (await wire.receive())["err"]["msg"]


async def test_members_come_in_pages_of_one_view(connect, backend, make_node):
    backend.view = backend.view.of([make_node(number) for number in range(700)], here=backend.node_id)
    async with connect() as wire:
        await wire.send({"id": 1, "call": "members", "args": {"labels": ["arch"]}})
        first = await wire.receive()
        backend.view = backend.view.of([])
        rest = [await wire.receive(), await wire.receive()]
        assert [len(reply["ok"]["nodes"]) for reply in (first, *rest)] == [256, 256, 188]
        assert [reply.get("more", False) for reply in (first, *rest)] == [True, True, False]
        assert first["ok"]["nodes"][0]["labels"] == {"arch": "amd64"}


async def test_a_client_that_does_not_read_costs_a_bounded_queue(connect, backend, serving, make_node, monkeypatch):
    monkeypatch.setattr(outbox, "HELD_BYTES", 100_000)
    kept = []
    monkeypatch.setattr(server, "Outbox", lambda *given: kept.append(outbox.Outbox(*given)) or kept[-1])
    backend.view = backend.view.of([make_node(number) for number in range(2000)], here=backend.node_id)
    async with connect() as wire:
        await wire.send(*({"id": number, "call": "members"} for number in range(20)))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert kept[0]._held < 100_000 + 300 * 1000
        count = 0
        while count < 20:
            count += "more" not in await wire.receive()


async def test_a_client_that_says_no_more_still_gets_its_answers(connect, backend, make_node):
    backend.view = backend.view.of([make_node(number) for number in range(3000)], here=backend.node_id)
    async with connect() as wire:
        await wire.send({"id": 1, "call": "members"})
        await wire.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.05)
        count = 0
        while (reply := await wire.receive()) is not None:
            count += len(reply["ok"]["nodes"])
        assert count == 3000


async def test_leave_answers_before_the_agent_stops(connect, backend):
    async with connect() as wire:
        assert (await wire.ask("leave"))["ok"] == {}
        await trio.testing.wait_all_tasks_blocked()
        assert backend.log == ["leave", "stop"]


async def test_an_agent_that_began_to_leave_stops_although_its_client_went(connect, backend):
    async def leave():
        backend.log.append("leave")
        await backend.gate.wait()

    backend.leave = leave
    async with connect() as wire:
        await wire.send({"id": 1, "call": "leave"})
        await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    assert backend.log == ["leave", "stop"]


async def test_levels_are_asked_before_arguments(connect, monkeypatch):
    monkeypatch.setattr(server.os, "getuid", lambda: 12345)
    monkeypatch.setattr("shoal.agent.peer._linux_peer", lambda _: (77, frozenset({77})))
    async with connect() as wire:
        reply = await wire.ask("forget", {"nonsense": 1})
        assert reply["err"]["kind"] == "no-permission"
        assert "needs the level admin, this user has read" in reply["err"]["msg"]
        assert "ok" in await wire.ask("members")
        assert (await wire.ask("labels_set", {"labels": {"a": 1}}))["err"]["kind"] == "no-permission"


async def test_the_socket_is_gone_after_the_server(backend, socket_path):
    async with trio.open_nursery() as nursery:
        listener = open_listener(socket_path, "")
        await nursery.start(Server(api_for(backend), listener).run)
        assert names(socket_path) == ["api.sock", "api.sock.lock"]
        with pytest.raises(SocketInUse):
            open_listener(socket_path, "")
        nursery.cancel_scope.cancel()
    assert names(socket_path) == []
    with open_listener(socket_path, "").sock:
        listener.close()
        assert names(socket_path) == ["api.sock", "api.sock.lock"], "closed twice, it takes nothing from the next one"


async def test_descriptors_and_tasks_end_with_their_connection(connect, serving):
    before = descriptors()
    for _ in range(20):
        async with connect() as wire:
            await wire.send({"id": 1, "call": "watch"})
            await wire.receive()
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert descriptors() <= before + 1
    assert len(serving.backend.watchers) == 0


@pytest.fixture
def held(monkeypatch):
    """What each connection makes to hold bytes in, as weak references; nothing is collected meanwhile."""
    made = []

    def watched(kind):
        def make(*args):
            one = kind(*args)
            made.append(weakref.ref(one))
            return one

        return make

    monkeypatch.setattr(server, "FrameReader", watched(server.FrameReader))
    monkeypatch.setattr(server, "Outbox", watched(server.Outbox))
    gc.collect()
    gc.disable()
    yield made
    gc.enable()


async def test_half_a_request_is_free_when_its_connection_ends(held, connect, eventually):
    async with connect() as wire:
        await wire.stream.send_all(encode({"id": 1, "call": "x" * 100_000}, REQUEST_BYTES)[:-1])
        await trio.testing.wait_all_tasks_blocked(0.01)
    await eventually(lambda: [ref() for ref in held] == [None, None])


async def test_answers_that_nobody_read_are_free_when_their_connection_ends(
    held, connect, backend, make_node, eventually
):
    backend.view = backend.view.of([make_node(number) for number in range(3000)], here=backend.node_id)
    async with connect() as wire:
        await wire.send({"id": 1, "call": "members"}, {"id": 2, "call": "watch"})
        await trio.testing.wait_all_tasks_blocked(0.01)
    await eventually(lambda: [ref() for ref in held] == [None, None])


async def test_out_of_descriptors_clients_wait_and_the_log_tells_it_once_a_minute(
    backend, socket_path, nursery, monkeypatch, autojump_clock
):
    class Exhausted:
        """A listening socket whose process has no descriptor left."""

        def __init__(self, sock):
            self.sock, self.fileno, self.close = sock, sock.fileno, sock.close
            self.until = 90.0

        def accept(self):
            if trio.current_time() < self.until:
                raise OSError(errno.EMFILE, "Too many open files")
            return self.sock.accept()

    listener = open_listener(socket_path, "")
    listener.sock = Exhausted(listener.sock)
    with capture_logs() as logs:
        await nursery.start(Server(api_for(backend), listener).run)
        async with await trio.open_unix_socket(socket_path) as stream:
            await trio.sleep(100)
            assert b"hello" in await stream.receive_some()
    assert [entry["event"] for entry in logs] == ["api.exhausted"] * 2


async def test_credit_for_an_ended_stream_is_no_error(connect):
    async with connect() as wire:
        assert (await wire.ask("credit", {"stream": 9, "add": in_flight._CREDIT}))["ok"] == {}


async def test_any_messages_get_typed_answers_and_leave_the_server_as_it_was(connect, serving):
    chance = random.Random(20)
    names = [*serving.names, *in_flight.CONTROLS, "nonsense", 7, None]
    values = [None, True, 0, -1, 2**63, 1.5, "", "n1", b"x", [], ["a"], [1], {}, {"a": 1}, {"n": {"n": 1}}]
    keys = ["labels", "states", "requirement", "limit", "members", "node", "addresses", "keys", "stream", "id", "odd"]
    keys += ["task", "options", "policy", "explain", "failure", "tool", "peak_ram_mb", "strict"]
    async with connect() as wire:
        for number in range(600):
            args = {key: chance.choice(values) for key in chance.sample(keys, chance.randrange(4))}
            message = {"id": number, "call": chance.choice(names), "args": chance.choice([args, args, None, 7])}
            await wire.send(message | {"deadline_ms": 1})
            reply = await wire.receive()
            assert ("ok" in reply) != ("err" in reply)
            assert reply.get("err", {}).get("kind") != "internal", message
    async with connect() as wire:
        assert "ok" in await wire.ask("version")
    assert "internal" not in serving.counters

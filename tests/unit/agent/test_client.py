import os
import socket
import threading

import pytest
from shoal.agent.client import Client
from shoal.agent.errors import (
    AddressUnusable,
    BadArgument,
    BadFrame,
    Busy,
    Refused,
    ShoalError,
    StateInUse,
    Unreachable,
    from_wire,
)
from shoal.agent.frames import REPLY_BYTES, encode
from shoal.agent.socket_path import SYSTEM_SOCKET, asking_path, owner_of, serving_path

HELLO = {"hello": {"protocol": [1, 1], "version": "0.1.0"}}


@pytest.fixture
def agent(tmp_path):
    """A server that sends prepared frames to whoever connects, after it was asked."""
    path = str(tmp_path / "api.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    threads = []

    def prepare(*replies, at_once=False):
        def serve():
            with listener.accept()[0] as connection:
                if not at_once:
                    connection.recv(1 << 16)
                for reply in replies:
                    connection.sendall(reply if isinstance(reply, bytes) else encode(reply, REPLY_BYTES))

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return Client(path, timeout=2)

    yield prepare
    listener.close()
    for thread in threads:
        thread.join()


def test_no_socket_names_the_path_and_the_way_to_start_an_agent(tmp_path):
    with pytest.raises(Unreachable, match="no such socket") as caught:
        Client(str(tmp_path / "none.sock")).status()
    assert str(tmp_path) in caught.value.message
    assert "shoal run" in caught.value.hint
    assert caught.value.exit_code == 69


def test_what_is_no_socket_is_told_apart(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(Unreachable, match="it is no socket"):
            Client(str(path)).status()


def test_a_socket_without_an_agent_says_so(tmp_path):
    path = str(tmp_path / "old.sock")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(path)
        with pytest.raises(Unreachable, match="nothing listens there any more"):
            Client(path).status()


def test_pages_are_joined_and_other_replies_passed_over(agent):
    client = agent(
        HELLO,
        {"id": 99, "ok": {}},
        {"id": 1, "ok": {"nodes": [1, 2], "total": 3}, "more": True},
        {"id": 1, "ok": {"nodes": [3]}},
    )
    with client:
        assert client.call("find") == {"nodes": [1, 2, 3], "total": 3}


def test_an_error_comes_out_typed(agent):
    with agent(HELLO, {"id": 1, "err": {"kind": "refused", "msg": "no", "hint": "less", "retry_ms": 5}}) as client:
        with pytest.raises(Refused, match="no") as caught:
            client.call("x")
        assert (caught.value.hint, caught.value.retry_ms) == ("less", 5)


def test_being_turned_away_is_told(agent):
    client = agent({"err": {"kind": "busy", "msg": "too many", "retry_ms": 1000}}, at_once=True)
    with client, pytest.raises(Busy, match="too many"):
        client.status()


def test_another_protocol_is_refused_with_both_versions(agent):
    client = agent({"hello": {"protocol": [2, 3], "version": "9.0.0"}}, {"id": 1, "ok": {}})
    with client, pytest.raises(Refused, match=r"speaks protocol 1, the agent \(version 9.0.0\) 2 to 3"):
        client.status()


def test_junk_and_an_early_end_are_typed_and_a_new_call_connects_again(agent):
    client = agent(b"\xff" * 100)
    with client:
        with pytest.raises(BadFrame):
            client.status()
        agent(HELLO)
        with pytest.raises(Unreachable, match="closed the connection"):
            client.status()
        agent(HELLO, {"id": 1, "ok": {"name": "n1"}})
        assert client.status() == {"name": "n1"}


ODD_REPLIES = [
    [HELLO, {}],
    [HELLO, {"id": 1}],
    [HELLO, {"id": 1, "ok": 5}],
    [HELLO, {"id": 1, "ok": None}],
    [HELLO, {"id": 1, "ok": {}}],
    [HELLO, {"id": 1, "ok": {"nodes": 5}}],
    [HELLO, {"id": 1, "ok": {"nodes": []}, "more": True}, {"id": 1, "ok": {"nodes": {}}}],
    [HELLO, {"id": 1, "err": 5}],
    [HELLO, {"id": 1, "err": {}}],
    [HELLO, {"id": 1, "err": {"kind": 5, "msg": 7, b"x": 1}}],
    [{"hello": 5}],
    [{"hello": {}}],
    [{"hello": {"protocol": 5}}],
    [{"hello": {"protocol": [1]}}],
    [{"hello": {"protocol": ["a", "b"]}}],
]


@pytest.mark.parametrize("replies", ODD_REPLIES)
def test_what_no_agent_answers_is_a_typed_error(agent, replies):
    with agent(*replies) as client, pytest.raises(ShoalError):
        client.members()


@pytest.mark.parametrize("event", [5, {"event": "snapshot", "partial": True}, {"partial": True, "nodes": 5}])
def test_what_no_stream_holds_is_a_typed_error(agent, event):
    with pytest.raises(BadFrame):
        next(agent(HELLO, {"id": 1, "ok": event, "more": True}).watch())


@pytest.mark.parametrize("value", ["\udcff", 2**70, object(), {1j: 2}])
def test_what_cannot_be_sent_is_an_argument_refused(agent, value):
    with agent(HELLO, {"id": 1, "ok": {}}) as client:
        client.status()
        with pytest.raises(BadArgument):
            client.call("status", {"x": value})


def test_a_path_that_is_none_is_typed():
    with pytest.raises(ShoalError):
        Client("a\0b").status()


def test_after_a_restart_of_the_agent_what_only_reads_is_asked_again(agent):
    client = agent(HELLO, {"id": 1, "ok": {"name": "n1"}})
    with client:
        assert client.status() == {"name": "n1"}
        agent(HELLO, {"id": 1, "ok": {"name": "n2"}})
        assert client.status() == {"name": "n2"}


def test_after_a_restart_of_the_agent_no_change_is_asked_twice(agent):
    client = agent(HELLO, {"id": 1, "ok": {}})
    with client:
        client.status()
        with pytest.raises(Unreachable, match="closed the connection"):
            client.leave()


def test_an_answer_that_broke_off_is_not_asked_again(agent):
    client = agent(HELLO, {"id": 1, "ok": {}}, encode({"id": 2, "ok": {}}, REPLY_BYTES)[:-1])
    with client:
        client.status()
        with pytest.raises(Unreachable):
            client.status()


def test_an_agent_that_does_not_answer_is_given_up(agent, monkeypatch):
    monkeypatch.setattr("shoal.agent.connection._GRACE_S", 0.0)
    with agent(at_once=True) as client, pytest.raises(Unreachable):
        client.call("x", timeout=0.05)


def test_a_stream_joins_partial_snapshots_and_refills_credit(agent):
    changes = [{"id": 1, "ok": {"event": "record", "number": number}, "more": True} for number in range(40)]
    client = agent(
        HELLO,
        {"id": 1, "ok": {"event": "snapshot", "partial": True, "nodes": [1]}, "more": True},
        {"id": 1, "ok": {"event": "snapshot", "nodes": [2]}, "more": True},
        *changes[:35],
        {"id": 2, "ok": {}},
        *changes[35:],
    )
    events = client.watch()
    assert next(events) == {"event": "snapshot", "nodes": [1, 2]}
    assert [next(events)["number"] for _ in range(40)] == list(range(40))
    with pytest.raises(Unreachable):
        next(events)


@pytest.mark.parametrize(
    ("environ", "uid", "existing", "path"),
    [
        ({"SHOAL_API_SOCKET": "/x"}, 7, [], "/x"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, 7, ["/run/user/7/shoal/api.sock"], "/run/user/7/shoal/api.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, 7, [SYSTEM_SOCKET], SYSTEM_SOCKET),
        ({"TMPDIR": "/var/tmp/"}, 7, ["/var/tmp/shoal-7/api.sock"], "/var/tmp/shoal-7/api.sock"),
        ({}, 7, [], SYSTEM_SOCKET),
        ({"XDG_RUNTIME_DIR": "/run/user/0"}, 0, ["/run/user/0/shoal/api.sock"], SYSTEM_SOCKET),
    ],
)
def test_clients_look_for_the_users_agent_and_then_the_systems(environ, uid, existing, path):
    assert asking_path(environ, uid, exists=existing.__contains__, owner=lambda _: uid) == path


@pytest.mark.parametrize("owner", [8, 0, None])
def test_in_a_shared_place_only_the_users_own_directory_is_believed(owner):
    found = asking_path({}, 7, exists=lambda _: True, owner={"/tmp/shoal-7": owner}.__getitem__)
    assert found == SYSTEM_SOCKET


def test_a_link_belongs_to_who_made_it(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/")
    assert owner_of(str(link)) == os.getuid()
    assert owner_of(str(tmp_path / "none")) is None


def test_agents_listen_where_their_clients_look():
    assert serving_path({}, 0) == SYSTEM_SOCKET
    assert serving_path({"RUNTIME_DIRECTORY": "/run/shoal:/run/other"}, 990) == "/run/shoal/api.sock"
    environ = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert serving_path(environ, 7) == asking_path(environ, 7, exists=lambda _: True)


@pytest.mark.parametrize(
    "wire",
    [
        {"kind": "from-the-future", "msg": "later", "column": 3, "self": 1, "message": "x", "odd key": 1, "list": [1]},
        {"kind": 7},
        {},
    ],
)
def test_an_error_of_any_form_becomes_one_of_ours(wire):
    error = from_wire(wire)
    assert isinstance(error, ShoalError)
    assert error.exit_code == 1


def test_errors_keep_what_they_know_over_the_wire():
    error = from_wire(Busy("later", hint="wait", retry_ms=7, column=3).to_wire())
    assert type(error) is Busy
    assert (error.message, error.hint, error.retry_ms, error.details) == ("later", "wait", 7, {"column": 3})
    assert from_wire({"kind": "new-kind", "msg": "m"}).kind == "new-kind"


def every_class(base=ShoalError):
    for error in base.__subclasses__():
        yield error
        yield from every_class(error)


def test_every_error_with_a_kind_comes_off_the_wire_as_itself():
    kinds = {}
    for error in every_class():
        if "kind" in vars(error):
            assert kinds.setdefault(error.kind, error) is error, "a kind means one class"
            came = from_wire({"kind": error.kind, "msg": "why", "hint": "do", "retry_ms": 7, "where": "there"})
            assert type(came) is error
            assert (str(came), came.message, came.hint, came.retry_ms) == ("why", "why", "do", 7)
            assert came.details == {"where": "there"}
    assert {"state-in-use", "state-unusable", "address-in-use", "address-unusable"} <= set(kinds)


@pytest.mark.parametrize("error", [StateInUse("/var/lib/shoal"), AddressUnusable("10.0.0.7:7931", "no such address")])
def test_errors_that_word_themselves_arrive_word_for_word(error):
    came = from_wire(error.to_wire())
    assert type(came) is type(error)
    assert (came.message, came.hint) == (error.message, error.hint)

"""Commands against a server that answers what no agent does: an error in words, and never a traceback."""

import copy
import json
import random
import socket
import threading

import attrs
import pytest
import trio
from shoal.agent import cli, cli_answers
from shoal.agent.calls import CALLS
from shoal.agent.cli_answers import CheckedClient
from shoal.agent.client import Client
from shoal.agent.errors import BadFrame
from shoal.agent.frames import REPLY_BYTES, encode
from shoal.placement import FailureScope, NodeState, Observation, ObservationScope

HELLO = {"hello": {"protocol": [1, 1], "version": "0.1.0"}}
# Every command that asks an agent.
COMMANDS = [
    ("status",), ("status", "-o", "wide"), ("members",), ("members", "-o", "wide"), ("members", "-o", "jsonl"),
    ("members", "-o", "name"), ("show", "n2"), ("show", "n2", "-o", "json"), ("find", "gpu_nvidia"),
    ("find", "gpu_nvidia", "-o", "json"), ("find", "nothing=1"), ("find", "gpu_nvidia", "--fallback", "arch"),
    ("place", "run a 7b model", "--tool", "git"), ("place", "build it", "--explain", "--require", "gpu_nvidia"),
    ("place", "build it", "-o", "wide", "--fallback", "os=linux"), ("place", "build it", "-o", "name"),
    ("place", "--min-free-ram", "1TiB", "--why-not", "n2"), ("explain", "gpu_nvidia, nothing=1", "n1"),
    ("explain", "arch=amd64", "n2"), ("explain", "arch", "--spread", "arch"), ("fail", "n2", "exec-crash", "build it"),
    ("observe", "n2", "build it", "--took", "9s"), ("override", "n2"), ("history",), ("history", "-o", "json"),
    ("wait", "--members", "1"), ("watch",), ("watch", "-o", "jsonl"), ("watch", "-o", "name"),
    ("join", "10.0.0.1:7931"), ("leave",), ("forget", "n4"), ("cordon",), ("uncordon",), ("drain",), ("labels", "list"),
    ("labels", "set", "a=1"), ("labels", "unset", "a"), ("reload",), ("doctor",), ("doctor", "-o", "json"),
    ("keys", "list"), ("keys", "use", "1"), ("keys", "remove", "1"), ("keys", "rotate", "--timeout", "0.01"),
    ("keys", "install", "KEY"),
]  # fmt: skip
# Those whose answer is not read.
UNREAD = {("leave",), ("labels", "set", "a=1"), ("keys", "use", "1"), ("keys", "remove", "1")}
RING = {
    "in_use": "a1", "target": "b2", "members": 3, "dead": ["n9"], "stored": False,
    "keys": [{"id": "b2", "in_use": True, "have": 2, "using": 1, "lacking": ["n2"], "dead_lacking": []}],
}  # fmt: skip
# What the fake backend has no answer to.
ANSWERS = {
    "keys_list": RING,
    "keys_rotate": RING,
    "keys_install": {"id": "b2", "stored": True},
    "keys_use": {"id": "b2"},
    "keys_remove": {"id": "b2"},
    "join": {"asked": 1, "answered": 1},
    "reload": {
        "added": {"a": 1}, "removed": {"b": "x"}, "changed": {"c": [1, True], "d": [1, 2]}, "devices_changed": True,
        "needs_restart": ["gossip.bind"], "warnings": ["probe: late"],
    },
}  # fmt: skip
WRONG = [5, None, "x", [], True, {"x": 1}, {}, {"nodes": [5]}, {"nodes": {}}, {"nodes": "abc"}, {"labels": [1]}]
JUNK = [
    None, True, -7, 2**63, 1.5, float("nan"), float("inf"), 1e300, "", "x\x1b[2J\x9b1m\n", b"x", [], [5], [None, "x"],
    {}, {"x": 5}, {"x": {"y": [b"z"]}}, {b"x": 5},
]  # fmt: skip


def deep(levels=200):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
def key_file(tmp_path):
    file = tmp_path / "new.key"
    file.write_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def shoal(tmp_path, capsys, key_file):
    """Run a command line in this thread; answers (exit code, standard output, standard error)."""

    def shoal(arguments, path):
        code = cli.main(["--socket", path, *(key_file if word == "KEY" else word for word in arguments)])
        return code, *capsys.readouterr()

    return shoal


@pytest.fixture
def impostor(tmp_path):
    """A server that greets, and answers each request with what is set."""
    path = str(tmp_path / "api.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    answers = [{}]

    def serve():
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.sendall(encode(HELLO, REPLY_BYTES))
                while connection.recv(1 << 16):
                    connection.sendall(encode({"id": 1, "ok": answers[0]}, REPLY_BYTES))

    thread = threading.Thread(target=serve)
    thread.start()

    def answer(what):
        answers[0] = what
        return path

    yield answer
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_no_agent_answers_ends_a_command_in_words(shoal, impostor, command):
    for wrong in WRONG:
        code, out, err = shoal(command, impostor(wrong))
        if command in UNREAD and type(wrong) is dict:
            assert code in (0, 1)
            continue
        assert (code, out) == (1, ""), (wrong, out)
        assert err.startswith("shoal: "), wrong
        assert "expected" in err


@pytest.fixture
def crowd(backend, make_node):
    """The fake cluster with something to tell of everything."""
    backend.view = backend.view.replace(attrs.evolve(make_node(4, state=NodeState.DEAD), error="x"))
    backend.warnings = ("probe: late",)
    backend.gate.set()
    backend.histories.fail(FailureScope(node=f"{2:032x}", workload_class="x"), "exec-crash", backend.unix())
    scope = ObservationScope(node=f"{3:032x}", workload_class="y")
    backend.histories.observe(Observation(scope=scope, observed_at=backend.unix(), wall_ms=5))


@pytest.fixture
def real(serving, crowd, socket_path, shoal, monkeypatch):
    """What the agent answers to each command: (call, answer) in their order."""

    async def real(command):
        told = []

        def call(self, name, args=None, timeout=None):
            answer = ANSWERS[name] if name in ANSWERS else plain_call(self, name, args, timeout)
            told.append((name, copy.deepcopy(answer)))
            return answer

        def watch(self, **arguments):
            row = plain_call(self, "show", {"node": "n2"})["node"]
            for kind, labels in (("snapshot", {}), ("record", {"rack": 7}), ("vitals", {}), ("failed", {})):
                event = {"event": kind, "node_id": row["node_id"], "at": 1.5, "node": {**row, "labels": labels}}
                event = {"event": kind, "nodes": [row]} if kind == "snapshot" else event
                told.append(("watch", copy.deepcopy(event)))
                yield event
            other = {"event": "name-conflict", "node_id": row["node_id"], "at": 1.5, "node": row, "other": row}
            told.append(("watch", copy.deepcopy(other)))
            yield other

        plain_call = Client.call
        with monkeypatch.context() as patch:
            patch.setattr(Client, "call", call)
            patch.setattr(Client, "watch", watch)
            code, out, err = await trio.to_thread.run_sync(shoal, command, socket_path)
        return told, code, out, err

    return real


def places(value, path=()):
    """The paths into a plain value; of a list the first two items."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value[:2]):
            yield from places(item, (*path, place))


GONE = object()
# Of some thousand wrong answers to a command; all of them take minutes, and were all tried once.
TRIED = 150


def changed(value, path, junk):
    """A copy with `junk` at the path, or without what is there."""
    if not path:
        return junk
    value = copy.deepcopy(value)
    held = value
    for step in path[:-1]:
        held = held[step]
    if junk is GONE:
        del held[path[-1]]
    else:
        held[path[-1]] = junk
    return value


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_any_part_of_an_answer_may_be_wrong(real, shoal, monkeypatch, command):
    """A field that is not read may hold anything that can be shown; every other is refused."""
    told, code, out, err = await real(command)
    assert told, "it asked"
    assert code in (0, 1, 3, 4, 75), err
    wrongs = [
        (number, path, junk)
        for number, (_, answer) in enumerate(told)
        for path in places(answer)
        for junk in (*JUNK, deep(), *([GONE] if path else []))
    ]
    chance = random.Random(7)
    for number, path, junk in chance.sample(wrongs, min(TRIED, len(wrongs))):
        answers = [answer for _, answer in told]
        answers[number] = changed(answers[number], path, junk)
        with monkeypatch.context() as patch:
            patch.setattr(Client, "call", Replay(answers).call)
            patch.setattr(Client, "watch", Replay(answers).watch)
            code, out, err = shoal(command, "/nowhere")
        assert code in (0, 1, 3, 4, 5, 75), (path, junk)
        structured = command[-1] in ("json", "jsonl")
        assert not {"\x1b", "\x9b"} & {*out, *err}, (path, junk)
        for text in out.splitlines() if command[-1] == "jsonl" else [out] if structured and out else []:
            json.loads(text, parse_constant=pytest.fail)


class Replay:
    """In place of a client: the answers in their order, the last one again and again."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = 0

    def call(self, *_arguments):
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]

    def watch(self, **_arguments):
        return iter(self.answers)


def test_the_error_says_where_and_what():
    client = CheckedClient("/run/shoal/api.sock")
    with pytest.raises(BadFrame) as caught:
        client._check("members", {}, {"nodes": [{"node_id": "a", "name": 5}]})
    assert "its answer to members holds int at nodes[0].name, where text is expected" in caught.value.message
    assert "/run/shoal/api.sock" in caught.value.message


def test_every_call_that_commands_read_has_a_shape():
    unread = {"hello", "version", "leave", "labels_set", "keys_use", "keys_remove"}
    assert {call.name for call in CALLS} - unread == set(cli_answers._ANSWERS)

"""Commands against a served fake cluster, in a thread of this process: output, exit codes, errors."""

import json

import attrs
import pytest
import trio
from shoal.agent import cli
from shoal.agent.errors import Refused
from shoal.placement import NodeState, Schedulable


@pytest.fixture
def shoal(serving, socket_path, capsys):
    """Run a command line; answers (exit code, standard output, standard error)."""

    async def shoal(*arguments):
        def run():
            try:
                return cli.main(["--socket", socket_path, *arguments])
            except SystemExit as end:
                return end.code

        with trio.fail_after(20):
            code = await trio.to_thread.run_sync(run)
        return code, *capsys.readouterr()

    return shoal


async def test_members_is_a_table_of_all_nodes(shoal, backend, make_node):
    backend.view = backend.view.replace(attrs.evolve(make_node(2), schedulable=Schedulable.DRAINING))
    code, out, err = await shoal("members")
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[0] == ["NAME", "STATE", "ADDRESS", "ARCH", "CPUS", "RAM", "FREE", "LOAD", "GPU", "NOTE"]
    assert lines[1] == ["n1", "alive", "127.0.0.1:7001", "amd64", "4", "15.6G", "7.8G", "0.10", "-", "here"]
    assert lines[2][-5:] == ["1", "x", "GPU", "7.8G", "draining"]
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("form", "check"),
    [
        ("wide", lambda out: "GENERATION" in out and f"{3:032x}" in out),
        ("json", lambda out: [node["name"] for node in json.loads(out)["nodes"]] == ["n1", "n2", "n3"]),
        ("jsonl", lambda out: [json.loads(line)["name"] for line in out.splitlines()] == ["n1", "n2", "n3"]),
        ("name", lambda out: out == "n1\nn2\nn3\n"),
    ],
)
async def test_members_in_every_form(shoal, form, check):
    code, out, _ = await shoal("members", "-o", form)
    assert code == 0
    assert check(out)


async def test_members_of_a_state(shoal, backend, make_node):
    backend.view = backend.view.replace(make_node(2, state=NodeState.DEAD))
    assert (await shoal("members", "--state", "dead", "-o", "name"))[1] == "n2\n"


async def test_find_shows_the_best_first(shoal, backend, make_node):
    backend.view = backend.view.replace(make_node(2, load=300))
    assert await shoal("find", "gpu_nvidia, gpu_vram_mb>=8000", "-o", "name") == (0, "n3\nn2\n", "")
    assert (await shoal("find", "gpu_nvidia", "--limit", "1", "-o", "name"))[1] == "n3\n"
    assert (await shoal("find", "-o", "name"))[0] == 0


async def test_find_without_a_match_ends_with_3_and_says_why(shoal):
    code, out, err = await shoal("find", "gpu_vram_mb>=80GB, zoone=a")
    assert (code, out) == (3, "")
    assert err.startswith("shoal: nothing fits, and nothing that is known ever could")
    assert "3 nodes known, seen 1.0 s ago" in err
    assert ["zoone=a", "3", "n1,", "n2,", "n3"] in [line.split() for line in err.splitlines()]
    assert "no known node has zoone" in err
    code, out, err = await shoal("find", "zoone=a", "-o", "json")
    assert (code, json.loads(out)["nodes"], json.loads(out)["explanation"]["verdict"]) == (3, [], "infeasible")


async def test_a_syntax_error_points_at_its_column(shoal):
    code, out, err = await shoal("find", "gpu_nvidia, gpu_vram_mb>>8000")
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[0].startswith("shoal: column 24: ")
    assert lines[1] == "  gpu_nvidia, gpu_vram_mb>>8000"
    assert lines[2].index("^") == lines[1].index(">>")
    assert lines[3].startswith("  hint: ")
    assert (await shoal("wait", "--members", "1", "--matching", "a>>b"))[0] == 2


async def test_a_long_requirement_is_cut_around_the_error(shoal):
    text = ", ".join(f"label_{number}" for number in range(60)) + ", x>>1"
    lines = (await shoal("find", text))[2].splitlines()
    assert len(lines[1]) <= 102
    assert lines[1][lines[2].index("^") :].startswith(">>")


async def test_show_is_everything_about_one_node(shoal):
    code, out, _ = await shoal("show", "n3")
    assert code == 0
    assert ["gpu_vram_mb", "24564"] in [line.split() for line in out.splitlines()]
    assert json.loads((await shoal("show", "n3", "-o", "json"))[1])["weight"] == 100
    code, _, err = await shoal("show", "n33")
    assert code == 3
    assert "did you mean n3?" in err


async def test_what_other_machines_say_cannot_move_the_cursor(shoal, backend, make_node):
    backend.view = backend.view.replace(attrs.evolve(make_node(2), name="evil\x1b[2J\n\x07"))
    for arguments in (("members",), ("members", "-o", "name"), ("show", f"{2:032x}")):
        out = (await shoal(*arguments))[1]
        assert "\x1b" not in out
        assert "\x07" not in out


async def test_status_in_every_form(shoal, backend):
    backend.view = backend.view.with_isolated(isolated=True)
    out = (await shoal("status"))[1]
    assert ["members", "3", "alive"] in [line.split() for line in out.splitlines()]
    assert "isolated  yes" in out
    assert "calls.status" in (await shoal("status", "-o", "wide"))[1]
    assert json.loads((await shoal("status", "-o", "json"))[1])["members"]["alive"] == 3
    assert (await shoal("status", "-o", "name"))[1] == "n1\n"
    assert "hears nobody" in (await shoal("members"))[2]


async def test_labels_are_typed_by_their_look(shoal, backend):
    assert await shoal("labels", "set", "rack=7", "ssd=true", "zone=us east", 'code="7"') == (0, "", "")
    assert backend.operator_labels == {"rack": 7, "ssd": True, "zone": "us east", "code": "7"}
    out = (await shoal("labels"))[1]
    assert ["ssd", "Bool", "true"] in [line.split() for line in out.splitlines()]
    assert json.loads((await shoal("labels", "list", "-o", "json"))[1])["rack"] == 7
    assert (await shoal("labels", "list", "-o", "name"))[1].split() == list(backend.operator_labels)
    code, _, err = await shoal("labels", "unset", "rack", "ssd", "nope")
    assert (code, backend.operator_labels) == (4, {"zone": "us east", "code": "7"})
    assert "nope" in err
    code, _, err = await shoal("labels", "set", "7up=1")
    assert code == 2
    assert "begins with a letter" in err


async def test_join_forget_and_leave(shoal, backend, make_node):
    backend.gate.set()
    assert (await shoal("join", "10.0.0.1", "10.0.0.2"))[:2] == (4, "1 of 2 addresses answered\n")
    assert (await shoal("join", "10.0.0.1"))[0] == 75
    assert (await shoal("forget", "n3"))[0] == 5
    backend.view = backend.view.replace(make_node(3, state=NodeState.DEAD))
    assert (await shoal("forget", "n3"))[:2] == (0, "n3 is forgotten\n")
    assert (await shoal("leave"))[0] == 0
    assert backend.log[-2:] == ["leave", "stop"]


async def test_wait(shoal):
    assert (await shoal("wait", "--members", "3"))[:2] == (0, "3 alive\n")
    code, _, err = await shoal("wait", "--members", "9", "--timeout", "0.05")
    assert code == 75
    assert "there are not 9 nodes alive after 0.05 s" in err


async def subscribed(backend):
    """The subscriber is the code under test, in another thread: nothing else tells when it is there."""
    for _ in range(2000):
        if backend.watchers._subscriptions:
            return
        await trio.sleep(0.005)


async def test_watch_prints_changes_as_they_come(shoal, backend, make_node, monkeypatch):
    def enough():
        raise Refused("enough")

    results = []

    async def watch(form):
        results.append(await shoal("watch", "-o", form))

    for form in ("table", "jsonl", "name"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, form)
            await subscribed(backend)
            backend.change(make_node(2, state=NodeState.DEAD), "failed")
            await trio.testing.wait_all_tasks_blocked(0.05)
            monkeypatch.setattr(backend, "now", enough)
            backend.change(make_node(3), "record")
        monkeypatch.undo()
    table, lines, names = results
    assert [line.split()[1:3] for line in table[1].splitlines()][-2:] == [["snapshot", "n3"], ["failed", "n2"]]
    assert [json.loads(line)["event"] for line in lines[1].splitlines()] == ["snapshot", "failed"]
    assert names[1].split() == ["n1", "n2", "n3", "n2"]
    assert (table[0], table[2]) == (5, "shoal: enough\n")


async def test_wrong_options_get_a_hint(shoal):
    code, out, err = await shoal("find", "--lmit", "3")
    assert (code, out) == (2, "")
    assert "did you mean --limit?" in err
    assert (await shoal("find", "--lim", "3"))[0] == 2
    assert (await shoal("find", "--limit", "0"))[0] == 2
    assert (await shoal("members", "-o", "xml"))[0] == 2
    assert (await shoal("labels", "set", "novalue"))[0] == 2

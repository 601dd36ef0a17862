"""Commands against a served fake cluster, in a thread of this process: output, exit codes, errors."""

import json
import re

import attrs
import pytest
import trio
from shoal.agent import cli
from shoal.agent.errors import Refused
from shoal.capabilities import NodeCapabilities
from shoal.placement import NodeState, NodeVitals, Schedulable


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
    for option in (("--count", "2"), ("--spread", "zone")):
        code, _, err = await shoal("find", "--limit", "1", *option)
        assert code == 2
        assert "--limit says nothing with --count or --spread" in err
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


async def test_show_is_everything_about_one_node(shoal, backend, make_node):
    code, out, _ = await shoal("show", "n3")
    assert code == 0
    assert ["gpu_vram_mb", "24564"] in [line.split() for line in out.splitlines()]
    assert json.loads((await shoal("show", "n3", "-o", "json"))[1])["weight"] == 100
    code, _, err = await shoal("show", "n33")
    assert code == 3
    assert "did you mean n3?" in err
    code, _, err = await shoal("show", "000")
    assert (code, err) == (3, "shoal: no node is called '000'\n  hint: of an id give at least 4 characters\n")
    backend.view = backend.view.replace(attrs.evolve(make_node(2), name="001"))
    assert "did you mean 001?" in (await shoal("show", "000"))[2]


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
    code, _, err = await shoal("labels", "unset", "zonee", "nope")
    assert (code, backend.operator_labels) == (3, {"zone": "us east", "code": "7"})
    assert err == "shoal: not set until now: zonee, nope\n  hint: did you mean zone?\n"
    code, _, err = await shoal("labels", "set", "ok=1", "7up=1")
    assert code == 2
    assert "begins with a letter, got '7up'" in err
    assert (await shoal("labels", "set", "a=1", "a=2"))[::2] == (2, "shoal: a is given twice\n")
    assert await shoal("labels", "set", "code='7'", 'code="7"') == (0, "", ""), "the same value is no contradiction"
    assert backend.operator_labels == {"zone": "us east", "code": "7"}


async def test_what_was_done_is_told_as_json_too(shoal, backend, make_node):
    backend.gate.set()
    backend.view = backend.view.replace(make_node(3, state=NodeState.DEAD))
    for arguments, told in (
        (("wait", "--members", "1"), {"alive": 2, "known": 3}),
        (("join", "10.0.0.1", "10.0.0.2"), {"asked": 2, "answered": 1}),
        (("cordon",), {"node_id": f"{1:032x}", "name": "n1", "changed": True}),
        (("forget", "n3"), {"node_id": f"{3:032x}", "name": "n3"}),
        (("leave",), {"left": True}),
    ):
        _, out, err = await shoal(*arguments, "-o", "json")
        assert err == ""
        assert told.items() <= json.loads(out).items()


async def test_join_forget_and_leave(shoal, backend, make_node):
    backend.gate.set()
    assert (await shoal("join", "10.0.0.1", "10.0.0.2"))[:2] == (4, "1 of 2 addresses answered\n")
    assert (await shoal("join", "10.0.0.1"))[0] == 75
    assert (await shoal("forget", "n3"))[0] == 5
    backend.view = backend.view.replace(make_node(3, state=NodeState.DEAD))
    assert (await shoal("forget", "n3"))[:2] == (0, "n3 is forgotten\n")
    assert await shoal("leave", "-o", "table") == (0, "left the cluster; the agent stops\n", "")
    assert backend.log[-2:] == ["leave", "stop"]


async def test_wait(shoal):
    assert (await shoal("wait", "--members", "3"))[:2] == (0, "3 alive\n")
    code, _, err = await shoal("wait", "--members", "9", "--timeout", "0.05")
    assert code == 75
    assert "there are not 9 nodes alive after 0.05 s" in err
    err = (await shoal("wait", "--members", "1", "--matching", "a=1", "--timeout", "0.05"))[2]
    assert "there is no node matching 'a=1' alive after 0.05 s" in err


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


async def test_watch_says_what_became_different(shoal, backend, make_node, monkeypatch):
    def enough():
        raise Refused("enough")

    def with_labels(**changes):
        labels = {key: value for key, value in {**make_node(2).capabilities.labels, **changes}.items() if value != ""}
        return attrs.evolve(make_node(2), capabilities=NodeCapabilities(labels))

    results = []

    async def watch():
        results.append(await shoal("watch", "--vitals"))

    moved = attrs.evolve(with_labels(rack=8), addr="127.0.0.1:7009", schedulable=Schedulable.CORDONED)
    twin = attrs.evolve(make_node(7), name="n2", node_id="f" * 32)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await subscribed(backend)
        backend.change(with_labels(rack=7, tier="go\x1b[2Jld"))
        backend.change(with_labels(rack=8, cpu_count=True, arch=""))
        backend.change(with_labels(**{f"l{number}": number for number in range(20)}))
        backend.change(
            attrs.evolve(with_labels(rack=8), vitals=NodeVitals(load1_centi=150, ram_available_mb=2048)), "vitals"
        )
        backend.change(attrs.evolve(with_labels(rack=8), addr=moved.addr), "address")
        backend.change(moved, "schedule")
        backend.change(attrs.evolve(moved, generation=2), "replaced")
        backend.change(twin, "name-conflict", other=moved)
        backend.change(attrs.evolve(make_node(9), capabilities=None), "joined")
        backend.change(make_node(9))
        await trio.testing.wait_all_tasks_blocked(0.05)
        monkeypatch.setattr(backend, "now", enough)
        backend.change(make_node(3), "record")
    cells = [re.split(" {2,}", line) for line in results[0][1].splitlines()][3:]
    told = [line[5] if len(line) > 5 else "" for line in cells]
    assert told == [
        "+rack=7, +tier=go�[2Jld",
        "-arch, cpu_count 4 -> true, rack 7 -> 8, -tier",
        "+arch=amd64, cpu_count true -> 4, +l0=0, +l1=1, +l10=10, +l11=11, +l12=12, +l13=13 and 15 more",
        "load 1.50, 2.0G free",
        "was 127.0.0.1:7002",
        "schedulable yes -> cordoned",
        "generation 1 -> 2",
        "ffffffff, and 00000000 at 127.0.0.1:7009, have one name",
        "",
        "6 labels",
    ]


async def test_status_tells_of_joining_and_seeds(shoal, backend, monkeypatch):
    async def row(form="table", **facts):
        monkeypatch.setattr(backend, "status", lambda: {"name": "n1", **facts})
        rows = dict(line.split(maxsplit=1) for line in (await shoal("status", "-o", form))[1].splitlines())
        return rows.get("joined"), rows.get("seeds")

    assert await row(joined=True, seeds=["a:1", "b:2"]) == ("yes, 2 seeds", None)
    assert await row("wide", joined=True, seeds=["a:1"]) == ("yes, 1 seed", "a:1")
    assert await row(joined=False, seeds=["a:1", "b:2"]) == ("no, 2 seeds: a:1, b:2", None)
    assert await row(joined=False, seeds=[]) == ("no, and no seeds to join through", None)
    assert await row(joined=True, seeds=[]) == ("yes, without seeds", None)
    assert await row() == (None, None)


async def test_a_node_whose_udp_is_broken_is_marked(shoal, backend, make_node):
    backend.view = backend.view.replace(attrs.evolve(make_node(2), udp_broken=True))
    assert "udp broken" in (await shoal("members"))[1].splitlines()[2]
    assert "udp broken" in (await shoal("find"))[1]
    assert "udp_broken" in (await shoal("show", "n2"))[1]
    assert "udp_broken" not in (await shoal("show", "n3"))[1]
    rows = {
        row["name"]: row.get("udp_broken") for row in json.loads((await shoal("members", "-o", "json"))[1])["nodes"]
    }
    assert rows == {"n1": None, "n2": True, "n3": None}
    assert json.loads((await shoal("show", "n3", "-o", "json"))[1])["udp_broken"] is False


async def test_wrong_options_get_a_hint(shoal):
    code, out, err = await shoal("find", "--lmit", "3")
    assert (code, out) == (2, "")
    assert "did you mean --limit?" in err
    assert (await shoal("find", "--lim", "3"))[0] == 2
    assert (await shoal("find", "--limit", "0"))[0] == 2
    assert (await shoal("members", "-o", "xml"))[0] == 2
    assert (await shoal("labels", "set", "novalue"))[0] == 2

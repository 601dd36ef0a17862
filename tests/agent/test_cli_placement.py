"""The commands that place, explain, remember and cordon, against a served fake cluster: what an operator reads."""

import json

import attrs
import pytest
import trio
from shoal.agent import cli
from shoal.placement import Engines, NodeState, ResidentModel, Schedulable, View


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


def labelled(record, **labels):
    return attrs.evolve(record, capabilities=record.capabilities.with_labels(labels))


@pytest.fixture
def cluster(backend, make_node):
    """Three nodes that could run a model of 7b: one has no memory to spare, one has no ollama."""
    able = {"tool_git": True, "tool_ollama": True}
    nodes = [labelled(make_node(number), zone=zone, **able) for number, zone in ((1, "a"), (2, "b"), (3, "b"))]
    busy = attrs.evolve(nodes[1], vitals=attrs.evolve(nodes[1].vitals, ram_available_mb=900))
    backend.view = View.of([nodes[0], busy, labelled(nodes[2], tool_ollama=False)], here=backend.node_id)
    return backend


def words(text):
    return [line.split() for line in text.splitlines()]


# place


async def test_a_placement_is_read_at_a_glance(shoal, cluster, make_node):
    cluster.view = cluster.view.replace(labelled(make_node(3, load=900), tool_git=True, tool_ollama=True))
    code, out, err = await shoal("place", "--tool", "git", "--prefer", "ollama", "run a 7b model with ollama")
    assert (code, err) == (0, "")
    lines = words(out)
    assert lines[0] == ["NODE", "SCORE", "ADDRESS", "SEEN", "NOTE"]
    assert lines[1][0] == "n1"
    assert lines[1][-1] == "here"
    assert "asked for local-llm-inference; tools git, ollama; 4.0G of free memory; rather with ollama" in out
    assert "2 nodes fit; runner-up n3 with" in out
    assert "decided by the fit score" in out
    assert "3 nodes known, seen 1.0 s ago" in out


@pytest.mark.parametrize(
    ("form", "check"),
    [
        ("wide", lambda out: "seed" in out and f"{1:032x}" in out),
        ("json", lambda out: json.loads(out)["nodes"][0]["name"] == "n1"),
        ("jsonl", lambda out: json.loads(out)["name"] == "n1"),
        ("name", lambda out: out == "n1\n"),
    ],
)
async def test_a_placement_in_every_form(shoal, cluster, form, check):
    code, out, _ = await shoal("place", "ollama run it", "--prefer-local", "5", "-o", form)
    assert code == 0
    assert check(out)


async def test_a_placement_that_nearly_fits_says_what_to_change(shoal, cluster):
    code, out, err = await shoal("place", "--tool", "git", "run a 7b model with ollama", "--avoid", "n1")
    assert (code, out) == (3, "")
    assert err.startswith("shoal: nothing fits right now; what is known could, once what is in the way is gone\n")
    assert "n2  only free memory: needs 4 GiB, has 900 MiB, 3.1 GiB short (wait for memory to be freed there" in err
    assert "n3  only lacks ollama (install it there)" in err
    assert "n1  only left out by the call (leave out --avoid n1)" in err
    assert "without the required tools: 1 more node" in err


async def test_a_placement_that_never_fits_says_so(shoal, cluster):
    code, _, err = await shoal("place", "x", "--memory", "500GiB", "--require", "gpu_nvdia")
    assert code == 3
    assert "nothing that is known ever could: ask for less, or add a node" in err
    assert "hint: no known node has gpu_nvdia; did you mean gpu_nvidia?" in err
    assert ["gpu_nvdia", "3", "n1,", "n2,", "n3"] in words(err)
    code, out, err = await shoal("place", "x", "--memory", "500GiB", "-o", "json")
    assert (code, err, json.loads(out)["explanation"]["verdict"]) == (3, "", "infeasible")
    assert (await shoal("place", "x", "--memory", "500GiB", "-o", "name"))[:2] == (3, "")


async def test_a_set_that_cannot_be_made_says_why(shoal, cluster):
    code, _, err = await shoal("place", "--require", "zone=b", "x", "--count", "2", "--anti-affinity", "zone")
    assert code == 3
    assert err.startswith("shoal: 2 nodes fit, but there are not 2 together, no two with the same zone\n")
    assert "nodes that fit by zone\n  b  2" in err


async def test_a_set_of_nodes_is_a_table(shoal, cluster):
    code, out, _ = await shoal("place", "x", "--count", "2", "--spread", "zone")
    assert code == 0
    assert [line[0] for line in words(out)[1:3]].count("n1") == 1
    code, out, _ = await shoal("place", "x", "--count", "3", "-o", "name")
    assert sorted(out.split()) == ["n1", "n2", "n3"]


async def test_a_placement_is_explained_on_request_and_one_node_in_particular(shoal, cluster):
    code, out, _ = await shoal("place", "ollama run it", "--explain")
    assert code == 0
    for title in ("fit, best first", "why the first", "excluded by", "nearest", "against each"):
        assert f"\n{title}\n" in out
    code, out, _ = await shoal("place", "ollama run it", "--why-not", "n3")
    assert "\nn3 does not fit\n  lacks ollama\n" in out
    assert "n1 fits, in place" in (await shoal("place", "ollama run it", "--why-not", "n1"))[1]
    assert (await shoal("place", "x", "--why-not", "n33"))[0] == 3


async def test_a_fallback_that_was_taken_is_told(shoal, cluster):
    code, out, err = await shoal("find", "zone=c", "--fallback", "zone=d", "--fallback", "zone=a", "-o", "name")
    assert (code, out) == (0, "n1\n")
    assert err == "nothing meets the requirement itself: fallback 2 (zone=a) was taken\n"


async def test_a_dead_node_that_would_fit_is_named(shoal, cluster, make_node):
    cluster.view = cluster.view.replace(labelled(make_node(4, state=NodeState.DEAD), zone="c"))
    code, _, err = await shoal("find", "zone=c")
    assert code == 3
    assert "gone\n  n4  would fit, and is dead" in err


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--spread=", "options.spread.label"),
        ("--spread=:2", "options.spread.label"),
        ("--anti-affinity=", "options.anti_affinity.label"),
        ("--avoid=", "options.avoid[0]"),
        ("--tool=", "task.required_tools[0]"),
    ],
)
async def test_an_empty_name_is_refused_where_it_stands(shoal, cluster, option, place):
    code, out, err = await shoal("place", "x", "--count", "2", option)
    assert (code, out) == (2, "")
    assert err.startswith(f"shoal: argument {place}: expected a ")


async def test_errors_point_into_the_text_that_was_given(shoal, cluster):
    for arguments in (("--require", "zone>>1"), ("--prefer", "zone>>1"), ("--fallback", "zone>>1")):
        code, _, err = await shoal("place", "x", *arguments)
        lines = err.splitlines()
        assert code == 2
        assert lines[1:3] == ["  zone>>1", "      ^"]
    code, _, err = await shoal("place", "x", "--min-free-ram", "4 apples")
    assert (code, err.split(":")[1].strip()) == (2, "argument task.min_free_ram_mb")


async def test_warnings_go_to_standard_error(shoal, cluster):
    cluster.view = cluster.view.with_isolated(isolated=True)
    code, out, err = await shoal("place", "x", "--avoid", "n11", "-o", "name")
    assert (code, len(out.split())) == (0, 1)
    assert "n11" in err
    assert "hears nobody" in err


@pytest.mark.parametrize("option", ["--require=!zoone=a", "--prefer=zoone=a", "--fallback=zoone=a"])
@pytest.mark.parametrize("command", [("place", "x"), ("find",)])
async def test_a_likely_slip_is_told_though_something_fits(shoal, cluster, command, option):
    option = option.replace("!zoone=a", "!zoone")
    arguments = [option.partition("=")[2]] if command == ("find",) and "--require" in option else [option]
    code, out, err = await shoal(*command, *arguments, "-o", "name")
    assert (code, out != "") == (0, True)
    assert err == "warning: no known node has zoone; did you mean zone?\n"


@pytest.mark.parametrize(
    ("wish", "warning"),
    [
        ("mlxx", "no known node has mlxx; did you mean the backend mlx?"),
        ("5:mlx", "no known node has mlx; did you mean the backend mlx, without a weight?"),
        ("llama.cp", "no known node has llama.cp; did you mean the backend llama.cpp?"),
        ("xyzzyxyzzy", "no known node has xyzzyxyzzy"),
    ],
)
async def test_a_mistyped_backend_gets_the_nearest(shoal, cluster, wish, warning):
    code, _, err = await shoal("place", "x", f"--prefer={wish}", "-o", "name")
    assert (code, err) == (0, f"warning: {warning}\n")
    code, _, err = await shoal("place", "x", f"--prefer={wish}", "--require=xyzzy")
    assert (code, f"hint: {warning}\n" in err) == (3, True)


async def test_a_slip_that_leaves_nothing_is_told_once(shoal, cluster):
    for command in ("place", "find"):
        code, _, err = await shoal(command, "x" if command == "place" else "", "--avoid", "n11", "--spread", "zoone")
        assert code == 3
        assert err.count("n11") == 1
        assert err.count("no known node has zoone; did you mean zone?") == 1


# explain


async def test_explain_says_all_about_a_requirement(shoal, cluster, make_node):
    cluster.view = cluster.view.replace(attrs.evolve(make_node(4), schedulable=Schedulable.CORDONED))
    code, out, err = await shoal("explain", "zone=b")
    assert (code, err) == (0, "")
    assert out.startswith("2 nodes fit: n3, n2\n4 nodes known")
    assert "n4  requirement not met: zone=b (missing)" in out
    assert "n4  cordoned" in out
    code, out, _ = await shoal("explain", "zone=b", "n1")
    assert code == 3
    assert "n1 does not fit\n  requirement not met: zone=b (has a)" in out
    code, out, _ = await shoal("explain", "zone=c", "-o", "json")
    assert (code, json.loads(out)["explanation"]["verdict"]) == (3, "infeasible")
    assert (await shoal("explain", "zone>>1"))[0] == 2
    assert (await shoal("explain", ""))[0] == 0


async def test_names_of_others_cannot_move_the_cursor(shoal, cluster, make_node):
    evil = attrs.evolve(labelled(make_node(4), zone="\x1b[2J"), name="evil\x1b[2J\x07")
    cluster.view = cluster.view.replace(evil)
    for arguments in (
        ("place", "x", "--explain"),
        ("explain", "zone=q"),
        ("place", "x", "--count", "9", "--spread", "zone"),
        ("find", "zone=q"),
        ("fail", f"{4:032x}", "timeout"),
        ("history",),
    ):
        _, out, err = await shoal(*arguments)
        assert "\x1b" not in out + err
        assert "\x07" not in out + err


# Schedule and history


async def test_cordon_drain_and_uncordon(shoal, backend):
    assert await shoal("cordon") == (0, "n1 is cordoned: it gets no new work\n", "")
    assert await shoal("cordon", "n1") == (0, "n1 is cordoned: it gets no new work, as before\n", "")
    assert (await shoal("drain"))[1].startswith("n1 is draining")
    assert (await shoal("uncordon"))[1] == "n1 takes new work\n"
    code, out, err = await shoal("cordon", "n2")
    assert (code, out) == (5, "")
    assert "only its own agent changes its schedule" in err
    assert "run this on n2" in err


async def test_runs_and_failures_are_recorded_shown_and_lifted(shoal, cluster):
    task = ("run a 7b model with ollama", "--tool", "git")
    code, out, _ = await shoal("observe", "n1", *task, "--took", "90s", "--peak-ram", "6GiB")
    assert (code, out) == (0, "n1, local-llm-inference (ollama): 1 run, 90 s each, up to 6.0G of memory\n")
    assert (await shoal("observe", "n1", "--failed", *task))[1].endswith("the last one failed\n")
    code, out, _ = await shoal("fail", "n1", "exec-crash", task[0])
    assert out == "n1: local-llm-inference is kept away from it for 24 h (exec-crash, once)\n"
    assert (await shoal("fail", "n2", "timeout"))[1] == "n2: all work rather goes elsewhere for 24 h (timeout, once)\n"
    code, _, err = await shoal("place", *task)
    assert code == 3
    assert "n1  only exec-crash here lately, once: kept away for now (if that is mended: shoal override n1)" in err
    rows = words((await shoal("history"))[1])
    assert [row[:2] for row in rows[1:]] == [["n1", "failure"], ["n2", "failure"], ["n1", "run"]]
    assert [line.split()[1] for line in (await shoal("history", "n2"))[1].splitlines()[1:]] == ["failure"]
    assert (await shoal("override", "n1"))[1] == "n1: local-llm-inference may run there again\n"
    assert (await shoal("place", *task, "-o", "name"))[:2] == (0, "n1\n")
    assert (await shoal("override", "n1"))[0] == 3
    assert json.loads((await shoal("history", "-o", "json"))[1])["history"][0]["active"] is False
    for arguments in (
        ("observe", "n1"),
        ("fail", "n1"),
        ("fail", "n1", "crash"),
        ("observe", "n1", "x", "--took", "y"),
    ):
        assert (await shoal(*arguments))[0] == 2


async def test_json_of_what_was_recorded(shoal, cluster):
    assert json.loads((await shoal("observe", "n1", "x", "-o", "json"))[1])["observation"]["samples"] == 1
    assert json.loads((await shoal("fail", "n1", "timeout", "-o", "json"))[1])["failure"]["count"] == 1
    assert len(json.loads((await shoal("override", "n1", "-o", "json"))[1])["lifted"]) == 1


async def test_show_tells_what_engines_hold(shoal, backend, make_node):
    engines = Engines(ollama_running=True, models=(ResidentModel(name="qwen", engine="ollama", expires_at=1090.0),))
    backend.view = backend.view.replace(attrs.evolve(make_node(2), engines=engines))
    out = (await shoal("show", "n2"))[1]
    assert "engines\n  ollama_running  true\n" in out
    assert ["for_s", "90"] in words(out)
    assert json.loads((await shoal("show", "n2", "-o", "json"))[1])["engines"]["models"][0]["name"] == "qwen"

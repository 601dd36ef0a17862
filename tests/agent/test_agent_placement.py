"""Placement by whole agents inside this process: embedded, and through the blocking client."""

import threading

import pytest
import trio
from shoal.agent.client import Client
from shoal.agent.config import Config
from shoal.agent.embed import open_agent
from shoal.agent.errors import BadArgument, UnknownNode
from shoal.capabilities import RequirementSyntaxError
from shoal.placement import FailureClass, FailureScope, Options, Schedulable, Task, Verdict
from shoal.placement import UnknownNode as NotInView

LABELS = {"tool_git": True, "tool_ollama": True, "ram_mb": 16384, "zone": "a"}


@pytest.fixture
def config(tmp_path):
    return Config.of(
        {
            "node": {"name": "one", "state_dir": str(tmp_path / "state"), "leave_on_stop": False},
            "gossip": {"bind": "127.0.0.1:0", "profile": "local"},
            "api": {"socket": str(tmp_path / "one.sock"), "group": "no-such-group-here"},
            "detect": {"enabled": False},
            "labels": LABELS,
        }
    )


@pytest.fixture
def ask(config):
    """Use the blocking client in a thread, as another program would."""

    async def ask(use):
        def work():
            with Client(config.api.socket) as client:
                return use(client)

        with trio.fail_after(20):
            return await trio.to_thread.run_sync(work)

    return ask


async def test_an_embedded_agent_places_words_and_tasks(config):
    async with open_agent(config) as agent:
        decision = agent.place("run a 7b model with ollama")
        assert (decision.node.name, decision.is_local, decision.tool) == ("one", True, "ollama")
        assert agent.place(Task(required_tools=("docker",))).node is None
        assert agent.place(Task(), Options(count=2)).chosen == ()
        assert agent.place(Task(), seed=0).seed == 0
        assert len({agent.place(Task()).seed for _ in range(5)}) == 5
        assert max(agent.place(Task()).seed for _ in range(5)) < 1 << 53, "exact in JSON"


async def test_an_embedded_agent_explains_decisions_and_requirements(config):
    async with open_agent(config) as agent:
        told = agent.explain(agent.place(Task(required_tools=("docker",))), node="one")
        assert (told.verdict, told.why_not.rank) == (Verdict.INFEASIBLE, None)
        assert agent.explain("zone=a").verdict is Verdict.FITS
        assert [miss.text for miss in agent.explain("zone=b").near_misses] == ["only zone=b (has a)"]
        with pytest.raises(RequirementSyntaxError):
            agent.explain("zone>>1")
        with pytest.raises(NotInView):
            agent.explain("zone=a", node="two")


async def test_placements_work_from_any_thread(config):
    async with open_agent(config) as agent:
        found = []
        work = threading.Thread(target=lambda: found.append(agent.place("x").node.name))
        work.start()
        await trio.to_thread.run_sync(work.join)
        assert found == ["one"]


async def test_an_embedding_program_records_what_it_saw(config):
    task = Task(workload_class="go-build")
    async with open_agent(config) as agent:
        scope = FailureScope(node=agent.token[0], workload_class="go-build")
        agent.histories.fail(scope, FailureClass.EXEC_CRASH, 4e9)
        assert agent.place(task).node is None
    async with open_agent(config) as agent:
        assert agent.place(task).node is None, "it is kept"
        agent.histories.lift(scope)
        assert agent.place(task).ok


async def test_the_client_has_a_method_for_each_call(config, ask):
    async with open_agent(config):
        placed = await ask(lambda client: client.place("run a 7b model with ollama", explain="always"))
        assert (placed["nodes"][0]["name"], placed["explanation"]["verdict"]) == ("one", "fits")
        task = {"workload_class": "go-build", "required_tools": ["git"]}
        placed = await ask(lambda client: client.place(task, options={"count": 2}, policy={"rank": "exact"}))
        assert placed["ok"] is False
        seen = await ask(lambda client: client.observe("one", task, wall_ms=500, peak_ram_mb=100))
        assert (seen["wall_ms"], seen["peak_ram_mb"], seen["success"]) == (500, 100, True)
        held = await ask(lambda client: client.fail("one", "exec-crash", task, tool="git"))
        assert (held["blocking"], held["tool"]) == (True, "")
        assert not (await ask(lambda client: client.place(task)))["ok"]
        assert len(await ask(lambda client: client.history("one"))) == 3
        assert len(await ask(lambda client: client.override("one"))) == 2
        assert (await ask(lambda client: client.place(task)))["ok"]
        told = await ask(lambda client: client.explain("zone=b", node="one"))
        assert (told["verdict"], told["node"]["name"]) == ("infeasible", "one")
        assert (await ask(lambda client: client.explain(task=task)))["verdict"] == "fits"
        found = await ask(lambda client: client.find("zone=b", explain=True, options={"fallbacks": ["zone=c"]}))
        assert found["explanation"]["verdict"] == "infeasible"


async def test_the_client_raises_what_the_agent_refuses(config, ask):
    async with open_agent(config):
        for use, error in (
            (lambda client: client.place({"tools": []}), BadArgument),
            (lambda client: client.fail("two", "timeout"), UnknownNode),
            (lambda client: client.call("cordon", {"node": "two"}), UnknownNode),
        ):
            with pytest.raises(error):
                await ask(use)


async def test_a_cordoned_node_stays_so_over_a_restart_and_says_it(config, ask):
    async with open_agent(config) as agent:
        await ask(lambda client: client.cordon())
        assert agent.view.get(agent.token[0]).schedulable is Schedulable.CORDONED
        assert agent.find_suitable_nodes() == ()
    async with open_agent(config) as agent:
        assert agent.place("x").node is None
        assert (await ask(lambda client: client.status()))["schedulable"] == "cordoned"
        await ask(lambda client: client.drain())
        assert agent.view.get(agent.token[0]).schedulable is Schedulable.DRAINING
        await ask(lambda client: client.uncordon())
        assert agent.place("x").ok

"""Whole agents inside this process, on loopback: two clusters of one and two nodes."""

import contextlib
import shutil
import socket
import threading

import attrs
import pytest
import trio
from shoal.agent import assembly, backend, daemon
from shoal.agent.client import Client
from shoal.agent.config import Config
from shoal.agent.daemon import Agent
from shoal.agent.embed import EmbeddedAgent, open_agent
from shoal.agent.errors import AddressInUse, BadConfiguration, Refused, SocketInUse, StateInUse
from shoal.agent.remembered import remembered
from shoal.agent.state import StateDirectory
from shoal.agent.udp import bind_pair
from shoal.capabilities import RequirementSyntaxError
from shoal.gossip import Identity
from shoal.placement import NodeState
from structlog.testing import capture_logs


@pytest.fixture
def config(tmp_path):
    """A configuration of one agent on loopback, `name` being also that of its socket and state directory.

    It does not leave at the end unless told to: leaving others takes 2 s.
    """

    def config(name="one", *, seeds=(), labels=(), leave=False, bind="127.0.0.1:0"):
        return Config.of(
            {
                "node": {"name": name, "state_dir": str(tmp_path / f"{name}.state"), "leave_on_stop": leave},
                "gossip": {"bind": bind, "profile": "local", "seeds": list(seeds)},
                "api": {"socket": str(tmp_path / f"{name}.sock"), "group": "no-such-group-here"},
                "detect": {"enabled": False},
                "labels": dict(labels),
            }
        )

    return config


@pytest.fixture
def free(tmp_path):
    """Check that an agent of this name and address holds nothing any more."""

    def free(name, address):
        for sock in bind_pair(*address):
            getattr(sock, "sock", sock).close()
        StateDirectory(tmp_path / f"{name}.state").close()
        assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(f"{name}.sock")) == []

    return free


def seed(agent):
    host, port = agent.address
    return f"{host}:{port}"


class Crash(Exception):
    pass


# The block


async def test_the_agent_is_there_when_the_block_begins_and_gone_when_it_ends(config, tmp_path, free):
    async with open_agent(config(labels={"zone": "b"})) as agent:
        (node,) = agent.find_suitable_nodes("zone=b", limit=3)
        assert (node.name, node.addr) == ("one", seed(agent))
        assert agent.token == (node.node_id, node.generation)
        assert (agent.view.here, len(agent.view)) == (node.node_id, 1)
        answer = await trio.to_thread.run_sync(Client(str(tmp_path / "one.sock")).status)
        assert (answer["node_id"], answer["state_dir"]) == (node.node_id, str(tmp_path / "one.state"))
        held = agent.view
    free("one", agent.address)
    assert held.get(node.node_id) == node, "a view that was kept stays readable"


async def test_an_agent_without_a_configuration_needs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_API_SOCKET", str(tmp_path / "api.sock"))
    monkeypatch.setattr(daemon, "bind_pair", lambda _host, _port: bind_pair("127.0.0.1", 0))
    async with open_agent() as agent:
        (node,) = agent.find_suitable_nodes()
        assert node.capabilities.get("os") == "linux"
        assert node.name == socket.gethostname()


async def test_a_second_run_is_the_same_node_in_a_new_generation(config):
    async with open_agent(config()) as agent:
        first = agent.token
    async with open_agent(config()) as agent:
        second = agent.token
    assert first[0] == second[0]
    assert first[1] < second[1]


async def test_after_joined_the_others_are_known(config):
    async with open_agent(config("one")) as one, open_agent(config("two", seeds=[seed(one)])) as two:
        with trio.fail_after(20):
            await two.joined()
        assert {node.name for node in two.find_suitable_nodes()} == {"one", "two"}


async def test_what_the_body_raises_comes_out_as_it_is(config, free):
    cause, context = KeyError("cause"), Crash("body")
    with pytest.raises(Crash) as caught:
        async with open_agent(config()) as agent:
            raise context from cause
    assert caught.value is context
    assert context.__cause__ is cause
    assert not isinstance(context.__context__, BaseExceptionGroup)
    free("one", agent.address)


async def test_a_group_that_the_body_raises_comes_out_as_it_is(config):
    group = ExceptionGroup("of the body", [Crash()])
    with pytest.raises(ExceptionGroup) as caught:
        async with open_agent(config()):
            raise group
    assert (caught.value.message, caught.value.exceptions) == (group.message, group.exceptions)


async def test_a_body_that_returns_early_is_fine(config, free):
    async def body():
        async with open_agent(config()) as agent:
            return agent.address

    free("one", await body())


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_of_the_body_ends_the_agent_and_goes_on(config, free, interrupt):
    with pytest.raises(interrupt):
        async with open_agent(config()) as agent:
            raise interrupt
    free("one", agent.address)


def let_it_crash(agent):
    """Its sampler raises at its next turn."""

    def fail(*_args):
        raise Crash("of the agent")

    agent._agent.parts.sampler._sample = fail


async def test_a_crash_of_the_agent_cancels_the_body_and_is_raised_in_its_place(config, free):
    crashed = []

    async def body():
        async with open_agent(config()) as agent:
            let_it_crash(agent)
            try:
                with trio.fail_after(10):
                    await trio.sleep_forever()
            finally:
                crashed.append(agent)

    with pytest.raises(Crash, match="of the agent"):
        await body()
    free("one", crashed[0].address)


async def test_when_both_fail_both_are_told(config):
    with pytest.RaisesGroup(Crash, ZeroDivisionError):
        async with open_agent(config()) as agent:
            let_it_crash(agent)
            try:
                with trio.fail_after(10):
                    await trio.sleep_forever()
            finally:
                _ = 1 / 0


async def test_a_cancelled_block_ends_in_bounded_time(config, free, monkeypatch):
    monkeypatch.setattr(daemon, "LEAVE_SECONDS", 0.2)
    async with open_agent(config("other")) as other:
        with trio.move_on_after(60) as scope:
            async with open_agent(config(seeds=[seed(other)])) as agent:
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        free("one", agent.address)


async def test_a_block_that_is_cancelled_while_it_starts_ends_at_once(config, tmp_path, monkeypatch):
    """Detection may wait seconds for broken hardware."""
    waiting = threading.Event()

    def stuck(**_directories):
        waiting.wait(10)

    monkeypatch.setattr("shoal.agent.surveyor.survey.detect", stuck)
    with trio.fail_after(5), trio.move_on_after(0.1) as scope:
        async with open_agent(config()):
            pytest.fail("it cannot have begun")
    waiting.set()
    assert scope.cancelled_caught
    StateDirectory(tmp_path / "one.state").close()


async def test_an_agent_that_is_stopped_while_it_starts_ends_at_once(config, monkeypatch):
    waiting = threading.Event()
    monkeypatch.setattr("shoal.agent.surveyor.survey.detect", lambda **_directories: waiting.wait(10))
    agent = Agent(config())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.run)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(5):
            agent.stop()
            await agent.stopped.wait()
    waiting.set()


# Starts that fail


async def test_a_second_agent_is_turned_away_and_disturbs_nothing(config, tmp_path):
    async with open_agent(config()) as agent:
        before = agent.token
        with pytest.raises(SocketInUse):
            async with open_agent(config()):
                pytest.fail("it cannot have begun")
        other = config("two")
        taken = Config.of(
            {
                "node": {"name": "two", "state_dir": str(tmp_path / "two.state")},
                "gossip": {"bind": seed(agent)},
                "api": {"socket": other.api.socket},
            }
        )
        with pytest.raises(AddressInUse):
            Agent(taken)
        shared = Config.of(
            {
                "node": {"name": "two", "state_dir": str(tmp_path / "one.state")},
                "gossip": {"bind": "127.0.0.1:0"},
                "api": {"socket": other.api.socket},
            }
        )
        with pytest.raises(StateInUse):
            Agent(shared)
        assert agent.token == before
        status = await trio.to_thread.run_sync(Client(str(tmp_path / "one.sock")).status)
        assert status["members"]["alive"] == 1
        async with open_agent(other):
            """What those that failed had taken is free again."""


@pytest.mark.parametrize("part", ["advertised", "Node", "Surveyor"])
async def test_an_agent_that_cannot_be_put_together_holds_nothing(config, free, monkeypatch, part):
    bound = []

    def bind(host, port):
        udp, tcp = bind_pair(host, port)
        bound.append(udp.address)
        return udp, tcp

    def fail(*_args, **_named):
        raise Crash(part)

    monkeypatch.setattr(daemon, "bind_pair", bind)
    monkeypatch.setattr(assembly, part, fail)
    with pytest.raises(Crash) as caught:
        Agent(config())
    assert caught.tb, "held, so that what only the garbage collector would close stays open"
    free("one", bound[0])


async def test_labels_that_no_record_can_hold_are_a_configuration_error(config, free):
    labels = {f"label-{number}": "x" * 200 for number in range(100)}
    with pytest.raises(BadConfiguration, match=r"record: .* bytes on the wire") as caught:
        async with open_agent(config(labels=labels)):
            pytest.fail("it cannot have begun")
    assert caught.value.hint == "use fewer or shorter labels"


# Queries and changes


async def test_queries_work_from_any_thread(config):
    async with open_agent(config(labels={"zone": "b"})) as agent:

        def ask():
            found = agent.find_suitable_nodes("zone=b")
            return threading.current_thread().name, [(node.name, node.tier(0.0)) for node in found], len(agent.view)

        name, found, count = await trio.to_thread.run_sync(ask)
        assert name != threading.current_thread().name
        assert ([node for node, _ in found], count) == (["one"], 1)


async def test_queries_from_threads_meet_whole_views_while_it_changes(config):
    async with open_agent(config(labels={"round": 0})) as agent:
        done = threading.Event()
        seen = []

        def ask():
            while not done.is_set():
                seen.append(len(agent.find_suitable_nodes("round>=0")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ask)
            for number in range(40):
                agent.set_labels({"round": number})
                await trio.lowlevel.checkpoint()
            done.set()
        assert set(seen) == {1}


async def test_a_requirement_that_does_not_parse_is_told(config):
    async with open_agent(config()) as agent:
        with pytest.raises(RequirementSyntaxError):
            agent.find_suitable_nodes("gpu>=")


async def test_labels_are_set_in_the_view_at_once(config):
    async with open_agent(config()) as agent:
        agent.set_labels({"spot": True})
        assert [node.name for node in agent.find_suitable_nodes("spot")] == ["one"]
        with pytest.raises(Refused, match="bytes on the wire"):
            agent.set_labels({f"label-{number}": "x" * 200 for number in range(100)})
        assert [node.name for node in agent.find_suitable_nodes("spot, !label-1")] == ["one"]
    async with open_agent(config()) as agent:
        assert [node.name for node in agent.find_suitable_nodes("spot")] == ["one"]


async def next_of(changes, kind):
    with trio.fail_after(20):
        while (change := await changes.next_change()).kind != kind:
            pass
    return change


async def knows(agent, count):
    """Wait until the agent shows so many nodes alive, with their records."""
    with trio.fail_after(20), agent.changes() as changes:
        while len(agent.find_suitable_nodes("arch")) < count:
            await changes.next_change()


async def test_two_agents_see_each_other_come_change_and_go(config):
    async with open_agent(config()) as one:
        with one.changes() as changes:
            async with open_agent(config("two", seeds=[seed(one)], labels={"zone": "b"}, leave=True)) as two:
                await next_of(changes, "record")
                assert [node.name for node in one.find_suitable_nodes("zone=b")] == ["two"]
                await knows(two, 2)
                two.set_labels({"zone": "c"})
                await next_of(changes, "record")
                assert [node.name for node in one.find_suitable_nodes("zone=c")] == ["two"]
                token = two.token
            change = await next_of(changes, "left")
            assert (change.record.state, change.record.node_id) == (NodeState.LEFT, token[0])
            assert one.find_suitable_nodes("zone=c") == ()
            async with open_agent(config("two", seeds=[seed(one)])):
                change = await next_of(changes, "replaced")
                assert (change.record.state, change.record.node_id) == (NodeState.ALIVE, token[0])


async def test_a_cancelled_block_leaves_the_cluster(config):
    async with open_agent(config()) as one:
        with one.changes() as changes:
            with trio.move_on_after(60) as scope:
                async with open_agent(config("two", seeds=[seed(one)], leave=True)) as two:
                    await knows(two, 2)
                    scope.cancel()
                    await trio.sleep_forever()
            assert scope.cancelled_caught
            await next_of(changes, "left")


async def test_one_that_shall_not_leave_just_stops(config):
    async with open_agent(config()) as one:
        with one.changes() as changes:
            async with open_agent(config("two", seeds=[seed(one)])) as two:
                await knows(two, 2)
            assert one.view.get(two.token[0]).state is NodeState.ALIVE
            await next_of(changes, "failed")


async def test_join_counts_those_that_answered(config, monkeypatch):
    monkeypatch.setattr(backend, "JOIN_SECONDS", 0.3)
    async with open_agent(config()) as one, open_agent(config("two")) as two, open_agent(config("three")) as three:
        await three.join([one.address])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            assert await two.join([one.address, nobody.getsockname()]) == 1
        assert await two.join([("name.invalid", 7931)]) == 0
        monkeypatch.setattr(backend, "JOIN_SECONDS", 20)
        assert await two.join([one.address, three.address]) == 2


async def test_a_name_of_several_addresses_counts_once(config, monkeypatch):
    async with open_agent(config()) as one, open_agent(config("two")) as two, open_agent(config("three")) as three:
        names = {"both": (one.address, two.address), "one": (one.address, ("127.0.0.9", 9))}

        async def look_up(host, _port, **_how):
            return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", address) for address in names[host]]

        monkeypatch.setattr("trio.socket.getaddrinfo", look_up)
        with trio.fail_after(backend.JOIN_SECONDS):
            assert await three.join([("both", 1), ("one", 1)]) == 2, "without waiting for all of a name's addresses"


async def test_one_that_left_is_not_counted_as_joined(config, monkeypatch):
    async with open_agent(config()) as one:
        with one.changes() as changes:
            async with open_agent(config("two", leave=True)) as two:
                assert await two.join([one.address]) == 1
                await knows(one, 2)
            await next_of(changes, "left")
        monkeypatch.setattr(backend, "JOIN_SECONDS", 0.3)
        assert await one.join([two.address]) == 0


# What the agent asks of itself


async def test_a_leave_that_its_caller_gives_up_stops_the_agent_all_the_same(config):
    """A client that goes in the middle of `shoal leave` must not leave an agent behind that is no member any more."""
    async with open_agent(config()) as one:
        async with trio.open_nursery() as nursery:
            agent = Agent(config("two", seeds=[seed(one)]))
            await nursery.start(agent.run)
            await knows(EmbeddedAgent(agent), 2)
            with trio.move_on_after(0.1) as scope:
                await agent.backend.leave()
            assert scope.cancelled_caught
            with trio.fail_after(10):
                await agent.stopped.wait()
        assert one.view.get(agent.backend.node_id).state is NodeState.LEFT


async def test_a_new_identity_is_stored_and_shown(config, tmp_path):
    async with open_agent(config()) as agent:
        inner = agent._agent.parts.observer
        generation = agent.token[1] + 10
        with agent.changes() as changes:
            inner.identity(Identity(node_id=bytes.fromhex(agent.token[0]), generation=generation, boot_id=bytes(8)))
            assert changes.take().kind == "replaced", "runtimes learn that the token changed"
        assert agent.token[1] == generation
    async with open_agent(config()) as agent:
        assert agent.token[1] > generation


async def test_of_two_with_one_state_one_becomes_another_node(config, tmp_path, eventually):
    """A cloned machine: both have the same id, and neither knows of the other before they meet."""
    async with open_agent(config("two")) as two:
        cloned = two.token[0]
    shutil.copytree(tmp_path / "two.state", tmp_path / "clone.state")
    async with (
        open_agent(config()) as one,
        open_agent(config("two", seeds=[seed(one)])) as two,
        open_agent(config("clone", seeds=[seed(one)])) as clone,
    ):
        agents = (one, two, clone)

        def settled():
            ids = {agent.token[0] for agent in agents}
            alive = [{node.node_id for node in agent.find_suitable_nodes("arch")} for agent in agents]
            return len(ids) == 3 and alive == [ids] * 3

        await eventually(settled, 30)
        for agent in agents:
            here = agent.view.get(agent.view.here)
            assert (here.node_id, here.generation, here.addr) == (*agent.token, seed(agent))
        assert cloned in (two.token[0], clone.token[0]), "one of them keeps it"
        other = two if two.token[0] != cloned else clone
        new = other.token
    async with open_agent(config("two" if other is two else "clone")) as again:
        assert again.token[0] == new[0], "the new id is on disk"


async def test_a_disk_that_fails_while_running_ends_nobody(config, monkeypatch):
    async with open_agent(config()) as agent:
        (agent._agent.parts.state.path / ".identity.draft").mkdir()
        node_id, generation = agent.token
        new = Identity(node_id=bytes.fromhex(node_id), generation=generation + 1, boot_id=bytes(8))
        agent._agent.parts.observer.identity(new)
        assert agent.token == (node_id, generation + 1)


async def test_the_status_holds_what_the_sockets_refused(config, tmp_path, eventually):
    async with open_agent(config()) as agent, await trio.open_tcp_stream(*agent.address) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        await eventually(lambda: agent._agent.backend.status()["gossip"].get("streams: no frame") == 1)


async def test_a_cluster_that_went_down_as_a_whole_finds_itself_without_seeds(config, tmp_path):
    async with open_agent(config()) as one, open_agent(config("two", seeds=[seed(one)])) as two:
        await knows(two, 2)
    state = StateDirectory(tmp_path / "two.state")
    assert remembered(state) == (one.address,)
    state.close()
    async with open_agent(config("two")) as two, open_agent(config(bind=seed(one))) as one:
        await knows(two, 2)
        await knows(one, 2)


async def test_one_that_is_alone_does_not_forget_the_others(config, tmp_path):
    async with open_agent(config()) as one, open_agent(config("two", seeds=[seed(one)])) as two:
        await knows(two, 2)
    async with open_agent(config("two")):
        """Nobody is there."""
    state = StateDirectory(tmp_path / "two.state")
    assert remembered(state) == (one.address,)
    state.close()


async def test_nothing_of_an_agent_stays_open(config):
    import psutil

    process = psutil.Process()
    async with open_agent(config()):
        """The first one makes what the process keeps: threads, random sources."""
    before, threads = process.num_fds(), threading.active_count()
    for _ in range(6):
        with contextlib.suppress(Crash):
            async with open_agent(config()):
                raise Crash
    assert process.num_fds() <= before
    assert threading.active_count() <= threads + 3, "trio keeps a few idle threads for a while"


@pytest.mark.parametrize(("group", "warned"), [("no-such-group-here", True), ("", False), (None, False)])
async def test_a_group_that_was_asked_for_and_is_not_there_is_told(config, group, warned):
    chosen = config()
    origins = {name: origin for name, origin in chosen.origins.items() if name != "api.group" or group is not None}
    api = attrs.evolve(chosen.api, group="no-such-group-here" if group is None else group)
    with capture_logs() as logs:
        async with open_agent(attrs.evolve(chosen, api=api, origins=origins)):
            pass
    assert [entry["group"] for entry in logs if entry["event"] == "api.no_group"] == ([group] if warned else [])

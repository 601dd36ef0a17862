"""Agents that come back: from another address, all at once without seeds, or as two of one."""

import json
import shutil

import pytest
from network_lab import PORT

pytestmark = pytest.mark.root

# Spread time of the lan profile for up to 16 nodes: tick x (ceil(log4 N) + 1).
SPREAD = 0.2 * 3
# Two cores may be busy with other things: so much later than the protocol says is still in time.
SLACK = 1.0
# What a restart brings beside its one event: the new address, the record again, and perhaps a probe that missed.
BESIDE = {"address", "record", "schedule", "engines", "history", "suspected", "refuted"}


def alive(agents):
    return dict.fromkeys((agent.name for agent in agents), "alive")


def remembered(agent):
    """How many addresses of others it would start with."""
    peers = agent.state / "peers.json"
    return len(json.loads(peers.read_text())["value"]) if peers.exists() else 0


def test_a_restart_on_another_address_is_one_event_everywhere(spread_out, network, watch, throughout, eventually):
    """consul#733."""
    agents = *others, mover = spread_out("one", "two", "three", "four", "five", "mover", gossip={"profile": "lan"})
    before = mover.status()
    watching = [watch(agent) for agent in others]
    mover.kill()
    network.move(network.hosts["mover"])
    moved = network.hosts["mover"].address
    mover.configure(
        {
            "gossip": {
                "bind": moved,
                "allow_plaintext": True,
                "profile": "lan",
                "seeds": [network.hosts["one"].address],
            }
        }
    )
    mover.start().ready()
    node_id = mover.node_id
    assert node_id == before["node_id"]
    eventually(lambda: all(seen.at("replaced", node_id) for seen in watching), "that all see it")
    told = [seen.at("replaced", node_id)[0] for seen in watching]
    assert max(told) - min(told) < SPREAD + SLACK
    for agent in others:
        row = eventually(lambda agent=agent: (row := agent.rows()["mover"])["addr"] == moved and row, "its address")
        assert row["generation"] > before["generation"]
    eventually(lambda: all(agent.states() == alive(agents) for agent in agents), "everybody's life")
    throughout(3, lambda: not any("failed" in seen.kinds(node_id) for seen in watching), "its life")
    for seen in watching:
        assert [kind for kind in seen.kinds(node_id) if kind not in BESIDE] == ["replaced"]


def test_a_machine_that_gets_another_address_stays_the_same_life(spread_out, network, watch, throughout, eventually):
    """As after a new lease: bound to every address, it is told elsewhere under the same generation, by itself."""
    agents = *others, mover = spread_out("one", "two", "three", "mover", gossip={"profile": "lan"})
    mover.kill()
    everything = {"bind": f"0.0.0.0:{PORT}", "allow_plaintext": True, "profile": "lan"}
    mover.configure({"gossip": {**everything, "seeds": [network.hosts["one"].address]}})
    mover.start().ready()
    eventually(lambda: all(agent.states() == alive(agents) for agent in agents), "everybody's life")
    before = mover.status()
    watching = [watch(agent) for agent in others]
    network.move(network.hosts["mover"])
    moved = network.hosts["mover"].address
    for agent in others:
        eventually(lambda agent=agent: agent.rows()["mover"]["addr"] == moved, "its new address")
    eventually(lambda: all(agent.states() == alive(agents) for agent in agents), "everybody's life")
    throughout(3, lambda: not any("failed" in seen.kinds(mover.node_id) for seen in watching), "its life")
    assert all("replaced" not in seen.kinds(mover.node_id) for seen in watching)
    assert mover.status()["generation"] == before["generation"]
    assert mover.status()["addr"] == moved


def test_a_whole_cluster_comes_back_without_seeds(spread_out, network, throughout, eventually):
    names = ("one", "two", "three", "four", "five", "six")
    agents = spread_out(*names)
    before = {agent.name: agent.status() for agent in agents}
    # Three of five: whoever was killed soon after its start knows some, and they together all.
    eventually(lambda: all(remembered(agent) >= 3 for agent in agents), "addresses on all disks")
    for agent in agents:
        agent.kill()
    for agent in agents:
        agent.configure({"gossip": {"bind": network.hosts[agent.name].address, "allow_plaintext": True}})
        agent.start()
    for agent in agents:
        agent.ready()
    eventually(lambda: all(agent.states() == alive(agents) for agent in agents), "a full mesh")
    after = {agent.name: agent.status() for agent in agents}
    for name in names:
        assert after[name]["node_id"] == before[name]["node_id"]
        assert after[name]["generation"] > before[name]["generation"]
    throughout(3, lambda: all(agent.states() == alive(agents) for agent in agents), "the mesh")


def places(agent):
    """Who is alive where, and in which version, as it sees it."""
    return {
        name: (row["node_id"], row["addr"], row["generation"], row["incarnation"])
        for name, row in agent.rows().items()
        if row["state"] == "alive"
    }


def test_of_two_with_one_node_id_one_takes_another(spread_out, on_host, watch, throughout, eventually):
    """A copied state directory on the same kind of machine, whose copy starts beside the original."""
    agents = one, _, _, twin = spread_out("one", "two", "three", "twin")
    shared = twin.node_id
    clone = on_host("clone", gossip={"seeds": [one.address]})
    shutil.copytree(twin.state, clone.state)
    agents = (*agents, clone)
    watching = [watch(agent) for agent in agents[:-1]]
    clone.start().ready()
    eventually(lambda: twin.node_id != shared, "another id", 10)
    assert clone.node_id == shared, "it has the greater generation"

    def settled():
        shown = [places(agent) for agent in agents]
        wanted = {agent.name: (agent.node_id, agent.address) for agent in agents}
        return all(each == shown[0] for each in shown) and {n: row[:2] for n, row in shown[0].items()} == wanted

    eventually(settled, "five nodes, each at its place", 20)
    before = places(one)
    throughout(5, lambda: all(places(agent) == before for agent in agents), "peace")
    assert [agent.output().count("node.id_conflict") for agent in agents[:4]] == [0, 0, 0, 1]
    kinds = {
        agent.name: [event["event"] for event in seen.events] for agent, seen in zip(agents[:4], watching, strict=True)
    }
    assert kinds["twin"].count("conflict") == 1
    for name in ("one", "two", "three"):
        assert kinds[name].count("replaced") == 1, "the clone seems to be a restart"
        assert kinds[name].count("joined") == 1, "and the original a new node"
        assert "failed" not in kinds[name]

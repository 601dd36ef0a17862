"""Many agents that are killed and started again at once, and agents that were killed in the middle of a write."""

import pytest
from network_lab import PORT

COUNT = 16
# What a restart brings beside its one event: the new address, the record again, and perhaps a probe that missed.
BESIDE = {"address", "record", "schedule", "engines", "history", "suspected", "refuted"}


def alive(agents):
    return dict.fromkeys((agent.name for agent in agents), "alive")


def known(agent):
    """Who it is: node id and generation."""
    status = agent.status()
    return status["node_id"], status["generation"]


def shown(agent):
    return {name: (row["node_id"], row["generation"], row["state"]) for name, row in agent.rows().items()}


@pytest.fixture
def many(cluster):
    """A cluster whose agents keep their addresses when they are started again."""

    def many(count, profile):
        made = cluster(*(f"n{number:02}" for number in range(count)), profile=profile)
        seed = made[0].address
        for agent in made:
            agent.configure({"gossip": {"bind": agent.address, "seeds": [seed], "profile": profile}})
        return made

    return many


def again(agents):
    """Kill these at once, and start them at once."""
    for agent in agents:
        agent.process.kill()
    for agent in agents:
        agent.process.wait()
        agent.start()
    for agent in agents:
        agent.ready()


@pytest.fixture
def restarted(throughout, eventually):
    """Restarts all of them at once: the same nodes, each in a later generation, soon know all of each other again."""

    def restarted(agents):
        before = {agent.name: known(agent) for agent in agents}
        again(agents)
        after = {agent.name: known(agent) for agent in agents}
        for name, (node_id, generation) in before.items():
            assert after[name][0] == node_id
            assert after[name][1] > generation
        wanted = {name: (*who, "alive") for name, who in after.items()}
        eventually(lambda: all(shown(agent) == wanted for agent in agents), "one picture, of all")
        throughout(3, lambda: all(agent.states() == alive(agents) for agent in agents), "everybody's life")
        assert not any("Traceback" in agent.output() for agent in agents)

    return restarted


def test_a_cluster_that_is_restarted_at_once_is_the_same_cluster(many, restarted):
    restarted(many(COUNT, "lan"))


@pytest.mark.root
def test_64_agents_on_eight_hosts_that_are_restarted_at_once(network, on_host, restarted, eventually):
    """On 64 hosts the neighbours of all would be more than a kernel keeps for all namespaces together."""
    hosts = [network.host(f"host{number}") for number in range(8)]
    agents = []
    for number in range(64):
        host = hosts[number % len(hosts)]
        bind = f"{host.v4}:{PORT + number // len(hosts)}"
        gossip = {"bind": bind, "seeds": [hosts[0].address], "profile": "lan"}
        agents.append(on_host(f"n{number:02}", place=host.name, gossip=gossip).start())
    for agent in agents:
        agent.ready()
    eventually(lambda: all(agent.states() == alive(agents) for agent in agents), "the whole cluster")
    restarted(agents)


def test_who_stays_sees_one_replacement_of_each_of_the_others(many, watch, eventually):
    """The timings are so slow that a start is a moment."""
    stays, *others = agents = many(COUNT, "wan")
    ids = [agent.node_id for agent in others]
    seen = watch(stays)
    again(others)
    eventually(lambda: all("replaced" in seen.kinds(node_id) for node_id in ids), "that all are seen", 90)
    eventually(lambda: all(agent.states() == alive(agents) for agent in agents), "everybody's life", 90)
    for node_id in ids:
        assert [kind for kind in seen.kinds(node_id) if kind not in BESIDE] == ["replaced"]


@pytest.fixture
def pair(cluster, shoal, eventually):
    """Two agents that know each other from their disks alone, with everything there that one keeps."""
    one, two = cluster("one", "two")
    assert shoal("labels", "set", "zone=b", agent=two).returncode == 0
    assert shoal("cordon", agent=two).returncode == 0
    eventually(lambda: all((agent.state / "peers.json").exists() for agent in (one, two)), "addresses on both disks")
    for agent in (one, two):
        agent.configure({"gossip": {"bind": agent.address}})
    return one, two


def test_drafts_left_by_a_kill_are_no_damage(pair, eventually):
    """consul#3362: killed after each write that was begun, before any was in force."""
    one, two = pair
    node_id = two.node_id
    for share in (0.0, 0.5, 1.0):
        two.kill()
        kept = sorted(two.state.glob("*.json"))
        assert {"identity.json", "labels.json", "peers.json", "schedule.json"} <= {file.name for file in kept}
        for file in kept:
            data = file.read_bytes()
            file.with_name(f".{file.stem}.draft").write_bytes(data[: int(share * len(data))])
        two.start().ready()
        assert two.node_id == node_id
        assert two.call("labels_list")["labels"] == {"zone": "b"}
        assert two.status()["schedulable"] == "cordoned"
        assert "state.damaged" not in two.output()
        eventually(lambda: one.states() == two.states() == {"one": "alive", "two": "alive"}, "both, without seeds")


def test_a_snapshot_cut_short_costs_only_itself(pair, eventually):
    """consul#3362. Whoever still knows the address of the other finds it, for ever."""
    one, two = pair
    node_id = two.node_id
    for number, cut in enumerate((0, 1, 20, -1), 1):
        two.kill()
        peers = two.state / "peers.json"
        whole = peers.read_bytes()
        peers.write_bytes(whole[:cut])
        two.start().ready()
        assert (two.node_id, two.call("labels_list")["labels"]) == (node_id, {"zone": "b"})
        assert two.output().count("state.damaged") == number
        assert (two.state / "peers.damaged").read_bytes() == whole[:cut]
        eventually(lambda: one.states() == two.states() == {"one": "alive", "two": "alive"}, "both, without seeds")
        eventually(peers.exists, "the next snapshot")

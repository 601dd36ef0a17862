"""Clusters over IPv6, and of nodes that have both families and know each other by either."""

import pytest
from network_lab import PORT

pytestmark = pytest.mark.root

ANY = f"[::]:{PORT}"


def facts(agent):
    """What must be the same everywhere, and stay."""
    return {
        name: (row["node_id"], row["state"], row["addr"], row["generation"], row["incarnation"])
        for name, row in agent.rows().items()
    }


@pytest.fixture
def settled(throughout, eventually):
    """Waits until all show the same, with these addresses by name; and nothing moves any more."""

    def settled(agents, addresses):
        def agree():
            shown = [facts(agent) for agent in agents]
            return all(each == shown[0] for each in shown) and {n: (f[1], f[2]) for n, f in shown[0].items()} == {
                name: ("alive", address) for name, address in addresses.items()
            }

        eventually(agree, "one picture with one address for each")
        before = facts(agents[0])
        throughout(6, lambda: all(facts(agent) == before for agent in agents), "peace")

    return settled


def test_a_cluster_over_ipv6(network, on_host, settled):
    names = ("one", "two", "three", "four")
    hosts = {name: network.host(name, v4=False, v6=True) for name in names}
    gossip = {"seeds": [hosts["one"].address6]}
    agents = [on_host(name, gossip={**gossip, "bind": host.address6}).start() for name, host in hosts.items()]
    for agent in agents:
        agent.ready()
    settled(agents, {name: host.address6 for name, host in hosts.items()})


def test_nodes_of_both_families_are_one_each(network, on_host, settled, watch):
    """consul#529: whoever joins over which family; even one that reaches three only through the others."""
    names = ("one", "two", "three", "four", "five")
    hosts = {name: network.host(name, v6=name != "five") for name in names}
    one = hosts["one"]
    gossip = {
        "one": {"bind": ANY, "advertise": one.address},
        "two": {"bind": ANY, "seeds": [one.address]},
        "three": {"bind": ANY, "seeds": [one.address6]},
        "four": {"bind": ANY, "seeds": [f"[::ffff:{one.v4}]:{PORT}"]},
        "five": {"bind": hosts["five"].address, "seeds": [one.address]},
    }
    agents = [on_host(name, gossip=gossip[name]).start() for name in names]
    for agent in agents:
        agent.ready()
    watching = [watch(agent) for agent in agents]
    addresses = {name: host.address for name, host in hosts.items()} | {"three": hosts["three"].address6}
    settled(agents, addresses)
    told = {event["event"] for seen in watching for event in seen.events}
    assert told.isdisjoint({"failed", "left", "replaced"})

"""Neighbours that do not belong: of another cluster, or with another key. And a key that changes under loss."""

import contextlib

import pytest
from shoal.agent.errors import ShoalError
from shoal.gossip import key_id, key_text, parse_key

pytestmark = pytest.mark.root

OLD, NEW, OTHER = (key_text(bytes([number]) * 32) for number in (1, 2, 3))
REFUSED = "refused: wrong key or cluster"


@pytest.fixture
def key_file(directory):
    """Makes key files of mode 0600."""

    def key_file(name, key):
        path = directory / name
        path.write_text(f"{key}\n")
        path.chmod(0o600)
        return str(path)

    return key_file


@pytest.fixture(params=["another cluster", "another key"])
def ours_and_theirs(request, key_file):
    """The gossip settings of two neighbours that must not mix."""
    if request.param == "another cluster":
        return {}, {"cluster": "reef"}
    return {"key_file": key_file("ours.key", OLD)}, {"key_file": key_file("theirs.key", OTHER)}


def facts(agent):
    """What nobody else may change."""
    return {
        name: (row["node_id"], row["state"], row["addr"], row["generation"], row["incarnation"])
        for name, row in agent.rows().items()
    }


def host_of(agent):
    return agent.address.rpartition(":")[0]


def test_a_stranger_at_an_old_address_stays_one(spread_out, on_host, throughout, eventually, ours_and_theirs):
    """mimir#6187."""
    ours, theirs = ours_and_theirs
    *agents, gone = spread_out("one", "two", "three", "gone", gossip=ours)
    one, place = agents[0], host_of(gone)
    alive = {name: row for name, row in facts(one).items() if name != "gone"}
    gone.kill()
    friend = on_host("friend", gossip=theirs).start().ready()
    # It has a friend, and in its configuration still an address of ours.
    seeds = [friend.address, one.address]
    stranger = on_host("stranger", "gone", gossip={**theirs, "seeds": seeds}).start().ready()
    eventually(lambda: all(agent.states()["gone"] == "dead" for agent in agents), "the death of the one before")
    apart = {"stranger": "alive", "friend": "alive"}
    eventually(lambda: stranger.states() == friend.states() == apart, "their own cluster")
    before = facts(one)

    def refused(agent):
        return agent.status()["gossip"].get(REFUSED, 0)

    def asked_again():
        with contextlib.suppress(ShoalError):
            stranger.call("join", {"addresses": [one.address]}, timeout=0.3)
        return refused(one) > 2

    eventually(asked_again, "refusals here")
    # Our nodes ask at the old address, for ever, whether the one before is back.
    eventually(lambda: refused(stranger) > 2, "refusals there")
    throughout(3, lambda: stranger.states() == friend.states() == apart, "their own cluster")
    assert {name: row for name, row in before.items() if name != "gone"} == alive
    assert all(facts(agent) == before for agent in agents)
    for agent, sources in ((one, [place]), (stranger, map(host_of, agents))):
        lines = [line for line in agent.output().splitlines() if "packet.refused" in line]
        assert len(lines) == 1, "once a minute"
        assert any(f"source={source}:" in lines[0] for source in sources)


@pytest.fixture
def sealed(spread_out, key_file):
    """Makes a sealed cluster."""
    return lambda *names: spread_out(*names, gossip={"key_file": key_file("ours.key", OLD)})


@pytest.fixture
def rotate(shoal, key_file):
    """Rotates to the new key, from one agent."""
    return lambda agent: shoal("keys", "rotate", key_file("new.key", NEW), agent=agent)


def test_a_key_is_rotated_while_packets_get_lost(sealed, network, rotate, watch, eventually):
    names = ("one", "two", "three", "four", "five")
    agents = sealed(*names)
    watching = [watch(agent) for agent in agents]
    network.lose(0.05)
    done = rotate(agents[1])
    assert done.returncode == 0, done.stderr
    assert network.dropped
    new = key_id(parse_key(NEW))
    for agent in agents:
        eventually(lambda agent=agent: agent.status()["encryption"] == f"key {new}", "the new key")
    alive = dict.fromkeys(names, "alive")
    eventually(lambda: all(agent.states() == alive for agent in agents), "everybody's life")
    told = {event["event"] for seen in watching for event in seen.events}
    assert told.isdisjoint({"failed", "left", "replaced"})
    assert sum(agent.status()["gossip"].get(REFUSED, 0) for agent in agents) == 0

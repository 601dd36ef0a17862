"""Networks that lose packets, one way, both ways or only some, between real agents on hosts of their own."""

import time

import pytest

pytestmark = pytest.mark.root

# Of the local profile, in seconds.
PERIOD = 1.0
RETRY = 10.0
# Two cores may be busy with other things: so much later than the protocol says is still in time.
SLACK = 1.0
# Long enough for some probes of everybody by everybody, and for confirmed suspicions to end (3 s).
LONG = 15.0


def ids(agents):
    return {agent.name: agent.node_id for agent in agents}


def told(watching, kind):
    """Who was told by any of them to be so, with how often."""
    return [(event["node"]["name"], seen) for seen in watching for event in seen.events if event["event"] == kind]


def picture(agent):
    """All that has to become the same everywhere."""
    return {
        name: (row["node_id"], row["state"], row["addr"], row["generation"], row["incarnation"])
        for name, row in agent.rows().items()
    }


def same_everywhere(agents):
    pictures = [picture(agent) for agent in agents]
    return all(each == pictures[0] for each in pictures)


def labelled(agents, name, mark):
    """Whether all of them know this mark of that node."""
    return all(agent.rows()[name].get("labels", {}).get("mark") == mark for agent in agents)


def all_alive(agents):
    names = {agent.name for agent in agents}
    return all(agent.states() == dict.fromkeys(names, "alive") for agent in agents)


def test_loss_alone_fails_nobody(spread_out, network, watch, throughout, eventually):
    agents = spread_out("one", "two", "three", "four", "five", "six")
    watching = [watch(agent) for agent in agents]
    for loss, seconds in ((0.05, 15), (0.2, 30)):
        network.lose(loss)
        throughout(seconds, lambda: not told(watching, "failed"), "everybody's life")
        agents[1].call("labels_set", {"labels": {"mark": seconds}})
        eventually(lambda want=seconds: labelled(agents, "two", want), "a label everywhere, under loss", 20)
        eventually(lambda: all_alive(agents), "one view, under loss", 20)
        assert network.dropped > loss * seconds * len(agents), "at least a packet a second and agent"
    network.heal()
    eventually(lambda: all_alive(agents) and same_everywhere(agents), "one picture")
    assert told(watching, "failed") == told(watching, "left") == []


def test_a_node_that_udp_does_not_reach_lives_and_is_flagged(spread_out, network, watch, throughout, eventually):
    """serf#216."""
    agents = one, *_ = spread_out("one", "two", "three", "four")
    others, two = [agent for agent in agents if agent.name != "two"], ids(agents)["two"]
    watching = [watch(agent) for agent in others]
    began = time.time()
    network.cut_udp(["one", "three", "four"], ["two"])
    flagged = eventually(lambda: [at for seen in watching for at in seen.at("udp-broken", two)], "the flag")
    # Three periods, and the round of a probe that began at their end.
    assert min(flagged) - began < 4 * PERIOD + SLACK
    eventually(lambda: all(seen.at("udp-broken", two) for seen in watching), "the flag at all three")
    found = [finding for finding in one.call("doctor", {}, 60)["findings"] if "udp-broken" in finding["what"]]
    assert found, "the doctor says so"
    throughout(LONG - (time.time() - began), lambda: not told(watching, "failed"), "the life of two")
    assert told(watching, "failed") == []
    assert one.states()["two"] == "alive"
    network.heal()
    healed = time.time()
    eventually(lambda: all(seen.at("udp-works", two) for seen in watching), "the end of the flag")
    assert max(seen.at("udp-works", two)[0] for seen in watching) - healed < 7 * PERIOD + SLACK, "2N - 1 periods"
    eventually(lambda: all_alive(agents) and same_everywhere(agents), "one picture")


def test_a_way_that_is_closed_in_one_direction_fails_nobody(spread_out, network, watch, throughout, eventually):
    agents = spread_out("one", "two", "three", "four", "five")
    watching = [watch(agent) for agent in agents]
    network.cut_one_way((["one"], ["two"]))
    throughout(LONG, lambda: not told(watching, "failed"), "everybody's life")
    assert network.dropped > 10
    assert told(watching, "failed") == []
    agents[1].call("labels_set", {"labels": {"mark": 7}})
    eventually(lambda: labelled(agents, "two", 7), "news over the others")
    network.heal()
    eventually(lambda: all_alive(agents) and same_everywhere(agents), "one picture")


def test_who_is_deaf_mute_or_cut_off_fails_alone_and_comes_back(spread_out, network, watch, throughout, eventually):
    """antrea#4491. None can defend itself, so the others bury them; what they think of the others harms nobody."""
    healthy, sick = ["one", "two", "three", "four"], {"deaf", "mute", "lost"}
    agents = *others, deaf, _, lost = spread_out(*healthy, "deaf", "mute", "lost")
    watching = [watch(agent) for agent in others]
    network.cut_one_way(
        ([*healthy, "mute", "lost"], ["deaf"]),
        (["mute"], [*healthy, "lost"]),
        ([*healthy, "deaf"], ["lost"]),
        (["lost"], [*healthy, "mute"]),
    )
    seen = dict.fromkeys(healthy, "alive") | dict.fromkeys(sick, "dead")
    eventually(lambda: all(agent.states() == seen for agent in others), "the death of the sick ones")
    eventually(lambda: deaf.status()["isolated"] and lost.status()["isolated"], "that they notice")
    throughout(5, lambda: all(agent.states() == seen for agent in others), "the peace of the others")
    network.heal()
    healed = time.time()
    eventually(lambda: all_alive(agents), "their return")
    assert time.time() - healed < 2 * RETRY + SLACK
    assert {name for name, _ in told(watching, "failed")} == sick
    eventually(lambda: same_everywhere(agents), "one picture")
    assert not any(agent.status()["isolated"] for agent in agents)


def test_two_halves_become_one_cluster_again(spread_out, network, watch, throughout, eventually):
    """memberlist#222, foca#15."""
    left, right = ["one", "two", "three"], ["four", "five", "six"]
    agents = spread_out(*left, *right)
    sides = [(agents[:3], left, right), (agents[3:], right, left)]
    watching = [([watch(agent) for agent in here], names) for here, names, _ in sides]
    network.cut(left, right)
    for here, names, away in sides:
        halved = dict.fromkeys(names, "alive") | dict.fromkeys(away, "dead")
        eventually(lambda here=here, halved=halved: all(agent.states() == halved for agent in here), "two halves")
    agents[4].call("labels_set", {"labels": {"mark": 7}})
    throughout(3, lambda: not all_alive(agents), "the cut")
    network.heal()
    healed = time.time()
    eventually(lambda: all_alive(agents) and same_everywhere(agents), "one cluster")
    assert time.time() - healed < 30
    eventually(lambda: labelled(agents, "five", 7), "news from apart")
    for seen, names in watching:
        assert {name for name, _ in told(seen, "failed")}.isdisjoint(names), "no death within a side"

"""Agents that are stopped for a while and go on as if nothing had happened."""

import signal
import time

import pytest

pytestmark = pytest.mark.root

PERIOD = 1.0
# Two cores may be busy with other things: so much later than the protocol says is still in time.
SLACK = 1.0


def told(watching, kind):
    """Who was told by any of them to be so."""
    return {event["node"]["name"] for seen in watching for event in seen.events if event["event"] == kind}


def test_a_pause_of_three_seconds_fails_nobody_and_one_of_thirty_accuses_nobody(
    spread_out, watch, throughout, eventually
):
    """akka#30335."""
    agents = *others, frozen = spread_out("one", "two", "three", "four", "frozen")
    alive = dict.fromkeys((agent.name for agent in agents), "alive")
    node_id = frozen.node_id
    watching = [watch(agent) for agent in agents]

    frozen.send(signal.SIGSTOP)
    throughout(3, lambda: not told(watching, "failed"), "its life")
    frozen.send(signal.SIGCONT)
    eventually(lambda: all(agent.states() == alive for agent in agents), "that nobody doubts it")
    throughout(3, lambda: not told(watching, "failed"), "its life")
    assert told(watching, "suspected") <= {"frozen"}

    frozen.send(signal.SIGSTOP)
    throughout(30, lambda: told(watching, "failed") <= {"frozen"}, "the life of the others")
    assert all(agent.states()["frozen"] == "dead" for agent in others)
    frozen.send(signal.SIGCONT)
    thawed = time.time()
    eventually(lambda: all(agent.states() == alive for agent in agents), "its return")
    back = [max(seen.at("refuted", node_id)) for seen in watching[:-1]]
    assert max(back) - thawed < 2 * PERIOD + SLACK
    throughout(3, lambda: all(agent.states() == alive for agent in agents), "peace")
    assert told(watching, "failed") == told(watching, "suspected") == {"frozen"}
    assert told(watching[-1:], "suspected") == set(), "it accuses nobody"
    assert told(watching, "replaced") == set(), "it is still itself"

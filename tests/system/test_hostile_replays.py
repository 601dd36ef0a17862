"""Packets of the cluster's own, recorded on their way to a running agent and sent to it again: late, in another order,
cut short, with bits flipped, or with more behind. They come from the addresses of its peers.
"""

import random
import time

import psutil
import pytest
from packet_tape import Tape
from shoal.gossip import key_text

pytestmark = pytest.mark.root

KEY = key_text(bytes([7]) * 32)
NAMES = ("one", "two", "three", "four")
# What a first use of rarely used code may cost; a leak of a datagram's size each would be more.
GROWTH_BYTES = 4 << 20
PLAYED = 3000
# A source may send 250 packets a second that are whole; the peers need some of them.
PACE_SECONDS = 0.01
# Seconds: some probes of everybody by everybody.
CALM = 5.0


@pytest.fixture(params=["plain", "sealed"])
def gossip(request, directory):
    if request.param == "plain":
        return {}
    path = directory / "our.key"
    path.touch(0o600)
    path.write_text(KEY)
    return {"key_file": str(path)}


def facts(agents):
    """What must not change, as each of them sees it."""
    return [
        {
            name: (row["node_id"], row["state"], row["addr"], row["generation"], row["incarnation"], row.get("labels"))
            for name, row in agent.rows().items()
        }
        for agent in agents
    ]


def settled(agents):
    seen = facts(agents)
    return all(each == seen[0] for each in seen) and {fact[1] for fact in seen[0].values()} == {"alive"}


def memory(agent):
    return psutil.Process(agent.process.pid).memory_info().rss


def gossip_counters(agent):
    return agent.status()["gossip"]


def refused(agent):
    return sum(count for what, count in gossip_counters(agent).items() if what.startswith(("refused", "malformed")))


@pytest.fixture
def recorded(spread_out, network, gossip, eventually):
    """A cluster at rest whose past is on a tape: labels that were changed, a death, a return, and a leave."""
    agents = one, two, three, four = spread_out(*NAMES, gossip=gossip)
    with Tape(network.switch, "one") as tape:
        for mark, agent in enumerate((two, three, four) * 3):
            agent.call("labels_set", {"labels": {"mark": mark}})
            eventually(lambda a=agent, m=mark: one.rows()[a.name]["labels"].get("mark") == m, "the label")
        three.kill()
        assert four.stop() == 0
        eventually(
            lambda: one.states() == two.states() == dict(zip(NAMES, ("alive", "alive", "dead", "left"), strict=True))
        )
        for agent in (three, four):
            agent.start().ready()
        eventually(lambda: settled(agents), "everybody again")
        until = time.monotonic() + CALM
        eventually(lambda: time.monotonic() > until, "calm")
        tape.stop()
        assert len(tape.frames) > 30
        yield agents, tape


def damages(chance):
    def flip(payload):
        flipped = bytearray(payload)
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(8 * len(flipped))
            flipped[place // 8] ^= 1 << place % 8
        # Two flips of one bit are none.
        return bytes(flipped) if flipped != payload else payload[1:]

    return {
        "cut": lambda payload: payload[: chance.randrange(len(payload))],
        "flipped": flip,
        "longer": lambda payload: payload + chance.randbytes(chance.randrange(1, 1400 - len(payload))),
        "twice": lambda payload: (2 * payload)[:1400],
        "without its head": lambda payload: payload[chance.randrange(1, len(payload)) :],
    }


def replayed(agents, tape, chance):
    """Play the tape again as it is: in its order, backwards, and mixed."""
    one = agents[0]
    counted, played = gossip_counters(one).get("refused: replayed", 0), 0
    for order in (list(tape.frames), tape.frames[::-1], chance.choices(tape.frames, k=PLAYED // 2)):
        for frame in order:
            tape.play(bytes, frame)
            played += 1
            time.sleep(PACE_SECONDS)
    if one.status()["encryption"]:
        assert gossip_counters(one)["refused: replayed"] - counted > 0.95 * played


def damaged(agents, tape, chance, count, eventually):
    """Play frames of the tape, each damaged in some way; all are counted."""
    one, counted = agents[0], refused(agents[0])
    kinds = list(damages(chance).values())
    frames = [frame for frame in tape.frames if len(frame) < 1300]
    for number in range(count):
        tape.play(kinds[number % len(kinds)], chance.choice(frames))
        if number % 50 == 0:
            one.status()
    eventually(lambda: refused(one) - counted > 0.95 * count, "all that was refused")


def test_what_was_said_once_says_nothing_new_and_damaged_it_says_nothing(recorded, watch, throughout, eventually):
    agents, tape = recorded
    one, chance = agents[0], random.Random(6)
    watching = [watch(agent) for agent in agents]
    before = facts(agents)
    damaged(agents, tape, chance, PLAYED // 3, eventually)
    held = memory(one)
    damaged(agents, tape, chance, PLAYED, eventually)
    replayed(agents, tape, chance)
    throughout(CALM, lambda: facts(agents) == before, "what they knew")
    assert memory(one) - held < GROWTH_BYTES
    told = {event["event"] for seen in watching for event in seen.events}
    assert told.isdisjoint({"failed", "left", "replaced", "joined", "refuted", "suspected"}), told
    assert "Traceback" not in one.output()
    # And it is as ready for news as before.
    agents[1].call("labels_set", {"labels": {"mark": "new"}})
    eventually(lambda: one.rows()["two"]["labels"].get("mark") == "new", "news")

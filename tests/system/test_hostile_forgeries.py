"""memberlist#371: datagrams with a forged source, from a machine that has no agent, do not make ours shout at it."""

import random
import time

import pytest
from network_lab import PORT
from packet_tape import HEADERS, Tape
from shoal.gossip import Rank, wire
from shoal.gossip.frames import PlainFrames
from shoal.gossip.items import pack_row
from shoal.gossip.member import Claim
from shoal.gossip.messages import Row, Speaker

pytestmark = pytest.mark.root

FORGED = 600
# Long enough for everybody to probe everybody several times, were the victim believed to be a member.
AFTERWARDS = 10.0
FRAMES = PlainFrames("shoal")
NAMES = ("one", "two", "three", "four")


@pytest.fixture
def victim(network):
    """An address that answers nothing, not even that the port is closed."""
    network.drop_where('iifname "victim" meta l4proto { icmp, udp, tcp } drop')
    return network.host("victim")


def forgeries(agent, victim, chance):
    """What anybody can say who knows no more than the cluster's name, and one node's id."""
    status = agent.status()
    target, generation = bytes.fromhex(status["node_id"]), status["generation"]
    place = (victim.v4, PORT)
    while True:
        speaker = Speaker(chance.randbytes(16), generation, 0)
        opening = wire.opening(wire.PING, chance.getrandbits(64), speaker, 0, (0, bytes(8), 1, 0, 1))
        yield opening + wire.aim(target, generation, Rank.ALIVE, 0)
        yield opening + wire.aim(chance.randbytes(16), generation, Rank.ALIVE, 0)
        rows = [pack_row(Row(Claim(chance.randbytes(16), 1, 0, Rank.ALIVE, place))) for _ in range(12)]
        yield wire.message(wire.GOSSIP, speaker, rows)
        yield wire.ping_request(chance.getrandbits(64), speaker, (chance.randbytes(16), generation, 500), place)
        yield wire.message(wire.SYNC, speaker, rows)


def test_a_forged_source_gets_no_more_than_was_sent_in_its_name(spread_out, network, victim, eventually):
    agents = one, *_ = spread_out(*NAMES)
    before = one.rows()
    with Tape(network.switch, "one") as way_in, Tape(network.switch, "victim") as heard:
        eventually(lambda: any(frame for frame in way_in.frames), "a packet to begin with")
        way_in.stop()
        frame = with_source(way_in.frames[0], victim.v4)
        received = 0
        for payload, _ in zip(forgeries(one, victim, random.Random(11)), range(FORGED), strict=False):
            data = FRAMES.wrap(payload)
            way_in.play(lambda _old, data=data: data, frame)
            received += HEADERS + len(data)
            time.sleep(0.005)
        until = time.monotonic() + AFTERWARDS
        eventually(lambda: time.monotonic() > until, "the rest")
        heard.stop()
        sent = sum(len(frame) for frame in heard.frames)
    assert one.status()["gossip"].get("packets of strangers", 0) > FORGED / 4, "they arrived"
    assert sent <= received
    assert len(heard.frames) <= FORGED
    assert {name: row["state"] for name, row in one.rows().items()} == dict.fromkeys(NAMES, "alive")
    assert [agent.states() for agent in agents] == [dict.fromkeys(before, "alive")] * len(NAMES), "nobody joined"


def with_source(frame, host):
    """The same frame from another address. Its checksums are made when it is played."""
    return frame[:26] + bytes(map(int, host.split("."))) + frame[30:]

import time

import attrs
import pytest
from shoal.agent.doctor import OK, PROBLEM, WARNING, Facts, PeerFacts, Refusal, diagnose
from shoal.agent.examine import refusals
from shoal.agent.key_facts import KeyFacts, RingFacts
from shoal.gossip import Note

NOW = 1_800_000_000.0
STARTED = int(NOW * 1000) - 5000


def peer(name, **facts):
    given = {
        "addr": f"10.0.0.{len(name)}:7931",
        "generation": STARTED,
        "version": "1.10.0",
        "udp": True,
        "udp_full": True,
    }
    return PeerFacts(name=name, **{**given, **facts})


WELL = Facts(
    unix=NOW, name="here", version="1.10.0", generation=STARTED, bound="127.0.0.1:7931", loopback=True,
    state_dir="/var/lib/shoal", seeds=("a:1",), peers=(peer("a"), peer("bb"), peer("ccc")),
)  # fmt: skip


def ring(have=4, target="", used="11111111"):
    key = KeyFacts(id=used, in_use=True, have=have, using=have, lacking=(), dead_lacking=())
    return RingFacts(in_use=used, target=target, members=4, dead=(), stored=True, keys=(key,))


def wrong(**changes):
    found = [finding for finding in diagnose(attrs.evolve(WELL, **changes)) if finding.level != OK]
    assert all(finding.todo for finding in found), "whatever is wrong, something can be done"
    return [(finding.check, finding.level) for finding in found], " | ".join(finding.what for finding in found)


def test_a_well_node_has_a_line_for_every_check_and_nothing_to_do():
    found = diagnose(WELL)
    assert len({finding.check for finding in found}) == len(found) == 11
    assert {(finding.level, finding.todo) for finding in found} == {(OK, "")}


@pytest.mark.parametrize(
    ("changes", "check", "level", "says"),
    [
        ({"isolated": True}, "membership", PROBLEM, "hears nobody"),
        ({"seeds": (), "peers": ()}, "membership", WARNING, "alone and has no seeds"),
        ({"joined": False, "peers": ()}, "membership", PROBLEM, "no seed answered: a:1"),
        ({"health": 6}, "membership", WARNING, "health 6 of 8"),
        ({"unresolved": {"a:1": "no such name"}}, "seeds", PROBLEM, "the seed a:1 does not resolve: no such name"),
        ({"peers": (peer("a", udp=False, tcp=True), peer("b"))}, "udp", PROBLEM, "(udp-broken): a at"),
        ({"peers": (peer("a", udp=None, udp_broken=True), peer("b"))}, "udp", PROBLEM, "(udp-broken): a at"),
        ({"peers": (peer("a", udp=False, tcp=False), peer("b"))}, "udp", PROBLEM, "neither UDP nor TCP answers: a at"),
        ({"peers": (peer("a", udp_full=False), peer("b"))}, "mtu", PROBLEM, "1200 bytes do not: a at"),
        ({"loopback": False}, "encryption", WARNING, "not encrypted"),
        (
            {"ring": ring(3), "file_keys": ("11111111",)},
            "encryption",
            WARNING,
            "1 of 4 nodes are not known to have key",
        ),
        ({"ring": ring(target="2" * 8), "file_keys": ("1" * 8,)}, "encryption", WARNING, "rotation to key 22222222"),
        ({"ring": ring(), "file_keys": ("3" * 8,)}, "encryption", WARNING, "the key file does not hold key 11111111"),
        ({"peers": (peer("here"), peer("b"))}, "names", WARNING, "2 nodes are called here"),
        ({"state_warnings": (("state.copied", {"from_machine": "m"}),)}, "identity", WARNING, "another machine (m)"),
        ({"conflicts": ("two processes had it",)}, "identity", PROBLEM, "two processes had it"),
        ({"state_dir": ""}, "state", WARNING, "no state directory"),
        ({"state_warnings": (("state.damaged", {"file": "f", "why": "w"}),)}, "state", PROBLEM, "f was damaged (w)"),
        ({"peers": (peer("a", generation=STARTED + 10**6), peer("b"), peer("c"))}, "clock", WARNING, "ahead, or was"),
        ({"unix": NOW - 86400}, "clock", WARNING, "this machine is behind: 3 nodes started up to 86395 s ahead"),
        ({"generation": STARTED + 10**6}, "clock", WARNING, "behind the start of this node"),
        ({"peers": (peer("a", version="1.9.2"), peer("b"))}, "versions", WARNING, "older than 1.10.0: a (1.9.2)"),
        ({"peers": (peer("a", version="1.11.0"), peer("b", version="1.11.0"))}, "versions", WARNING, "others 1.11.0"),
    ],
)
def test_each_trouble_is_found_by_one_check(changes, check, level, says):
    found, what = wrong(**changes)
    assert found == [(check, level)]
    assert says in what


@pytest.mark.parametrize("reason", ["wrong key or cluster: x", "frame version: x", "frame magic: x"])
def test_refused_packets_name_their_source_and_are_forgotten_after_a_while(reason):
    found, what = wrong(refusals=(Refusal(reason=reason, source="10.0.0.9:1", age_s=30.0),))
    assert found == [("packets", PROBLEM)]
    assert "from 10.0.0.9:1 30 s ago" in what
    assert wrong(refusals=(Refusal(reason=reason, source="10.0.0.9:1", age_s=3600.0),)) == ([], "")


def test_everybody_that_a_note_names_is_told_of(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW)
    told = [
        (NOW - 90, Note("packet.refused", {"source": "10.0.0.7:1", "reason": "x", "packets": 1})),
        (NOW - 60, Note("identity.doubted", {"generation": 1})),
        (
            NOW - 30,
            Note("packet.refused", {"source": "10.0.0.8:1", "reason": "y", "others": "10.0.0.7:2, [fd00::9]:3"}),
        ),
    ]
    found = [(refusal.source, refusal.reason, refusal.age_s) for refusal in refusals(told)]
    assert found == [("10.0.0.8:1", "y", 30.0), ("10.0.0.7:2", "y", 30.0), ("[fd00::9]:3", "y", 30.0)]


def test_a_peer_that_was_not_asked_is_no_trouble():
    assert wrong(peers=(peer("a", udp=None, udp_full=None), peer("b", version=None))) == ([], "")

"""Rings of several agents that tell each other by hand."""

import json
from random import Random

import pytest
from shoal.agent.errors import BadConfiguration, Refused, StateUnusable
from shoal.agent.key_document import MOST_REMOVED, Document, Report
from shoal.agent.key_source import ring_of
from shoal.agent.keys import Keys
from shoal.agent.payloads import PayloadError
from shoal.agent.state import StateDirectory
from shoal.gossip import KeyRing, Member, Section, State, key_id, key_text
from shoal.gossip.items import digest_of
from shoal.gossip.member import SectionKind

KEYS = [bytes([number]) * 32 for number in range(1, 12)]
OLD, NEW, OTHER = KEYS[:3]


class Cluster:
    """Nodes by one byte; `spread` brings everybody's section to everybody that runs."""

    def __init__(self):
        self.nodes, self.sections, self.states = {}, {}, {}

    def add(self, number, *keys, state=None):
        def publish(payload):
            held = self.sections.get(number)
            if held is None or held.payload != payload:
                version = 1 if held is None else held.version + 1
                self.sections[number] = Section(1, version, digest_of(payload), payload)

        node = Keys(
            KeyRing.of(keys or (OLD,)), "shoal", Random(number), state=state,
            here=lambda: bytes([number]) * 16, members=self.members, publish=publish,
        )  # fmt: skip
        self.nodes[number], self.states[number] = node, State.ALIVE
        node.tell()
        return node

    def members(self):
        for number in self.nodes:
            sections = {SectionKind.KEYS: self.sections[number]}
            yield Member(
                node_id=bytes([number]) * 16, generation=1, incarnation=0, address=("10.0.0.1", number),
                state=self.states[number], since=0.0, sections=sections, vitals=None, vitals_at=None, udp_broken=False,
            )  # fmt: skip

    def spread(self):
        for _ in range(4):
            for number, node in self.nodes.items():
                if self.states[number] is State.ALIVE:
                    for member in list(self.members()):
                        node.heard(member)
                    node.tell()

    def rings(self):
        """Everybody's ring when all news has spread and removed keys have had their time."""
        self.spread()
        for node in self.nodes.values():
            node.drop()
        self.spread()
        return [node.ring.keys for node in self.nodes.values()]


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def state(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    yield directory
    directory.close()


def facts(node):
    return {key.id: (key.have, key.using) for key in node.facts().keys}


def test_a_rotation_step_by_step_reaches_everybody(cluster):
    one, two, three = (cluster.add(number) for number in (1, 2, 3))
    assert one.rotate(key_text(NEW), None) == key_id(NEW)
    assert one.facts().target == key_id(NEW)
    with pytest.raises(Refused, match="2 of the nodes do not have key"):
        one.use(key_id(NEW))
    assert cluster.rings() == [(OLD, NEW)] * 3
    two.use(key_id(NEW))
    assert cluster.rings() == [(NEW, OLD)] * 3
    three.remove(key_id(OLD))
    assert cluster.rings() == [(NEW,)] * 3
    assert one.facts().target == ""
    assert facts(two) == {key_id(NEW): (3, 3)}


def test_a_removed_key_opens_frames_a_while_longer_and_is_reported_until_then(cluster):
    one, two = cluster.add(1), cluster.add(2)
    one.install(key_text(NEW))
    cluster.spread()
    one.use(key_id(NEW))
    # Two has not heard of it: one hears the old key, and answers two in it for as long as it hears nothing newer.
    here, there = ("10.0.0.1", 1), ("10.0.0.2", 2)
    assert one.seal.unwrap(two.seal.wrap(b"ping"), there) == b"ping"
    two.heard(next(cluster.members()))
    late = one.seal.wrap(b"sealed with the old key", there)
    two.remove(key_id(OLD), force=True)
    assert two.ring.keys == (NEW, OLD)
    assert two.seal.unwrap(late, here) == b"sealed with the old key"
    assert facts(two)[key_id(OLD)][0] == 2, "not gone before it is gone"
    two.remove(key_id(OLD))
    two.install(key_text(OTHER))
    assert cluster.rings() == [(NEW, OTHER)] * 2, "what lingers does not come back with the next change"


def test_a_rotation_is_resumed_anywhere_and_another_is_refused_meanwhile(cluster):
    one, two = cluster.add(1), cluster.add(2)
    with pytest.raises(Refused, match="no rotation is under way"):
        one.rotate(None, None)
    one.rotate(key_text(NEW), None)
    cluster.spread()
    assert two.rotate(None, None) == two.rotate(key_text(NEW), None) == key_id(NEW)
    with pytest.raises(Refused, match="a rotation to key"):
        two.rotate(key_text(OTHER), None)
    two.remove(key_id(NEW))
    assert cluster.rings() == [(OLD,)] * 2
    assert one.rotate(key_text(OTHER), None) == key_id(OTHER)


def test_a_rotation_to_the_only_key_there_is_is_over_at_once(cluster):
    one, two = cluster.add(1), cluster.add(2)
    assert one.rotate(key_text(OLD), None) == key_id(OLD)
    cluster.spread()
    assert one.facts().target == two.facts().target == ""
    with pytest.raises(Refused, match="no rotation is under way"):
        two.rotate(None, None)
    two.install(key_text(OTHER))
    cluster.spread()
    assert one.facts().target == "", "and does not begin again with another key"
    assert one.rotate(key_text(NEW), None) == two.rotate(key_text(NEW), None) == key_id(NEW)


def test_a_rotation_to_the_only_key_here_goes_on_while_others_have_another(cluster):
    one, two = cluster.add(1, NEW), cluster.add(2, NEW, OLD)
    cluster.spread()
    one.rotate(key_text(NEW), None)
    cluster.spread()
    assert one.facts().target == two.facts().target == key_id(NEW)
    one.remove(key_id(OLD))
    assert cluster.rings() == [(NEW,)] * 2
    assert one.facts().target == two.facts().target == ""


def test_a_key_stays_while_somebody_who_is_down_lacks_its_successor(cluster):
    one, _two = cluster.add(1), cluster.add(2)
    cluster.states[2] = State.DEAD
    one.rotate(key_text(NEW), None)
    one.use(key_id(NEW))
    with pytest.raises(Refused, match="1 of the nodes are down without key"):
        one.remove(key_id(OLD))
    cluster.states[2] = State.ALIVE
    cluster.spread()
    one.remove(key_id(OLD))
    assert cluster.rings() == [(NEW,)] * 2


def test_whoever_is_left_carries_the_ring_when_its_issuer_is_gone(cluster):
    cluster.add(1).install(key_text(NEW))
    cluster.add(2)
    cluster.add(3)
    cluster.spread()
    carriers = [n for n in (1, 2, 3) if Report.decode(cluster.sections[n].payload).document is not None]
    assert carriers == [1]
    cluster.states[1] = State.DEAD
    cluster.sections[1] = Section(1, 9, b"", b"\xc1")  # reaped: its section is no more
    cluster.spread()
    carriers = [n for n in (2, 3) if Report.decode(cluster.sections[n].payload).document is not None]
    assert carriers == [2]
    assert cluster.add(4).ring.keys == (OLD,)
    cluster.spread()
    assert cluster.nodes[4].ring.keys == (OLD, NEW)


def test_a_key_installed_here_never_travels(cluster):
    one, two = cluster.add(1), cluster.add(2)
    for node in (one, two):
        node.install(key_text(NEW), everywhere=False)
    cluster.spread()
    one.use(key_id(NEW))
    assert cluster.rings() == [(NEW, OLD)] * 2
    one.remove(key_id(OLD))
    assert cluster.rings() == [(NEW,)] * 2
    assert all(NEW not in section.payload for section in cluster.sections.values())


def test_a_key_that_only_another_nodes_file_holds_is_removed_there(cluster):
    one, two = cluster.add(1), cluster.add(2, OLD, OTHER)
    cluster.spread()
    assert facts(one)[key_id(OTHER)] == (1, 0)
    one.remove(key_id(OTHER))
    one.remove(key_id(OTHER))
    assert cluster.rings() == [(OLD,)] * 2
    assert two.ring.in_use == key_id(OLD)


def test_two_operators_at_once_end_with_one_ring(cluster):
    one, two = cluster.add(1), cluster.add(2)
    one.install(key_text(NEW))
    two.install(key_text(OTHER))
    first, second = cluster.rings()
    assert first == second
    assert first in {(OLD, NEW), (OLD, OTHER)}


def test_an_older_ring_changes_nothing(cluster):
    one, two = cluster.add(1), cluster.add(2)
    one.install(key_text(NEW))
    stale = cluster.sections[1]
    one.use(key_id(NEW), force=True)
    one.remove(key_id(OLD), force=True)
    cluster.spread()
    cluster.sections[1] = stale
    assert cluster.rings() == [(NEW,)] * 2
    assert two.ring.keys == (NEW,)


def test_the_ring_outlives_a_restart_and_a_removed_key_does_not_come_back(cluster, state):
    one = cluster.add(1, state=state)
    one.rotate(key_text(NEW), None)
    one.use(key_id(NEW))
    one.remove(key_id(OLD))
    assert (state.path / "keys.json").stat().st_mode & 0o777 == 0o600
    assert cluster.add(1, state=state).ring.keys == (NEW,)
    assert cluster.add(1, OTHER, state=state).ring.keys == (OTHER, NEW), "another key file goes first"


def test_a_damaged_ring_is_set_aside_and_the_file_holds(cluster, state):
    cluster.add(1, state=state).install(key_text(NEW))
    path = state.path / "keys.json"
    path.write_text(path.read_text()[:40])
    assert cluster.add(1, state=state).ring.keys == (OLD,)
    state.save("keys", {"epoch": 1}, secret=True)
    assert cluster.add(1, state=state).ring.keys == (OLD,)
    assert [event for event, _ in state.warnings] == ["state.damaged"] * 2


def test_what_cannot_be_stored_does_not_happen(cluster, state, monkeypatch):
    one = cluster.add(1, state=state)

    def full(*_args, **_options):
        raise StateUnusable("keys.json", "no space")

    monkeypatch.setattr(state, "save", full)
    with pytest.raises(StateUnusable):
        one.install(key_text(NEW))
    assert one.ring.keys == (OLD,)
    two = cluster.add(2)
    two.install(key_text(NEW))
    cluster.spread()
    assert one.ring.keys == (OLD, NEW), "what all others do is followed all the same"


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x95\x09\x00\xc4\x00\x90\xc0"])
def test_junk_for_a_report_changes_nothing(cluster, junk):
    one, _two = cluster.add(1), cluster.add(2)
    cluster.sections[2] = Section(1, 7, digest_of(junk), junk)
    with pytest.raises(PayloadError):
        Report.decode(junk)
    for member in cluster.members():
        one.heard(member)
    assert facts(one)[key_id(OLD)] == (1, 1)


def test_a_report_comes_back_and_what_later_versions_append_is_passed_over():
    document = Document(
        epoch=7, issuer=bytes(16), ids=(key_id(NEW), key_id(OLD)), carried=(NEW,), removed=(key_id(OTHER),),
        target=key_id(NEW),
    )  # fmt: skip
    report = Report(order=document.order, ids=document.ids, document=document)
    assert Report.decode(report.encode()) == report
    assert len(report.encode()) < 200
    assert "x02" not in repr(report), "no key shows in a log"
    largest = Document(
        epoch=1, ids=tuple(map(key_id, KEYS[:8])), carried=tuple(KEYS[:8]), removed=("0" * 8,) * MOST_REMOVED
    )
    assert len(Report(order=largest.order, ids=largest.ids, document=largest).encode()) < 600


def test_a_file_is_refused_by_line_and_never_quoted(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{key_text(OLD)}\nopensesame\n")
    path.chmod(0o600)
    with pytest.raises(BadConfiguration, match="line 2") as caught:
        ring_of(str(path), None, {})
    assert "sesame" not in str(caught.value)
    path.write_text(f"{key_text(OLD)}\n{key_text(NEW)}\n")
    ring = ring_of(str(path), None, {})
    assert ring is not None
    assert ring.keys == (OLD, NEW)


def test_stored_keys_that_others_can_read_stop_the_start(state, tmp_path):
    path = tmp_path / "keys"
    path.write_text(key_text(OLD))
    path.chmod(0o600)
    state.save("keys", {}, secret=True)
    (state.path / "keys.json").chmod(0o640)
    with pytest.raises(BadConfiguration, match="can be used by others"):
        ring_of(str(path), state, {})
    (state.path / "keys.json").chmod(0o600)
    with pytest.raises(BadConfiguration, match=r"gossip\.key_file is not set"):
        ring_of("", state, {})
    assert json.loads((state.path / "keys.json").read_text())["value"] == {}

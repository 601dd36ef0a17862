import attrs
import msgpack
import pytest
import structlog
from shoal.agent.payloads import EnginesPayload, HistoryPayload, RecordPayload, SchedulePayload
from shoal.agent.roster import Roster, node_vitals
from shoal.capabilities import NodeCapabilities, parse_requirement
from shoal.gossip import Change, Changed, Member, SectionKind, State, Vitals
from shoal.gossip.member import Section
from shoal.placement import (
    Engines,
    Failures,
    FailureScope,
    History,
    NodeState,
    NodeVitals,
    ResidentModel,
    Schedulable,
    find_suitable_nodes,
)

HERE, THERE = b"\1" * 16, b"\2" * 16
HISTORY = History(failures=Failures().recorded(FailureScope(node=THERE.hex()), "timeout", 1000.0))
RECORD = RecordPayload("n2", "0.1.0", NodeCapabilities({"gpu_nvidia": True})).encode()


class Table:
    """The gossip members that the roster reads."""

    def __init__(self):
        self.members = {}
        self.roster = Roster(HERE, self.members.get)

    def show(self, what=Change.JOINED, node_id=THERE, section=None, again=False, **fields):
        """Let gossip show this of a node, and tell the roster of it."""
        base = self.members.get(node_id) or member(node_id)
        self.members[node_id] = attrs.evolve(base, **fields)
        return self.tell(what, node_id, section, again)

    def publish(self, kind, payload, version=1, node_id=THERE):
        held = self.members.get(node_id) or member(node_id)
        sections = {**held.sections, kind: Section(held.generation, version, b"digest", payload)}
        return self.show(Change.SECTION, node_id, section=kind, sections=sections)

    def tell(self, what, node_id=THERE, section=None, again=False):
        self.roster.changed(Changed(node_id, what, section, again))
        return self.roster.view.get(node_id.hex())


def member(node_id, **fields):
    values = {
        "generation": 7,
        "incarnation": 0,
        "address": ("127.0.0.1", 7001),
        "state": State.ALIVE,
        "since": 1.0,
        "sections": {},
        "vitals": None,
        "vitals_at": None,
        "udp_broken": False,
    }
    return Member(node_id=node_id, **(values | fields))


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def watch(table):
    """What watchers are told, with the view as it is at that moment."""
    with table.roster.watchers.subscribe(vitals=True) as subscription:
        offer, told = subscription.offer, []

        def spy(event):
            told.append((event.kind, event.node_id, event.record, table.roster.view.get(event.node_id)))
            offer(event)

        subscription.offer = spy
        yield told


# From members to the view


def test_a_member_without_sections_is_in_the_view_without_a_record(table):
    record = table.show(generation=9, incarnation=3, address=("2001:db8::1", 7931))
    assert (record.node_id, record.name, record.addr) == (THERE.hex(), "", "[2001:db8::1]:7931")
    assert (record.generation, record.incarnation, record.state) == (9, 3, NodeState.ALIVE)
    assert (record.capabilities, record.error, record.vitals, record.vitals_at) == (None, None, None, None)
    assert table.roster.view.here == HERE.hex()


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_shown(table, state):
    assert table.show(state=state).state.value == state.value


def test_a_node_that_answers_by_tcp_only_says_so(table):
    assert not table.show().udp_broken
    assert table.show(Change.UDP_BROKEN, udp_broken=True).udp_broken


def test_a_tombstone_without_an_address_has_none(table):
    assert table.show(Change.FAILED, state=State.DEAD, address=None).addr == ""


def test_a_record_brings_name_and_capabilities(table):
    record = table.publish(SectionKind.RECORD, RECORD)
    assert (record.name, record.error) == ("n2", None)
    assert record.capabilities.labels == {"gpu_nvidia": True}


def test_a_schedule_is_shown(table):
    record = table.publish(SectionKind.SCHEDULE, SchedulePayload(Schedulable.DRAINING, 30).encode())
    assert (record.schedulable, record.weight) == (Schedulable.DRAINING, 30)
    assert table.publish(SectionKind.SCHEDULE, SchedulePayload().encode(), 2).schedulable is Schedulable.YES


@pytest.mark.parametrize("junk", [b"", b"\xc1", msgpack.packb(["", "1", b""]), msgpack.packb(["n", "1", b"junk"])])
def test_a_record_that_does_not_decode_shows_why_and_the_node_stays(table, junk):
    record = table.publish(SectionKind.RECORD, junk)
    assert record.error.startswith("record")
    assert (record.capabilities, record.name, record.state) == (None, "", NodeState.ALIVE)
    mended = table.publish(SectionKind.RECORD, RECORD, 2)
    assert (mended.error, mended.name) == (None, "n2")


def test_a_node_whose_schedule_does_not_decode_gets_no_new_work(table):
    """A later version may know more states than ours, such as maintenance."""
    table.publish(SectionKind.RECORD, RECORD)
    record = table.publish(SectionKind.SCHEDULE, msgpack.packb([9, 100]))
    assert record.schedulable is Schedulable.CORDONED
    assert record.error == "schedule.state: expected 0 to 2"
    assert record.capabilities is not None
    assert find_suitable_nodes(table.roster.view, parse_requirement(""), now=1.0).nodes == ()


def test_sections_of_other_kinds_change_nothing(table):
    before = table.publish(SectionKind.RECORD, RECORD)
    assert table.publish(SectionKind.HISTORY, b"\xc1") == before
    assert table.publish(200, b"\xc1") == before


def test_vitals_come_with_when_they_were_true(table):
    record = table.show(Change.VITALS, vitals=Vitals(available_mib=512), vitals_at=41.5)
    assert (record.vitals.ram_available_mb, record.vitals_at, record.age(50.0)) == (512, 41.5, 8.5)


def test_a_refutation_of_what_we_never_heard_comes_with_the_vitals(table):
    """Nobody showed the node suspect here, so its greater incarnation is no news; the row has it all the same."""
    table.show()
    record = table.show(Change.VITALS, incarnation=1, vitals=Vitals(available_mib=512), vitals_at=41.5)
    assert record.incarnation == 1


def test_vitals_that_nobody_looked_at_are_in_the_next_view_and_no_view_changes_afterwards(table):
    table.show()
    before = table.roster.view
    for available in (512, 256):
        table.members[THERE] = attrs.evolve(
            table.members[THERE], vitals=Vitals(available_mib=available), vitals_at=float(available)
        )
        table.roster.changed(Changed(THERE, Change.VITALS))
    after = table.roster.view
    assert before.get(THERE.hex()).vitals is None
    assert after.get(THERE.hex()).vitals.ram_available_mb == 256
    assert table.roster.view is after


def test_whatever_changes_next_shows_the_latest_vitals_too(table):
    table.show()
    table.members[THERE] = attrs.evolve(table.members[THERE], vitals=Vitals(available_mib=9), vitals_at=1.0)
    table.roster.changed(Changed(THERE, Change.VITALS))
    record = table.show(Change.SUSPECTED, state=State.SUSPECT)
    assert (record.vitals.ram_available_mb, record.state) == (9, NodeState.SUSPECT)
    del table.members[THERE]
    assert table.tell(Change.FORGOTTEN) is None


def test_a_watcher_of_vitals_is_told_at_once(table):
    table.show()
    with table.roster.watchers.subscribe(vitals=True) as changes:
        table.members[THERE] = attrs.evolve(table.members[THERE], vitals=Vitals(available_mib=9), vitals_at=1.0)
        table.roster.changed(Changed(THERE, Change.VITALS))
        assert changes.take().record.vitals.ram_available_mb == 9


def test_vitals_do_not_decode_the_record_again(table, monkeypatch):
    first = table.publish(SectionKind.RECORD, RECORD)
    monkeypatch.setattr(RecordPayload, "decode", None)
    second = table.show(Change.VITALS, vitals=Vitals(load1_centi=5), vitals_at=2.0)
    assert second.capabilities is first.capabilities, "the view moves cheaply only with the same object"


@pytest.mark.parametrize("newer", [(7, 2, b"digest"), (8, 1, b"digest"), (7, 1, b"other")])
def test_another_section_is_decoded(table, newer):
    table.publish(SectionKind.RECORD, RECORD)
    held = Section(*newer, RecordPayload("renamed", "0.1.0", NodeCapabilities()).encode())
    assert table.show(Change.REPLACED, sections={SectionKind.RECORD: held}).name == "renamed"


def test_a_section_that_is_gone_leaves_nothing(table):
    table.publish(SectionKind.RECORD, RECORD)
    record = table.show(Change.FAILED, state=State.DEAD, sections={})
    assert (record.name, record.capabilities) == ("", None)


def test_a_forgotten_node_leaves_the_view_and_nothing_behind(table):
    table.publish(SectionKind.RECORD, RECORD)
    del table.members[THERE]
    assert table.tell(Change.FORGOTTEN) is None
    assert len(table.roster.view) == 0
    assert table.roster._decoded == {}


def test_a_view_that_is_held_never_changes(table):
    table.show(Change.JOINED)
    held = table.roster.view
    table.show(Change.FAILED, state=State.DEAD)
    assert held.get(THERE.hex()).state is NodeState.ALIVE
    assert table.roster.view.get(THERE.hex()).state is NodeState.DEAD


# What watchers are told

EVENTS = {
    Change.JOINED: "joined",
    Change.SUSPECTED: "suspected",
    Change.REFUTED: "refuted",
    Change.FAILED: "failed",
    Change.LEFT: "left",
    Change.REPLACED: "replaced",
    Change.FORGOTTEN: "forgotten",
    Change.ADDRESS: "address",
    Change.VITALS: "vitals",
    Change.UDP_BROKEN: "udp-broken",
    Change.UDP_WORKS: "udp-works",
}


@pytest.mark.parametrize("what", [change for change in Change if change is not Change.SECTION])
def test_every_change_has_its_event(table, watch, what):
    table.show(what)
    assert [kind for kind, *_ in watch] == [EVENTS[what]]


@pytest.mark.parametrize(
    ("section", "event"),
    [(kind, kind.name.lower()) for kind in SectionKind] + [(200, "section"), (0, "section"), (None, "section")],
)
def test_a_section_is_told_by_its_name(table, watch, section, event):
    table.show(Change.SECTION, section=section)
    assert [kind for kind, *_ in watch] == [event]


def test_the_view_is_swapped_before_watchers_are_told(table, watch):
    table.show(Change.JOINED)
    table.show(Change.FAILED, state=State.DEAD)
    del table.members[THERE]
    table.tell(Change.FORGOTTEN)
    for kind, _, told, seen in watch:
        assert told is seen, kind
    assert [told and told.state for *_, told, _ in watch] == [NodeState.ALIVE, NodeState.DEAD, None]


def test_without_watchers_nothing_is_made_for_them(table, monkeypatch):
    monkeypatch.setattr("shoal.agent.roster.NodeEvent", None)
    assert table.show(Change.JOINED) is not None


def test_isolation_is_a_flag_and_an_event(table, watch):
    table.show(Change.JOINED, HERE)
    table.show(Change.JOINED)
    table.roster.isolation(isolated=True)
    assert table.roster.view.isolated
    assert len(table.roster.view) == 2
    table.show(Change.SUSPECTED, state=State.SUSPECT)
    assert table.roster.view.isolated, "a change of a member does not end isolation"
    table.roster.isolation(isolated=False)
    assert not table.roster.view.isolated
    told = [(kind, node_id) for kind, node_id, *_ in watch]
    assert told[2:] == [("isolated", HERE.hex()), ("suspected", THERE.hex()), ("connected", HERE.hex())]


def test_a_conflict_is_told_about_ourselves(table, watch):
    table.roster.conflict()
    assert [(kind, node_id) for kind, node_id, *_ in watch] == [("conflict", HERE.hex())]


def test_two_live_nodes_of_one_name_are_told_of_once(table, watch):
    third = b"\3" * 16
    with structlog.testing.capture_logs() as logged:
        table.publish(SectionKind.RECORD, RECORD)
        table.show(Change.JOINED, third, address=("127.0.0.1", 7003))
        table.publish(SectionKind.RECORD, RECORD, node_id=third)
        for _ in range(3):
            table.show(Change.VITALS, third, vitals=Vitals(load1_centi=5), vitals_at=2.0)
            table.show(Change.FAILED, third, state=State.DEAD)
            table.show(Change.REFUTED, third, state=State.ALIVE)
    told = [(node_id, record.name) for kind, node_id, record, _ in watch if kind == "name-conflict"]
    assert told == [(third.hex(), "n2")]
    assert [entry for entry in logged if entry["event"] == "node.name_conflict"] == [
        {
            "event": "node.name_conflict", "log_level": "warning", "name": "n2",
            "node": third.hex(), "address": "127.0.0.1:7003", "other": THERE.hex(), "other_address": "127.0.0.1:7001",
        }
    ]  # fmt: skip


def test_a_name_is_free_again_after_its_holder_is_gone_or_renamed(table, watch):
    other = RecordPayload("n3", "0.1.0", NodeCapabilities({})).encode()
    table.publish(SectionKind.RECORD, RECORD)
    table.show(Change.FAILED, state=State.DEAD)
    table.publish(SectionKind.RECORD, RECORD, node_id=b"\3" * 16)
    table.publish(SectionKind.RECORD, other, 2, node_id=b"\3" * 16)
    table.show(Change.JOINED, b"\4" * 16, address=("127.0.0.1", 7004))
    table.publish(SectionKind.RECORD, RECORD, node_id=b"\4" * 16)
    assert "name-conflict" not in [kind for kind, *_ in watch]


def test_a_restarted_node_without_a_state_directory_is_no_conflict_with_itself(table, watch):
    table.publish(SectionKind.RECORD, RECORD)
    table.publish(SectionKind.RECORD, RECORD, node_id=b"\3" * 16)
    assert "name-conflict" not in [kind for kind, *_ in watch]


def test_our_own_new_generation_is_shown_and_told(table, watch):
    table.show(Change.JOINED, HERE)
    table.members[HERE] = member(HERE, generation=8)
    table.roster.identity(HERE)
    assert table.roster.view.get(HERE.hex()).generation == 8
    assert [(kind, node_id) for kind, node_id, *_ in watch][1:] == [("replaced", HERE.hex())]


def test_under_another_id_we_are_in_the_view_once(table, watch):
    new = b"\3" * 16
    table.show(Change.JOINED, HERE)
    table.roster.isolation(isolated=True)
    del table.members[HERE]
    table.members[new] = member(new)
    table.roster.identity(new)
    view = table.roster.view
    assert (view.here, [record.node_id for record in view], view.isolated) == (new.hex(), [new.hex()], True)
    told = [(kind, node_id) for kind, node_id, *_ in watch]
    assert told[2:] == [("forgotten", HERE.hex()), ("joined", new.hex())]


# Vitals in placement's words


def test_every_vital_has_its_field():
    vitals = Vitals(
        load1_centi=1,
        cpu_busy_permille=2,
        available_mib=3,
        reserved_mib=4,
        gpu_best_free_mib=5,
        gpu_total_free_mib=6,
        psi_cpu_some_centi=7,
        psi_memory_some_centi=8,
        psi_memory_full_centi=9,
        thermal_celsius=10,
        battery_percent=11,
        pressure_level=3,
        thermal_state=1,
        power_source=1,
    )
    assert node_vitals(vitals) == NodeVitals(
        load1_centi=1,
        cpu_busy_permille=2,
        ram_available_mb=3,
        reserved_mb=4,
        gpu_vram_free_mb=5,
        gpu_vram_free_total_mb=6,
        psi_cpu_some_avg10_centi=7,
        psi_memory_some_avg10_centi=8,
        psi_memory_full_avg10_centi=9,
        thermal_max_celsius=10,
        battery_percent=11,
        pressure="high",
        thermal_state="fair",
        power_source="battery",
    )


def test_what_is_unknown_stays_unknown():
    assert node_vitals(Vitals()) == NodeVitals()
    assert node_vitals(Vitals(pressure_level=0, thermal_state=0, power_source=0)) == NodeVitals(
        pressure="none", thermal_state="nominal", power_source="ac"
    )


def test_levels_that_only_a_later_version_knows_are_unknown():
    assert node_vitals(Vitals(pressure_level=6, thermal_state=6, power_source=2)) == NodeVitals()


# What else the sections bring


ENGINES = Engines(
    ollama_running=True,
    llama_server_running=False,
    models=(
        ResidentModel(name="qwen2.5:7b", engine="ollama", vram_mb=5000, expires_at=1_700_000_300),
        ResidentModel(name="phi", engine="llama-server"),
    ),
)


def test_engines_come_in_placements_words_and_clock():
    table = Table()
    table.roster = Roster(HERE, table.members.get, epoch=lambda: 1_700_000_000.0)
    record = table.publish(SectionKind.ENGINES, EnginesPayload(ENGINES).encode())
    assert record.engines.ollama_running
    assert [(model.engine, model.expires_at) for model in record.engines.models] == [
        ("ollama", 300),
        ("llama.cpp", None),
    ]
    assert record.engines.models[0].warmth_at(150.0) == 0.5
    assert table.publish(SectionKind.ENGINES, b"junk", 2).engines is None


def test_histories_of_others_are_kept_by_node_and_swapped_whole(table):
    before = table.roster.histories
    table.publish(SectionKind.HISTORY, HistoryPayload(HISTORY).encode())
    held = table.roster.histories
    assert (dict(before), list(held)) == ({}, [THERE.hex()])
    assert list(held[THERE.hex()].failures) == list(HISTORY.failures)
    table.show(Change.VITALS, vitals=Vitals(load1_centi=5), vitals_at=2.0)
    assert table.roster.histories is held, "placements join them again only when they changed"
    table.publish(SectionKind.HISTORY, b"junk", 2)
    assert table.roster.histories == {}


def test_a_forgotten_node_takes_its_history_with_it_and_our_own_is_not_read_here(table):
    table.publish(SectionKind.HISTORY, HistoryPayload(HISTORY).encode())
    table.publish(SectionKind.HISTORY, HistoryPayload(HISTORY).encode(), node_id=HERE)
    assert list(table.roster.histories) == [THERE.hex()]
    del table.members[THERE]
    table.tell(Change.FORGOTTEN)
    assert table.roster.histories == {}


def test_what_a_new_run_does_not_say_again_no_longer_holds(table):
    table.publish(SectionKind.RECORD, RECORD)
    table.publish(SectionKind.SCHEDULE, SchedulePayload(Schedulable.CORDONED).encode())
    table.publish(SectionKind.HISTORY, HistoryPayload(HISTORY).encode())
    record = table.show(Change.REPLACED, generation=8)
    assert (record.name, record.schedulable, table.roster.histories) == ("n2", Schedulable.YES, {})


def test_what_a_new_run_says_again_holds_again_and_is_told_if_it_was_missed(table, watch):
    """Its first word was a ping, which does not say what it published."""
    table.publish(SectionKind.SCHEDULE, SchedulePayload(Schedulable.CORDONED).encode())
    assert table.show(Change.REPLACED, generation=8).schedulable is Schedulable.YES
    section = table.members[THERE].sections[SectionKind.SCHEDULE]._replace(generation=8)
    del watch[:]
    for _ in range(2):
        record = table.show(
            Change.SECTION, section=SectionKind.SCHEDULE, again=True, sections={SectionKind.SCHEDULE: section}
        )
        assert record.schedulable is Schedulable.CORDONED
    assert [kind for kind, *_ in watch] == ["schedule"]

import pytest
from shoal.agent.errors import StateUnusable
from shoal.agent.payloads import SchedulePayload
from shoal.agent.schedule import Schedule
from shoal.agent.state import StateDirectory
from shoal.placement import Schedulable


@pytest.fixture
def state(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    yield directory
    directory.close()


@pytest.fixture
def told():
    return []


def test_a_node_takes_work_and_need_not_say_so(state, told):
    schedule = Schedule(state, told.append)
    schedule.tell()
    assert (schedule.current, told) == (SchedulePayload(), [])
    assert not schedule.change(Schedulable.YES)
    assert told == []


@pytest.mark.parametrize("kind", [Schedulable.CORDONED, Schedulable.DRAINING])
def test_a_change_is_told_and_holds_after_a_restart(state, told, kind):
    schedule = Schedule(state, told.append)
    assert schedule.change(kind)
    assert not schedule.change(kind)
    assert [SchedulePayload.decode(payload) for payload in told] == [SchedulePayload(kind)]
    again = Schedule(state, told.append)
    again.tell()
    assert again.current == SchedulePayload(kind)
    assert told[1] == told[0]
    again.change(Schedulable.YES)
    assert Schedule(state, told.append).current == SchedulePayload()


def test_without_a_state_directory_it_holds_until_the_stop(told):
    schedule = Schedule(None, told.append)
    schedule.change(Schedulable.CORDONED)
    assert (schedule.current.schedulable, len(told)) == (Schedulable.CORDONED, 1)


def test_what_cannot_be_stored_does_not_happen(state, told, monkeypatch):
    def full(_name, _value):
        raise StateUnusable("here", "no space left")

    monkeypatch.setattr(state, "save", full)
    schedule = Schedule(state, told.append)
    with pytest.raises(StateUnusable):
        schedule.change(Schedulable.CORDONED)
    assert (schedule.current, told) == (SchedulePayload(), [])


def test_a_stored_weight_is_kept(state, told):
    state.save("schedule", {"state": "draining", "weight": 30})
    schedule = Schedule(state, told.append)
    schedule.change(Schedulable.YES)
    assert SchedulePayload.decode(told[0]) == SchedulePayload(Schedulable.YES, 30)


@pytest.mark.parametrize(
    "junk", [3, [], {}, {"state": "asleep", "weight": 1}, {"state": "yes", "weight": True}, {"state": "yes"}]
)
def test_a_file_that_makes_no_sense_is_set_aside(state, told, junk):
    state.save("schedule", junk)
    assert Schedule(state, told.append).current == SchedulePayload()
    assert [event for event, _ in state.warnings] == ["state.damaged"]

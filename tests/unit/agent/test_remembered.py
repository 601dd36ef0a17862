import pytest
import trio
from shoal.agent.errors import StateUnusable
from shoal.agent.remembered import FIRST_SAVE_SECONDS, SAVE_SECONDS, PeerMemory, remembered
from shoal.agent.state import StateDirectory

HERE = ("10.0.0.1", 7931)


@pytest.fixture
def state(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    yield directory
    directory.close()


@pytest.fixture
def live():
    """The addresses of the live members, ourselves among them."""
    return [HERE]


@pytest.fixture
def memory(state, live):
    return PeerMemory(state, HERE, lambda: live)


def test_the_others_come_back_at_the_next_start(state, live, memory):
    live += [("10.0.0.3", 7931), ("2001:db8::2", 7000)]
    memory.save()
    assert remembered(state) == (("10.0.0.3", 7931), ("2001:db8::2", 7000))


def test_being_alone_is_no_news(state, live, memory):
    live.append(("10.0.0.2", 7931))
    memory.save()
    live.remove(("10.0.0.2", 7931))
    memory.save()
    assert remembered(state) == (("10.0.0.2", 7931),)


def test_what_did_not_change_is_not_written_again(state, live, memory, monkeypatch):
    live += [("10.0.0.2", 7931), ("10.0.0.3", 7931)]
    memory.save()
    monkeypatch.setattr(state, "save", None)
    live.reverse()
    memory.save()


def test_a_disk_that_refuses_costs_nothing_and_is_tried_again(state, live, memory, monkeypatch):
    def full(*_args):
        raise StateUnusable("/state/peers.json", "No space left on device")

    live.append(("10.0.0.2", 7931))
    with monkeypatch.context() as patch:
        patch.setattr(state, "save", full)
        memory.save()
    assert remembered(state) == ()
    memory.save()
    assert remembered(state) == (("10.0.0.2", 7931),)


@pytest.mark.parametrize("stored", [None, "text", 7, {}, {"a": 1}, [None], [7], [["10.0.0.2", 7931]], [""], ["x:1"]])
def test_what_is_no_address_is_passed_over(state, stored):
    state.save("peers", stored)
    assert remembered(state) == ()


def test_one_bad_address_does_not_cost_the_others(state):
    state.save("peers", ["10.0.0.2:7931", "10.0.0.3:0", "host.example:1", "[2001:db8::2]:7000"])
    assert remembered(state) == (("10.0.0.2", 7931), ("2001:db8::2", 7000))


def test_without_a_state_directory_nobody_is_known():
    assert remembered(None) == ()


@pytest.fixture
def disk(monkeypatch):
    """Writes in the loop instead of a thread, whose time the clock would not see; `disk.gate` holds writes up."""

    class Disk:
        gate = None
        begun = trio.Event()

        async def write(self, save, addresses):
            self.begun.set()
            if self.gate is not None:
                await self.gate.wait()
            save(addresses)

    made = Disk()
    monkeypatch.setattr(trio.to_thread, "run_sync", made.write)
    return made


async def test_it_is_saved_soon_after_the_start_and_then_when_it_changed(live, memory, disk, nursery, autojump_clock):
    saved = []
    memory._state.save = lambda _name, value: saved.append((trio.current_time(), len(value)))
    live.append(("10.0.0.2", 7931))
    nursery.start_soon(memory.run)
    await trio.sleep(1.5 * FIRST_SAVE_SECONDS)
    live.append(("10.0.0.3", 7931))
    await trio.sleep(5 * SAVE_SECONDS)
    assert saved == [(FIRST_SAVE_SECONDS, 1), (3 * FIRST_SAVE_SECONDS, 2)], "most are met in the first moments"
    live.append(("10.0.0.4", 7931))
    await trio.sleep(SAVE_SECONDS)
    assert len(saved) == 3


async def test_it_is_not_saved_twice_at_once(live, memory, disk, nursery, autojump_clock):
    """The agent stops while the disk is slow: two writers of one draft would damage it."""
    disk.gate = trio.Event()
    live.append(("10.0.0.2", 7931))
    nursery.start_soon(memory.run)
    await disk.begun.wait()
    memory.save()
    assert memory._state.load("peers") is None
    disk.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert remembered(memory._state) == (("10.0.0.2", 7931),)

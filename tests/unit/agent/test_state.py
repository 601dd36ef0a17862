import json
import os
import shutil
import subprocess
import sys
import time

import attrs
import pytest
from shoal.agent import state as state_module
from shoal.agent.errors import NoPermission, ShoalError, StateInUse, StateUnusable
from shoal.agent.state import GENERATION_CAP, IDENTITY, StateDirectory, save_identity, take_identity

NOW_MS = 1_750_000_000_000
DAY_MS = 24 * 3600 * 1000


class Killed(BaseException):
    """The process ends here: nothing after it happens, no handler runs."""


@pytest.fixture
def where(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def state(where):
    directory = StateDirectory(where)
    yield directory
    directory.close()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The files that hold the machine's id; `machine(...)` says what the first holds."""
    file = tmp_path / "machine-id"
    monkeypatch.setattr(state_module, "MACHINE_ID_FILES", (str(file), str(tmp_path / "dbus-machine-id")))

    def be(text):
        file.write_text(text)

    be("aaaa\n")
    return be


def started(where, unix_ms=NOW_MS):
    """One run of an agent: its identity, and what it would log."""
    directory = StateDirectory(where)
    try:
        return take_identity(directory, unix_ms), [event for event, _ in directory.warnings]
    finally:
        directory.close()


# Saving


def test_what_was_saved_comes_back(state):
    for value in ({"zone": "b", "gpus": 2, "spot": True}, [["10.0.0.7", 7931]], "text", 0, None, {}):
        state.save("thing", value)
        assert state.load("thing") == value
    assert state.warnings == []


def test_what_was_never_saved_is_no_damage(state):
    assert state.load("peers") is None
    assert state.warnings == []


def test_a_value_keeps_its_type(state):
    state.save("labels", {"on": True, "one": 1, "text": "1"})
    assert [type(value) for value in state.load("labels").values()] == [bool, int, str]


@pytest.mark.parametrize("step", ["dump", "flush", "replace", "directory"])
@pytest.mark.parametrize("error", [Killed, OSError(28, "No space left on device")])
def test_a_save_that_ends_early_leaves_the_old_or_the_new_whole(state, monkeypatch, step, error):
    state.save("peers", "old")
    real_fsync, synced = os.fsync, []

    def stop(*_args, **_options):
        raise error

    def fsync(handle):
        synced.append(handle)
        if len(synced) == (1 if step == "flush" else 2):
            stop()
        real_fsync(handle)

    if step == "dump":
        monkeypatch.setattr(state_module.json, "dump", lambda _value, out: out.write('{"sum": "half') and stop())
    elif step == "replace":
        monkeypatch.setattr(state_module.Path, "replace", stop)
    else:
        monkeypatch.setattr(state_module.os, "fsync", fsync)
    with pytest.raises(Killed if error is Killed else StateUnusable):
        state.save("peers", "new")
    monkeypatch.undo()
    assert state.load("peers") == ("new" if step == "directory" else "old")
    assert state.warnings == []
    state.save("peers", "newest")
    assert state.load("peers") == "newest"


def test_the_new_content_is_on_disk_before_it_takes_the_name(state, monkeypatch):
    order = []
    real_fsync, real_replace = os.fsync, state_module.Path.replace
    monkeypatch.setattr(state_module.os, "fsync", lambda handle: (order.append("sync"), real_fsync(handle)))
    monkeypatch.setattr(
        state_module.Path, "replace", lambda path, to: (order.append("rename"), real_replace(path, to))[1]
    )
    state.save("peers", [1])
    assert order == ["sync", "rename", "sync"]


def test_kill_9_while_saving_leaves_one_of_the_saved_values(where, state):
    """A real process saves without a pause and is killed at any moment."""
    state.save("peers", 0)
    writer = (
        "import sys, pathlib\n"
        "from shoal.agent.state import StateDirectory\n"
        "class Unlocked(StateDirectory):\n"
        "    def __init__(self, path): self.path = path; self.warnings = []\n"
        "state = Unlocked(pathlib.Path(sys.argv[1]))\n"
        "print('go', flush=True)\n"
        "number = 0\n"
        "while True:\n"
        "    number += 1\n"
        "    state.save('peers', number)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", writer, str(where)], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"go\n"
        deadline = time.monotonic() + 20
        while not state.load("peers") and time.monotonic() < deadline:
            pass
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert state.load("peers") > 0
    assert state.warnings == []


# Damage


def test_a_file_cut_at_any_length_is_set_aside_and_reported(state):
    state.save("peers", [["10.0.0.7", 7931]])
    file = state.path / "peers.json"
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert state.load("peers") is None
        ((event, fields),) = state.warnings
        assert (event, fields["file"]) == ("state.damaged", str(file))
        assert not file.exists()
        assert (state.path / "peers.damaged").read_bytes() == whole[:length]
        state.warnings.clear()
    assert state.load("peers") is None
    assert state.warnings == [], "what was set aside is reported once"


def test_an_identity_cut_at_any_length_starts_a_new_node(where, machine, monkeypatch):
    monkeypatch.setattr(state_module.os, "fsync", lambda _handle: None)  # hundreds of starts
    before, _ = started(where)
    file = where / "identity.json"
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        identity, warnings = started(where, NOW_MS - DAY_MS)
        assert identity.node_id != before.node_id
        assert warnings == ["state.damaged"]
        assert started(where) == (attrs.evolve(identity, generation=NOW_MS, boot_id=_ANY), [])
        assert (where / "identity.damaged").read_bytes() == whole[:length]


def test_no_flipped_bit_is_ever_believed(state):
    value = {"node_id": "00" * 16, "generation": 7, "machine": "aaaa"}
    state.save(IDENTITY, value)
    file = state.path / "identity.json"
    whole = file.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            file.write_bytes(changed)
            assert state.load(IDENTITY) in (None, value)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\0" * 4096,
        b"null",
        b"[]",
        b'"text"',
        b"17",
        b"{}",
        b'{"sum": 1}',
        b'{"value": 1}',
        b'{"sum": null, "value": null}',
        b"[" * 100_000,
        b'{"sum": "x", "value": ' + b"9" * 10_000 + b"}",
        '{"sum": "x", "value": "\ud800"}'.encode("utf-8", "surrogatepass"),
        b'{"sum": "x", "value": "\\ud800"}',
        b'{"sum": "x", "value": NaN}',
        os.urandom(512),
    ],
)
def test_junk_is_set_aside(state, junk):
    (state.path / "labels.json").write_bytes(junk)
    assert state.load("labels") is None
    assert [event for event, _ in state.warnings] == ["state.damaged"]


def test_a_file_that_cannot_be_read_is_set_aside_too(state):
    (state.path / "labels.json").mkdir()
    assert state.load("labels") is None
    assert [event for event, _ in state.warnings] == ["state.damaged"]
    state.save("labels", {"zone": "b"})
    assert state.load("labels") == {"zone": "b"}


@pytest.mark.parametrize(
    ("error", "code"), [(OSError(5, "Input/output error"), 78), (PermissionError(13, "Permission denied"), 77)]
)
def test_an_identity_that_cannot_be_read_now_is_kept(where, machine, monkeypatch, error, code):
    before, _ = started(where)
    directory = StateDirectory(where)

    def refuse(path):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr("pathlib.Path.read_bytes", refuse)
        with pytest.raises(ShoalError, match=error.strerror) as caught:
            take_identity(directory, NOW_MS)
    directory.close()
    assert caught.value.exit_code == code
    assert directory.warnings == []
    assert started(where)[0].node_id == before.node_id


def test_a_directory_of_another_user_is_no_permission(where, monkeypatch):
    def refuse(path, *_flags):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(NoPermission, match="the state directory cannot be used"):
        StateDirectory(where)


def test_a_directory_that_cannot_be_written_is_no_permission_from_the_start(where, machine, monkeypatch):
    before, _ = started(where)
    with monkeypatch.context() as unwritable:
        unwritable.setattr(os, "access", lambda *_arguments, **_options: False)
        with pytest.raises(NoPermission, match="the state directory cannot be used"):
            StateDirectory(where)
    assert started(where)[0].node_id == before.node_id, "and its lock is free"


@pytest.mark.parametrize(
    "value",
    [
        {"node_id": "00" * 16, "generation": 1},
        {"node_id": "00" * 15, "generation": 1, "machine": "aaaa"},
        {"node_id": "zz" * 16, "generation": 1, "machine": "aaaa"},
        {"node_id": 7, "generation": 1, "machine": "aaaa"},
        {"node_id": "00" * 16, "generation": True, "machine": "aaaa"},
        {"node_id": "00" * 16, "generation": -1, "machine": "aaaa"},
        {"node_id": "00" * 16, "generation": 2**63, "machine": "aaaa"},
        {"node_id": "00" * 16, "generation": 1.5, "machine": "aaaa"},
        ["00" * 16, 1, "aaaa"],
        "identity",
    ],
)
def test_a_whole_file_that_is_no_identity_is_reported_and_kept(where, machine, value):
    directory = StateDirectory(where)
    directory.save(IDENTITY, value)
    identity = take_identity(directory, NOW_MS)
    directory.close()
    assert identity.node_id != bytes(16)
    assert [event for event, _ in directory.warnings] == ["state.damaged"]
    assert json.loads((where / "identity.damaged").read_text())["value"] == value


# Identity and generations


class _Any:
    def __eq__(self, other):
        return True

    __hash__ = None


_ANY = _Any()


def test_a_restart_is_a_new_generation_of_the_same_node(where, machine):
    first, _ = started(where)
    second, warnings = started(where, NOW_MS + 5)
    assert (first.node_id, first.generation) == (second.node_id, NOW_MS)
    assert second.generation == NOW_MS + 5
    assert first.boot_id != second.boot_id
    assert (len(first.node_id), len(first.boot_id), warnings) == (16, 8, [])


def test_the_generation_rises_also_within_a_millisecond_and_with_the_clock_a_day_back(where, machine):
    generations = [started(where, ms)[0].generation for ms in (NOW_MS, NOW_MS, NOW_MS - DAY_MS, 0, NOW_MS + 2)]
    assert generations == [NOW_MS, NOW_MS + 1, NOW_MS + 2, NOW_MS + 3, NOW_MS + 4]


def test_the_generation_is_on_disk_before_it_is_given_out(state, machine):
    identity = take_identity(state, NOW_MS)
    stored = json.loads((state.path / "identity.json").read_text())["value"]
    assert stored == {"node_id": identity.node_id.hex(), "generation": NOW_MS, "machine": "aaaa"}


def test_a_generation_taken_while_running_is_the_floor_of_the_next_start(where, machine):
    directory = StateDirectory(where)
    identity = take_identity(directory, NOW_MS)
    save_identity(directory, attrs.evolve(identity, generation=NOW_MS + DAY_MS))
    directory.close()
    again, _ = started(where, NOW_MS + 1)
    assert (again.node_id, again.generation) == (identity.node_id, NOW_MS + DAY_MS + 1)


@pytest.mark.parametrize(("stored", "same"), [(GENERATION_CAP - 1, True), (GENERATION_CAP, False)])
def test_at_the_cap_a_new_node_begins(where, machine, stored, same):
    first, _ = started(where)
    directory = StateDirectory(where)
    save_identity(directory, attrs.evolve(first, generation=stored))
    directory.close()
    second, _ = started(where, NOW_MS)
    assert (second.node_id == first.node_id) is same
    assert second.generation == (GENERATION_CAP if same else NOW_MS)


def test_a_clock_past_the_type_gives_the_last_generation_and_then_a_new_node(where, machine):
    first, _ = started(where, 2**70)
    assert first.generation == GENERATION_CAP
    assert started(where)[0].node_id != first.node_id


def test_a_copied_directory_is_a_new_node_and_the_original_stays(where, machine, tmp_path):
    first, _ = started(where)
    shutil.copytree(where, tmp_path / "copy")
    machine("bbbb\n")
    copied, warnings = started(tmp_path / "copy")
    assert copied.node_id != first.node_id
    assert warnings == ["state.copied"]
    again, warnings = started(tmp_path / "copy", NOW_MS + 1)
    assert (again.node_id, warnings) == (copied.node_id, [])
    machine("aaaa\n")
    assert started(where)[0].node_id == first.node_id


@pytest.mark.parametrize("unknown", ["", "\n", "uninitialized\n"])
def test_a_machine_without_an_id_is_no_other_machine(where, machine, unknown):
    first, _ = started(where)
    machine(unknown)
    assert started(where)[0].node_id == first.node_id
    machine("bbbb\n")
    assert started(where)[0].node_id == first.node_id


def test_without_a_directory_each_start_is_a_new_node():
    first, second = take_identity(None, NOW_MS), take_identity(None, NOW_MS)
    assert first.node_id != second.node_id
    assert first.generation == second.generation == NOW_MS
    save_identity(None, first)


# The lock


def test_one_agent_at_a_time(where):
    first = StateDirectory(where)
    with pytest.raises(StateInUse, match=str(where)) as caught:
        StateDirectory(where)
    assert caught.value.exit_code == 75
    first.close()
    StateDirectory(where).close()


def test_a_process_that_died_holds_nothing(where):
    holder = (
        "import sys, os, pathlib\n"
        "from shoal.agent.state import StateDirectory\n"
        "held = StateDirectory(pathlib.Path(sys.argv[1]))\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", holder, str(where)], check=False)
    assert (where / "lock").exists()
    StateDirectory(where).close()


def test_a_child_does_not_inherit_the_lock(where):
    directory = StateDirectory(where)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        directory.close()
        StateDirectory(where).close()
    finally:
        child.kill()
        child.wait()


def test_a_path_that_is_no_directory_is_a_configuration_error(tmp_path):
    (tmp_path / "file").write_text("precious")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(StateUnusable, match="cannot be used") as caught:
            StateDirectory(path)
        assert caught.value.exit_code == 78
    assert (tmp_path / "file").read_text() == "precious"


def test_a_disk_that_refuses_is_told_with_the_file(state):
    (state.path / ".labels.draft").mkdir()
    with pytest.raises(StateUnusable, match=r"labels\.json cannot be used: Is a directory"):
        state.save("labels", {})


def test_the_directory_is_closed_to_others(where, state):
    assert where.stat().st_mode & 0o007 == 0

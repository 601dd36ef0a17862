"""consul#3362: killed at any moment of writing what it keeps, an agent starts; at worst without that one thing."""

import os

import pytest
from shoal.agent import state as state_module
from shoal.agent.remembered import remembered
from shoal.agent.state import StateDirectory, save_identity, take_identity

OLD = ["10.0.0.2:7931", "[2001:db8::2]:7000"]
NEW = [*OLD, "10.0.0.3:7931"]
ADDRESSES = {len(OLD): (("10.0.0.2", 7931), ("2001:db8::2", 7000))}
NOW_MS = 1_750_000_000_000


@pytest.fixture
def where(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module.os, "fsync", lambda _handle: None)  # hundreds of writes
    return tmp_path / "state"


@pytest.fixture
def opened(where):
    """`opened(action)`: what one run of an agent does with its directory, and what it would log."""

    def opened(action):
        directory = StateDirectory(where)
        try:
            return action(directory), [event for event, _ in directory.warnings]
        finally:
            directory.close()

    return opened


def written(opened, where, name, value, *, secret=False):
    """The bytes that a whole save leaves."""
    opened(lambda state: state.save(name, value, secret=secret))
    return (where / f"{name}.json").read_bytes()


def test_a_snapshot_cut_at_every_offset_costs_only_itself(opened, where):
    identity, _ = opened(lambda state: take_identity(state, NOW_MS))
    whole = written(opened, where, "peers", NEW)
    for length in range(len(whole)):
        (where / "peers.json").write_bytes(whole[:length])
        (found, kept), warnings = opened(lambda state: (remembered(state), take_identity(state, NOW_MS)))
        assert found == ()
        assert kept.node_id == identity.node_id
        assert warnings == ["state.damaged"]
    assert opened(remembered) == ((), []), "told once, then it is out of the way"
    opened(lambda state: state.save("peers", OLD))
    assert opened(remembered) == (ADDRESSES[2], [])


@pytest.mark.parametrize("secret", [False, True])
def test_a_draft_of_any_length_beside_the_snapshot_is_no_damage(opened, where, secret):
    """The process ended between the first byte written and the rename: the snapshot is the one before."""
    after = written(opened, where, "peers", NEW, secret=secret)
    before = written(opened, where, "peers", OLD, secret=secret)
    draft = where / ".peers.draft"
    for length in range(len(after) + 1):
        (where / "peers.json").write_bytes(before)
        draft.write_bytes(after[:length])
        assert opened(remembered) == (ADDRESSES[2], [])
        opened(lambda state: state.save("peers", NEW, secret=secret))
        assert (where / "peers.json").read_bytes() == after, "what was left is no part of what is written next"
        assert not draft.exists()


def test_a_draft_before_the_first_snapshot_of_all_is_nothing(opened, where):
    opened(lambda _state: None)
    (where / ".peers.draft").write_bytes(b'{"sum": "0123456789abcdef", "val')
    assert opened(remembered) == ((), [])


def test_an_identity_with_a_draft_of_any_length_beside_it_is_the_same_node(opened, where):
    first, _ = opened(lambda state: take_identity(state, NOW_MS))
    before = (where / "identity.json").read_bytes()
    opened(lambda state: save_identity(state, state_module.attrs.evolve(first, generation=first.generation + 9)))
    after = (where / "identity.json").read_bytes()
    for length in range(len(after) + 1):
        (where / "identity.json").write_bytes(before)
        (where / ".identity.draft").write_bytes(after[:length])
        second, warnings = opened(lambda state: take_identity(state, NOW_MS))
        assert (second.node_id, second.generation, warnings) == (first.node_id, first.generation + 1, [])


def test_a_draft_that_others_could_read_never_becomes_a_secret(opened, where):
    """A save that is secret makes its own file: it does not write into what lies there."""
    opened(lambda _state: None)
    draft = where / ".keys.draft"
    draft.write_bytes(b"{}")
    draft.chmod(0o666)
    held = os.open(draft, os.O_RDONLY)
    try:
        opened(lambda state: state.save("keys", {"own": []}, secret=True))
        assert os.read(held, 100) == b"{}"
    finally:
        os.close(held)
    assert (where / "keys.json").stat().st_mode & 0o777 == 0o600

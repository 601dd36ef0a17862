import os
import socket
import stat
from pathlib import Path

import pytest
from shoal.agent.errors import BadConfiguration, SocketInUse
from shoal.agent.listener import open_listener
from shoal.agent.peer import Level, group_id, identify, level_of

NO_GROUP = "no-such-group-here"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "run" / "api.sock")


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def names(path):
    return [entry.name for entry in Path(path).parent.iterdir()]


def test_the_socket_is_for_owner_and_group_and_goes_with_its_agent(path):
    listener = open_listener(path, NO_GROUP)
    try:
        found = Path(path).lstat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o660
        assert listener.group is None
    finally:
        listener.close()
    assert names(path) == []


def test_a_second_agent_is_turned_away_and_disturbs_nothing(path):
    listener = open_listener(path, NO_GROUP)
    try:
        with pytest.raises(SocketInUse, match=rf"another agent \(pid {os.getpid()}\) answers on") as caught:
            open_listener(path, NO_GROUP)
        assert caught.value.exit_code == 75
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
    finally:
        listener.close()


def test_an_agent_that_lost_its_lock_file_is_still_found(path):
    listener = open_listener(path, NO_GROUP)
    Path(f"{path}.lock").unlink()
    try:
        with pytest.raises(SocketInUse, match="another agent answers on"):
            open_listener(path, NO_GROUP)
        assert Path(path).exists()
    finally:
        listener.close()


def test_what_a_killed_agent_left_behind_is_replaced(path, directory):
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(path)
    Path(f"{path}.lock").write_text("99999999")
    open_listener(path, NO_GROUP).close()
    assert names(path) == []


def test_a_socket_that_is_no_longer_ours_stays(path):
    first = open_listener(path, NO_GROUP)
    Path(path).unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        first.close()
        assert Path(path).exists()


def test_a_file_that_is_no_socket_is_never_replaced(path, directory):
    Path(path).write_text("precious")
    with pytest.raises(BadConfiguration, match="is no socket"):
        open_listener(path, NO_GROUP)
    assert Path(path).read_text() == "precious"
    assert names(path) == ["api.sock"]


def test_a_directory_that_anybody_may_change_is_refused(path, directory):
    directory.chmod(0o777)
    with pytest.raises(BadConfiguration, match="in the hands of other users"):
        open_listener(path, NO_GROUP)


def test_a_path_that_cannot_be_is_a_configuration_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadConfiguration, match="cannot be made: File exists"):
        open_listener(str(tmp_path / "file" / "api.sock"), NO_GROUP)


@pytest.mark.parametrize(
    ("uid", "groups", "group", "level"),
    [
        (0, [0], None, Level.ADMIN),
        (990, [990], None, Level.ADMIN),
        (1000, [1000, 44], 44, Level.WRITE),
        (1000, [1000], 44, Level.READ),
        (1000, [1000], None, Level.READ),
    ],
)
def test_users_and_groups_decide_the_level(uid, groups, group, level):
    assert level_of(uid, frozenset(groups), agent_uid=990, group=group) is level


def test_the_kernel_says_who_calls():
    left, right = socket.socketpair()
    with left, right:
        caller = identify(left, agent_uid=os.getuid(), group=None)
    assert caller.uid == os.getuid()
    assert caller.groups >= {os.getgid(), *os.getgroups()}
    assert caller.level is Level.ADMIN


def test_a_group_that_does_not_exist_is_nobody():
    assert group_id(NO_GROUP) is None
    assert group_id("a\0b") is None

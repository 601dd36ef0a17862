"""The local socket's file: taken without a race, never from another agent, and given back only while it is ours.

Lock file, connect test, bind beside, chmod, rename. The lock is the truth (it dies with its process); the connect test
also finds an agent that lost its lock file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path

import attrs

from .errors import BadConfiguration, NoPermission, ShoalError, SocketInUse
from .peer import group_id

# Connections that wait to be accepted; a loop that is busy for a moment must not refuse a burst of clients.
BACKLOG = 128
# An agent that does not take a connection in this time is there all the same.
_TEST_SECONDS = 1.0
# Between our opening the lock file and locking it, the agent that ends may remove it; then the next one is tried.
_LOCK_TRIES = 100


@attrs.define
class Listener:
    """A listening socket that owns its file until `close`. `group` is None when the wanted one does not exist."""

    path: str
    sock: socket.socket
    group: int | None
    _file: tuple[int, int]
    _lock: int

    def close(self) -> None:
        """Give the file back; once is enough."""
        if self.sock.fileno() < 0:
            return
        self.sock.close()
        if _identity(self.path) == self._file:
            with contextlib.suppress(OSError):
                Path(self.path).unlink()
        _unlock(self.path, self._lock)


def open_listener(path: str, group: str) -> Listener:
    """Listen on `path`, which only its owner and `group` may use.

    Raises:
        SocketInUse: another agent is there.
        BadConfiguration: something else is there, or the path cannot be used.
        NoPermission: this user may not make it.
    """
    try:
        _make_directory(Path(path).parent)
        lock = _take_lock(path)
        try:
            _refuse_a_living_one(path)
            return _listen(path, group_id(group), lock)
        except BaseException:
            _unlock(path, lock)
            raise
    except OSError as error:
        raise _explained(path, error) from error


def _listen(path: str, group: int | None, lock: int) -> Listener:
    beside = Path(f"{path}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(str(beside))
        if group is not None:
            try:
                os.chown(beside, -1, group)
            except PermissionError:
                group = None
        beside.chmod(0o660)
        sock.listen(BACKLOG)  # only now: before, nobody could connect, whatever the mode was
        beside.rename(path)
        file = _identity(path)
        assert file is not None  # noqa: S101 - we hold the lock and renamed it a moment ago
        return Listener(path, sock, group, file, lock)
    except BaseException:
        sock.close()
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _make_directory(directory: Path) -> None:
    """Make it as private as its place asks: in a shared place only its owner may look inside."""
    root = os.getuid() == 0
    directory.mkdir(mode=0o755 if root else 0o700, parents=True, exist_ok=True)
    found = directory.stat()
    writable_by_others = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    if writable_by_others or (not root and found.st_uid not in (0, os.getuid())):
        raise BadConfiguration(
            f"the directory {directory} is in the hands of other users", hint="choose another --socket"
        )


def _take_lock(path: str) -> int:
    for _ in range(_LOCK_TRIES):
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            os.close(lock)
            raise _in_use(path, f" (pid {holder})" if holder else "") from None
        if _identity(f"{path}.lock") == _key(os.fstat(lock)):
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock
        os.close(lock)
    raise SocketInUse(f"the lock {path}.lock changes hands too fast", hint="try again")


def _unlock(path: str, lock: int) -> None:
    if _identity(f"{path}.lock") == _key(os.fstat(lock)):
        with contextlib.suppress(OSError):
            Path(f"{path}.lock").unlink()
    os.close(lock)


def _refuse_a_living_one(path: str) -> None:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BadConfiguration(f"{path} is there and is no socket", hint="remove it, or choose another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as test:
        test.settimeout(_TEST_SECONDS)
        try:
            test.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return  # left behind by an agent that was killed
        except (TimeoutError, BlockingIOError):
            pass
    raise _in_use(path, "")


def _in_use(path: str, holder: str) -> SocketInUse:
    return SocketInUse(f"another agent{holder} answers on {path}", hint="stop it, or give this one its own --socket")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        return _key(Path(path).lstat())
    except OSError:
        return None


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _explained(path: str, error: OSError) -> ShoalError:
    if isinstance(error, PermissionError):
        return NoPermission(
            f"the socket {path} cannot be made: {error.strerror}", hint="choose another --socket, or run as its owner"
        )
    return BadConfiguration(f"the socket {path} cannot be made: {error.strerror or error}")

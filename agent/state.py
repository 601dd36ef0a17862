"""The state directory: what a node must remember across restarts, each file written atomically.

Files: `identity.json` (node id, generation, machine id; locked while the agent runs), and one file per thing the
agent saves by name (`peers`, `labels`, `schedule`, `keys`). Every file is one JSON object `{"sum": hex, "value": ...}`;
a file that does not parse or whose sum differs is set aside as `NAME.damaged` and reported, never trusted and
never fatal: the node starts at worst without it.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import attrs

from ..gossip.member import Identity
from .errors import NoPermission, ShoalError, StateInUse, StateUnusable

IDENTITY = "identity"
# The type's maximum is 2^63 - 1: at the cap a new node id starts over (MEMBERSHIP.md section 3).
GENERATION_CAP = 2**63 - 1
MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


@attrs.frozen
class Remembered:
    """What `identity.json` holds. `machine` tells a copied directory from our own."""

    node_id: bytes
    generation: int
    machine: str


class StateDirectory:
    """One agent's memory on disk. Holds the lock from construction to `close`.

    `warnings` collects what was damaged or replaced, for the log: `(event, fields)`.

    Raises:
        StateInUse: another agent runs on this directory.
        NoPermission: this user may not use it.
        StateUnusable: it cannot be made, locked or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[tuple[str, dict[str, str]]] = []
        try:
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise StateInUse(str(path)) from error
            raise _unusable(path, error) from error

    def load(self, name: str) -> Any | None:
        """The value saved under `name`, or None when there is none or it is damaged (then it is set aside).

        Raises:
            NoPermission, StateUnusable: it cannot be read, which says nothing about what it holds.
        """
        file = self.path / f"{name}.json"
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        except IsADirectoryError as error:
            self.set_aside(name, str(error))
            return None
        except OSError as error:
            raise _unusable(file, error) from error
        try:
            document = json.loads(content)
            if document["sum"] == _sum(document["value"]):
                return document["value"]
            why = "its sum differs"
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}"
        self.set_aside(name, why)
        return None

    def set_aside(self, name: str, why: str) -> None:
        """Keep what is saved under `name` for people to look at, out of the way of the next `save`, and report it."""
        file = self.path / f"{name}.json"
        aside = file.with_suffix(".damaged")
        with contextlib.suppress(OSError):
            file.replace(aside)
        self.warnings.append(("state.damaged", {"file": str(file), "set_aside": str(aside), "why": why}))

    def save(self, name: str, value: Any, *, secret: bool = False) -> None:
        """Replace what is saved under `name`: on return it is on disk, and a crash leaves the old or the new, whole.

        Only the agent's user can read a `secret`.

        Raises:
            StateUnusable: the disk refused.
        """
        file = self.path / f"{name}.json"
        draft = self.path / f".{name}.draft"
        try:
            if secret:
                draft.unlink(missing_ok=True)
            with open(draft, "w", encoding="utf-8", opener=_private if secret else None) as out:
                json.dump({"sum": _sum(value), "value": value}, out)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
            _sync_directory(self.path)
        except OSError as error:
            raise StateUnusable(str(file), error.strerror or str(error)) from error

    def close(self) -> None:
        os.close(self._lock)


def take_identity(state: StateDirectory | None, unix_ms: int) -> Identity:
    """The identity to start with: the stored node id in a new generation, already on disk.

    A missing or damaged file, a directory copied from another machine, or a generation at its cap make a new node id.
    """
    stored = _stored_identity(state)
    machine = machine_id()
    if state is not None and stored is not None and machine and stored.machine not in ("", machine):
        state.warnings.append(("state.copied", {"from_machine": stored.machine, "old_node": stored.node_id.hex()}))
        stored = None
    if stored is None or stored.generation >= GENERATION_CAP:
        stored = Remembered(node_id=secrets.token_bytes(16), generation=0, machine=machine)
    identity = Identity(
        node_id=stored.node_id,
        generation=max(stored.generation + 1, min(unix_ms, GENERATION_CAP)),
        boot_id=secrets.token_bytes(8),
    )
    save_identity(state, identity)
    return identity


def save_identity(state: StateDirectory | None, identity: Identity) -> None:
    """Put `identity` on disk; without a state directory it lives in memory only."""
    if state is not None:
        value = {"node_id": identity.node_id.hex(), "generation": identity.generation, "machine": machine_id()}
        state.save(IDENTITY, value)


def machine_id() -> str:
    """The operating system's own id of this installation, "" where it has none (then copies go unnoticed)."""
    for path in MACHINE_ID_FILES:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = Path(path).read_text(encoding="ascii").strip()
            # Images of containers ship it empty, and systemd writes this word until the first boot is over.
            if found not in ("", "uninitialized"):
                return found
    return ""


def _stored_identity(state: StateDirectory | None) -> Remembered | None:
    value = state.load(IDENTITY) if state is not None else None
    if state is None or value is None:
        return None
    try:
        node_id = bytes.fromhex(value["node_id"])
        generation, machine = value["generation"], value["machine"]
    except (ValueError, KeyError, TypeError) as error:
        state.set_aside(IDENTITY, f"{type(error).__name__}: {error}")
        return None
    if len(node_id) != 16 or type(generation) is not int or not 0 <= generation <= GENERATION_CAP:
        state.set_aside(IDENTITY, "a node id or generation out of range")
        return None
    return Remembered(node_id=node_id, generation=generation, machine=str(machine))


def _unusable(path: Path, error: OSError) -> ShoalError:
    why = error.strerror or str(error)
    if isinstance(error, PermissionError):
        hint = "choose another --state-dir, or run as its owner"
        return NoPermission(f"the state directory cannot be used: {path}: {why}", hint=hint)
    return StateUnusable(str(path), why)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _sum(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.blake2b(canonical, digest_size=8).hexdigest()


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

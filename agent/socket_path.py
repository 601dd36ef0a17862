"""Where the local socket is: the agent and its clients must agree without asking each other."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The environment's name of the setting api.socket: the agent and every client read it.
VARIABLE = "SHOAL_API_SOCKET"
SYSTEM_SOCKET = "/run/shoal/api.sock"
SYSTEM_CONFIGURATION = "/etc/shoal/shoal.toml"
# sun_path holds 108 bytes on Linux and 104 on macOS, a closing zero included.
LONGEST_PATH_BYTES = 103


def serving_path(environ: Mapping[str, str], uid: int) -> str:
    """Where an agent listens when nothing says otherwise: the system's place for root, else the user's own."""
    if given := environ.get(VARIABLE):
        return given
    if managed := environ.get("RUNTIME_DIRECTORY"):  # systemd, which makes this directory for a unit
        return f"{managed.split(':')[0]}/api.sock"
    return SYSTEM_SOCKET if uid == 0 else _user_socket(environ, uid)


def owner_of(path: str) -> int | None:
    """The user that a file, or a link itself, belongs to."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def asking_path(
    environ: Mapping[str, str],
    uid: int,
    exists: Callable[[str], bool] = os.path.exists,
    owner: Callable[[str], int | None] = owner_of,
) -> str:
    """Where a client looks when nothing is given: the user's own agent if there is one, else the system's.

    In a shared place anybody can make a directory of that name: only what belongs to the user is believed.
    """
    if given := environ.get(VARIABLE):
        return given
    if uid != 0 and exists(own := _user_socket(environ, uid)):
        private = environ.get("XDG_RUNTIME_DIR") or owner(own.rpartition("/")[0]) == uid
        if private:
            return own
    if exists(SYSTEM_SOCKET):
        return SYSTEM_SOCKET
    return _configured(SYSTEM_CONFIGURATION) or SYSTEM_SOCKET


def _user_socket(environ: Mapping[str, str], uid: int) -> str:
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return f"{runtime}/shoal/api.sock"
    return f"{environ.get('TMPDIR', '/tmp').rstrip('/')}/shoal-{uid}/api.sock"  # noqa: S108 - the agent makes it 0700


def _configured(path: str) -> str | None:
    """api.socket of the system's configuration, read only when the usual places are empty: parsing costs time."""
    import tomllib

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double a client's start-up
            value = tomllib.load(file).get("api", {}).get("socket")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, str) and value else None

"""Files that hold keys: read only when nobody else can. Standard library only, for the command line reads them too.

One base64 key a line, the first of which seals; blank lines and lines that begin with # are passed over. A systemd
credential of the name `CREDENTIAL` is such a file: without `gossip.key_file` it is the agent's.
"""

from __future__ import annotations

import os
import stat

from .errors import BadConfiguration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# LoadCredential=gossip.key:/etc/shoal/gossip.key in the unit.
CREDENTIAL = "gossip.key"
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
# More than all the keys of a ring with a comment each; a longer file is something else.
_FILE_BYTES = 4096
_BY_OTHERS = 0o077
# Where systemd grants access by an ACL, its mask shows as rights of the group.
_BY_OTHERS_OF_CREDENTIAL = 0o037


def credential(environ: Mapping[str, str]) -> str | None:
    """The path of the credential with the keys, if the service manager gave one."""
    directory = environ.get(CREDENTIALS_VARIABLE, "")
    path = f"{directory}/{CREDENTIAL}"
    return path if directory and os.path.exists(path) else None  # noqa: PTH110 - pathlib would double a client's start


def read_lines(path: str, environ: Mapping[str, str]) -> list[tuple[int, str]]:
    """The lines with a key, numbered from 1. The keys themselves are not looked at.

    Raises:
        BadConfiguration: the file is not ours alone, no plain file, too long, or cannot be read.
    """
    directory = environ.get(CREDENTIALS_VARIABLE)
    managed = bool(directory) and path.startswith(f"{directory}/")
    try:
        text = _read(path, _BY_OTHERS_OF_CREDENTIAL if managed else _BY_OTHERS)
    except OSError as error:
        hint = f"shoal keys gen --out {path} makes one" if isinstance(error, FileNotFoundError) else None
        raise BadConfiguration(f"the key file {path} cannot be read: {error.strerror or error}", hint=hint) from error
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    found = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not found:
        raise BadConfiguration(f"the key file {path} holds no key", hint="shoal keys gen makes one")
    return found


def check_private(path: str, facts: os.stat_result, by_others: int = _BY_OTHERS) -> None:
    """Raises BadConfiguration unless it is a plain file of ours, or of root, that nobody else can use."""
    if not stat.S_ISREG(facts.st_mode):
        raise BadConfiguration(f"the key file {path} is not a regular file")
    if facts.st_uid not in {0, os.geteuid()}:
        raise BadConfiguration(
            f"the key file {path} belongs to user {facts.st_uid}, not to the one that reads it ({os.geteuid()})",
            hint=f"chown {os.geteuid()} {path}",
        )
    if facts.st_mode & by_others:
        raise BadConfiguration(
            f"the key file {path} can be used by others: its mode is {stat.S_IMODE(facts.st_mode):04o}",
            hint=f"chmod 600 {path}; whoever may have read the keys has them, so rotate them",
        )


def _read(path: str, by_others: int) -> str:
    # A pipe without a writer must not hang the start.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        check_private(path, os.fstat(handle), by_others)
        data = file.read(_FILE_BYTES + 1)
    if len(data) > _FILE_BYTES:
        raise BadConfiguration(f"the key file {path} has more than {_FILE_BYTES} bytes")
    return data.decode("ascii", "replace")

"""The keys with which an agent starts: from the file that the configuration names, or none."""

from __future__ import annotations

from collections.abc import Mapping

from ..gossip.errors import KeyRefused
from ..gossip.seal import KeyRing, parse_key
from .errors import BadConfiguration
from .key_file import check_private, read_lines
from .state import StateDirectory

KEYS = "keys"


def ring_of(path: str, state: StateDirectory | None, environ: Mapping[str, str], *, where: str = "") -> KeyRing | None:
    """The ring of the key file, the first key sealing; None for an agent without keys.

    `where` is the place that names the file; messages begin with it.

    Raises:
        BadConfiguration: the file, or the ring in the state directory, cannot be used or others can read it; or
            there is only the latter: an agent that had keys must not go on in plaintext by a slip.
    """
    _check_stored(path, state)
    try:
        return _ring(read_lines(path, environ), path) if path else None
    except BadConfiguration as error:
        if not where:
            raise
        raise BadConfiguration(f"{where}: gossip.key_file: {error.message}", hint=error.hint) from error


def _check_stored(path: str, state: StateDirectory | None) -> None:
    stored = None if state is None else state.path / f"{KEYS}.json"
    try:
        facts = None if stored is None else stored.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadConfiguration(f"the key file {stored} cannot be read: {error.strerror}") from error
    if stored is None or facts is None:
        return
    if not path:
        raise BadConfiguration(
            f"{stored} holds the keys of this agent, and gossip.key_file is not set",
            hint=f"set it; or remove {stored} to gossip without encryption",
        )
    check_private(str(stored), facts)


def _ring(lines: list[tuple[int, str]], path: str) -> KeyRing:
    """Errors name the line and never its text."""
    keys: list[bytes] = []
    for number, line in lines:
        try:
            keys.append(parse_key(line))
        except KeyRefused as error:
            raise BadConfiguration(f"the key file {path}, line {number}: {error}") from None
    try:
        return KeyRing(tuple(keys))
    except KeyRefused as error:
        raise BadConfiguration(f"the key file {path}: {error}") from None

"""What the core asks its shell to do. The shell obeys a list in order; nothing here is ever cancelled."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from .member import Address, Identity


class Purpose(enum.Enum):
    """What a token was made for: a timer, a stream, or both."""

    PROBE = "probe"
    DIRECT = "direct deadline"
    ROUND = "round deadline"
    RELAY = "relay deadline"
    FALLBACK = "fallback probe"
    SUSPICION = "suspicion"
    GOSSIP = "gossip tick"
    JOIN = "join"
    SYNC = "sync"
    PAGE = "page of a sync"
    EXTRA = "extra sync"
    PUSH = "push"
    PULL = "pull"
    SELF = "self check"
    LEAVE = "leave"


class Token(NamedTuple):
    """Names what a timer or a stream was for, so that a late one is recognised. Opaque to the shell."""

    purpose: Purpose
    key: bytes = b""
    number: int = 0


@attrs.frozen
class Send:
    """Send one datagram. A local error (ENOBUFS, EPERM, ENETUNREACH) is reported by `Node.send_failed`."""

    data: bytes
    to: Address


@attrs.frozen
class Wake:
    """Call `Node.wake(token)` once, `after` seconds from now. Late is safe; never is not."""

    token: Token
    after: float


@attrs.frozen
class Ask:
    """Open TCP to an address, send `payload` as one length-prefixed frame, read one frame, close.

    Then call `Node.answered(token, outcome)` once: the frame's bytes, `Refused()` when the connection was refused,
    reset, or closed without a frame, or `TimedOut()` when `within` seconds passed.
    """

    token: Token
    to: Address
    payload: bytes
    within: float


@attrs.frozen
class Refused:
    """Outcome of an Ask: somebody or something answered at once that there is no answer."""


@attrs.frozen
class TimedOut:
    """Outcome of an Ask: silence."""


@attrs.frozen
class ResolveSeeds:
    """Look up the configured seeds again, IPv4 and IPv6, and call `Node.resolved` with what was found, even nothing."""


@attrs.frozen
class Persist:
    """Store this identity before obeying any effect that follows; runtimes learn that the token changed."""

    identity: Identity


class Change(enum.Enum):
    """What became different about a member."""

    JOINED = "joined"
    SUSPECTED = "suspected"
    REFUTED = "refuted"
    """Shown alive again, in the same generation; of ourselves: we said that we are."""
    FAILED = "failed"
    LEFT = "left"
    REPLACED = "replaced"
    """The same node in a new generation; it restarted. One of these, no leave and no join."""
    FORGOTTEN = "forgotten"
    ADDRESS = "address"
    SECTION = "section"
    VITALS = "vitals"
    UDP_BROKEN = "udp broken"
    UDP_WORKS = "udp works"


@attrs.frozen
class Changed:
    """A member is shown differently now; read it by `Node.member(node_id)`."""

    node_id: bytes
    what: Change
    section: int | None = None
    """The kind, when a section changed."""
    again: bool = False
    """That section says what it said in the node's run before, which held no longer until now."""


@attrs.frozen
class Isolation:
    """This node began or ended to hear nothing from anyone. It hides no node; answers carry it as a flag."""

    isolated: bool


@attrs.frozen
class Conflict:
    """Another live process held our node id (a cloned machine or state directory)."""

    old_node_id: bytes
    new_node_id: bytes | None
    """The id we took instead, or None when the other one had to give way."""
    address: Address | None


@attrs.frozen
class Left:
    """Leaving is done; the shell may exit."""


@attrs.frozen
class Note:
    """Something for the log: a constant event name with fields."""

    event: str
    fields: Mapping[str, str | int | float]


Effect = Send | Wake | Ask | ResolveSeeds | Persist | Changed | Isolation | Conflict | Left | Note
Outcome = bytes | Refused | TimedOut

"""Every error of the agent, its socket and its command line: one base, one class per outcome a caller can act on.

`kind` is the error's name on the wire and never changes meaning; `exit_code` is what the command line ends with.
The module imports nothing, so that a client command stays quick.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar


class ShoalError(Exception):
    """Something failed. `hint` is the one thing to try next; `retry_ms` says after how long trying again makes sense.

    `details` are further plain values for the wire, such as the `column` of a syntax error or the `path` of an
    argument.
    """

    kind: str = "failed"
    exit_code: ClassVar[int] = 1
    by_kind: ClassVar[dict[str, type[ShoalError]]] = {}
    """Every class that has a kind of its own, wherever it is defined."""

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            ShoalError.by_kind[cls.kind] = cls

    def __init__(
        self, message: str, /, *, hint: str | None = None, retry_ms: int | None = None, **details: int | str
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retry_ms = retry_ms
        self.details = details

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"kind": self.kind, "msg": self.message, **self.details}
        if self.hint is not None:
            wire["hint"] = self.hint
        if self.retry_ms is not None:
            wire["retry_ms"] = self.retry_ms
        return wire


class UsageError(ShoalError):
    """The caller asked for something that has no meaning; asking again in the same way cannot help."""

    kind = "usage"
    exit_code = 2


class UnknownCall(UsageError):
    """The agent has no such call: a typing mistake, or an older agent."""

    kind = "unknown-call"


class BadArgument(UsageError):
    """One argument is missing, unknown or of the wrong type or range; `details["path"]` names it."""

    kind = "bad-argument"


class BadRequirement(UsageError):
    """A requirement does not parse or contradicts itself; `details["column"]` counts from 1 where it is known."""

    kind = "bad-requirement"


class NoMatch(ShoalError):
    """Nothing satisfies what was asked."""

    kind = "no-match"
    exit_code = 3


class UnknownNode(NoMatch):
    """No member has this name or id."""

    kind = "unknown-node"


class Partial(ShoalError):
    """Some of it was done, and the message says which part was not."""

    kind = "partial"
    exit_code = 4


class Refused(ShoalError):
    """Understood and permitted, but the agent's state or limits do not allow it."""

    kind = "refused"
    exit_code = 5


class Unreachable(ShoalError):
    """No agent answers on the socket."""

    kind = "unreachable"
    exit_code = 69


class TryAgain(ShoalError):
    """Not now; the same request may succeed later."""

    kind = "try-again"
    exit_code = 75


class Busy(TryAgain):
    """A limit on connections or requests is reached."""

    kind = "busy"


class DeadlinePassed(TryAgain):
    """The request's own `deadline_ms` passed before there was an answer."""

    kind = "deadline"


class SocketInUse(TryAgain):
    """Another agent answers on, or holds the lock of, the local socket."""

    kind = "socket-in-use"


class StateInUse(TryAgain):
    """Another agent runs on this state directory."""

    kind = "state-in-use"

    def __init__(self, where: str) -> None:
        super().__init__(f"another agent runs on the state directory {where}", hint="give this one its own --state-dir")


class AddressInUse(TryAgain):
    """The gossip address is taken."""

    kind = "address-in-use"

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the gossip address {where} is in use", hint="another agent may run here; choose another --bind"
        )


class NoPermission(ShoalError):
    """The caller's user and groups do not allow this call, or the system does not allow this socket."""

    kind = "no-permission"
    exit_code = 77


class BadConfiguration(ShoalError):
    """A configuration value is unknown, wrong or unusable; the message names where it came from."""

    kind = "bad-configuration"
    exit_code = 78


class StateUnusable(BadConfiguration):
    """The state directory cannot be made, locked or written."""

    kind = "state-unusable"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the state directory {where} cannot be used: {why}")


class AddressUnusable(BadConfiguration):
    """The system refuses the gossip address for a reason other than being taken."""

    kind = "address-unusable"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the gossip address {where} cannot be used: {why}")


class BadFrame(ShoalError):
    """Bytes on the local socket are not a frame; the connection cannot be used further."""

    kind = "bad-frame"


class Cancelled(ShoalError):
    """The caller cancelled this request, or the agent is stopping."""

    kind = "cancelled"


class Internal(ShoalError):
    """A fault of the agent itself; its log holds the whole story."""

    kind = "internal"


_OWN_FIELDS = ("kind", "msg", "hint", "retry_ms")


def from_wire(wire: Any) -> ShoalError:
    """The error that a reply's `err` map stands for. A kind that this version does not know stays a `ShoalError`.

    Raises:
        BadFrame: it is no map.
    """
    if type(wire).__name__ != "dict":
        raise BadFrame(f"an error holding {type(wire).__name__}, where a map is expected")
    given: Mapping[Any, Any] = wire
    kind = given.get("kind")
    hint = given.get("hint")
    retry_ms = given.get("retry_ms")
    details = {
        key: value
        for key, value in given.items()
        if type(key) is str and key.isidentifier() and key not in _OWN_FIELDS and type(value) in (int, str)
    }
    # A class that words its message itself is made without doing so: the agent has worded it.
    of_kind = ShoalError.by_kind.get(str(kind), ShoalError)
    error = of_kind.__new__(of_kind)
    ShoalError.__init__(
        error,
        str(given.get("msg", "the agent gave no reason")),
        hint=hint if isinstance(hint, str) else None,
        retry_ms=retry_ms if type(retry_ms) is int else None,
        **details,
    )
    if type(error) is ShoalError and isinstance(kind, str):
        error.kind = kind
    return error

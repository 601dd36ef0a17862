"""A request that is not answered yet: how it may end early, and how fast a stream may go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from .api import Answer
from .arguments import Argument, Check, check_arguments, either, integer, text
from .errors import BadArgument, Cancelled, DeadlinePassed, ShoalError
from .outbox import Outbox

RequestId = int | str

# Long enough for a UUID or a name with a counter.
_ID_BYTES = 64
# A caller that is willing to wait longer than a day can ask again.
_DEADLINE_MS = 24 * 3600 * 1000
# Far beyond any stream; keeps the sum of what a client adds an ordinary integer.
_CREDIT = 1 << 31

_check_id: Check = either(integer(0, (1 << 63) - 1), text(_ID_BYTES), int)
_check_deadline = integer(1, _DEADLINE_MS)
_check_credit = integer(1, _CREDIT)
_CREDIT_ARGUMENTS = (Argument("stream", _check_id), Argument("add", _check_credit))
_CANCEL_ARGUMENTS = (Argument("id", _check_id),)


@attrs.define(eq=False)
class InFlight:
    """One command or stream at work; for a stream it is the `Outlet`. `credit` None leaves the pace to the client."""

    request_id: RequestId
    scope: trio.CancelScope
    credit: int | None
    _put: Callable[[dict[str, Any]], None]
    _outbox: Outbox
    _cancelled: bool = False
    _more_credit: trio.Event = attrs.field(factory=trio.Event)

    async def send(self, answer: Answer) -> None:
        """Send one answer of a stream, when there is credit; then wait for a client that does not read."""
        while self.credit == 0:
            self._more_credit = trio.Event()
            await self._more_credit.wait()
        if self.credit is not None:
            self.credit -= 1
        self._put({"id": self.request_id, "ok": answer, "more": True})
        await trio.lowlevel.checkpoint()
        await self._outbox.room()

    def add_credit(self, frames: int) -> None:
        if self.credit is not None:
            self.credit = min(self.credit + frames, _CREDIT)
            self._more_credit.set()

    def cancel(self) -> None:
        self._cancelled = True
        self.scope.cancel()

    def ended_early(self) -> ShoalError:
        """Why the scope was cancelled, as the client is told."""
        if self._cancelled:
            return Cancelled("cancelled by its client")
        return DeadlinePassed("the deadline passed before there was an answer")


def request_id(message: Mapping[str, Any]) -> RequestId:
    """The client's id of a request; raises BadArgument."""
    if "id" not in message:
        raise BadArgument("a request needs an id: a whole number or a text", path="id")
    return _check_id(message["id"], "id")


def scope(message: Mapping[str, Any]) -> trio.CancelScope:
    """The time that the caller is willing to wait, from now; raises BadArgument."""
    given = message.get("deadline_ms")
    if given is None:
        return trio.CancelScope()
    milliseconds = _check_deadline(given, "deadline_ms")
    return trio.CancelScope(deadline=trio.current_time() + milliseconds / 1000)


def take_credit(arguments: Any) -> tuple[Any, int | None]:
    """A stream's arguments without the credit that it starts with, and that credit."""
    if type(arguments).__name__ != "dict" or "credit" not in arguments:
        return arguments, None
    return {name: arguments[name] for name in arguments if name != "credit"}, _check_credit(
        arguments["credit"], "credit"
    )


def add_credit(flights: Mapping[RequestId, InFlight], arguments: object) -> Answer:
    """The call `credit`: let a stream send so many more answers. A stream that has ended needs none."""
    checked = check_arguments(_CREDIT_ARGUMENTS, arguments)
    flight = flights.get(checked["stream"])
    if flight is not None:
        flight.add_credit(checked["add"])
    return {}


def cancel(flights: Mapping[RequestId, InFlight], arguments: object) -> Answer:
    """The call `cancel`: end a command or stream, which answers for itself; says whether there was one."""
    checked = check_arguments(_CANCEL_ARGUMENTS, arguments)
    flight = flights.get(checked["id"])
    if flight is not None:
        flight.cancel()
    return {"found": flight is not None}


# Calls about other calls of the same connection: the server answers them itself.
CONTROLS = {"credit": add_credit, "cancel": cancel}

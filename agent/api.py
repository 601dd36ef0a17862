"""The local API without a socket: what a handler is, what it gets, and the register that finds it by name.

Modules named `calls_*` hold the handlers, one function and one entry of a `CALLS` tuple each. A handler gets a request
whose arguments are checked and whose caller is allowed, reads the backend's current view, and answers plain values. The
Unix socket and HTTP serve the same register.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs

from ..capabilities.errors import shown
from ..capabilities.values import CapValue
from ..gossip.member import Address
from ..placement.view import View
from .arguments import Argument, check_arguments
from .doctor import Facts
from .errors import NoPermission, UnknownCall
from .histories import Histories
from .keys import Keys
from .nearest import nearest
from .peer import Level
from .schedule import Schedule
from .surveyor import Reloaded
from .watchers import Watchers

# The versions of the framed protocol that this agent speaks, lowest and highest.
PROTOCOL = (1, 1)

Answer = dict[str, Any]


class Backend(Protocol):
    """What the handlers need of an agent. All of it is called in trio's thread; only the `async` ones may wait.

    Methods that change something raise a `ShoalError` that says why they did not.
    """

    @property
    def node_id(self) -> str:
        """Our id as 32 hex digits; another one after a conflict of identities."""
        ...

    @property
    def view(self) -> View:
        """The current picture, with dead and left nodes; swapped before `watchers` are told of a change."""
        ...

    @property
    def watchers(self) -> Watchers: ...

    @property
    def operator_labels(self) -> Mapping[str, CapValue]:
        """The labels that configuration and operators gave this node, in force now."""
        ...

    @property
    def histories(self) -> Histories:
        """What this and the other nodes remember of runs and failures."""
        ...

    @property
    def schedule(self) -> Schedule:
        """Whether this node takes new work."""
        ...

    @property
    def keys(self) -> Keys | None:
        """What this agent seals its gossip with; None: it does not."""
        ...

    def now(self) -> float:
        """Seconds of the clock that `NodeRecord.vitals_at` is in."""
        ...

    def unix(self) -> float:
        """Unix time in seconds, of the same moment: what outlives a restart is dated by it."""
        ...

    def next_seed(self) -> int:
        """A seed for a placement that brings none; another one for each."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Facts about this agent as plain values: see `calls_nodes.status` for those that are shown first."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be read of this machine, or not believed, each once."""
        ...

    async def reload(self) -> Reloaded:
        """Detect again and read the configuration's labels again; publishes what is new."""
        ...

    async def examine(self) -> Facts:
        """What the doctor judges; asks peers and the name service, which takes up to some seconds."""
        ...

    def set_labels(self, labels: Mapping[str, CapValue]) -> None:
        """Set operator labels of this node, all or none, and publish the new record once."""
        ...

    def unset_labels(self, keys: Sequence[str]) -> Sequence[str]:
        """Take operator labels away and publish once; answers the keys that were set."""
        ...

    def forget(self, node_id: str) -> None:
        """Make a tombstone of a node that is dead or left."""
        ...

    async def join(self, addresses: Sequence[Address]) -> int:
        """Ask these addresses to join their cluster; answers how many did answer, returning when that is known."""
        ...

    async def leave(self) -> None:
        """Tell the cluster that this node leaves; returns when it has been told."""
        ...

    def stop(self) -> None:
        """End the agent. Called after `leave`, when its answer has been sent."""
        ...


@attrs.frozen
class Request:
    """One call that may run: its checked arguments, and what it works on."""

    arguments: Mapping[str, Any]
    backend: Backend
    api: Api
    level: Level


@attrs.frozen
class Pages:
    """An answer in parts: each is sent as a reply of its own, and the client joins their lists.

    The loop serves others between two parts, so a cluster of ten thousand nodes does not stall gossip. All parts are
    of the one view that the handler read.
    """

    parts: Iterator[Answer]


@attrs.frozen
class Later:
    """An answer that takes longer than the loop may wait: `work` is called in a thread.

    It reads only what never changes, such as the view that the handler took.
    """

    work: Callable[[], Answer | Pages]


class Outlet(Protocol):
    """Where a stream's answers go."""

    async def send(self, answer: Answer) -> None:
        """Send one answer when the client has credit and room for it."""
        ...


@attrs.frozen(kw_only=True)
class Query:
    """A call that answers from the current view: at once, in parts, or out of the loop."""

    name: str
    level: Level = Level.READ
    arguments: tuple[Argument, ...] = ()
    answer: Callable[[Request], Answer | Pages | Later]


@attrs.frozen(kw_only=True)
class Command:
    """A call that may wait, until its own deadline at most.

    `then` runs once its answer has been sent, or its client is gone; not when it failed.
    """

    name: str
    level: Level = Level.ADMIN
    arguments: tuple[Argument, ...] = ()
    run: Callable[[Request], Awaitable[Answer]]
    then: Callable[[Backend], None] | None = None


@attrs.frozen(kw_only=True)
class Stream:
    """A call that answers again and again until the client cancels it or goes."""

    name: str
    level: Level = Level.READ
    arguments: tuple[Argument, ...] = ()
    run: Callable[[Request, Outlet], Awaitable[None]]


Call = Query | Command | Stream


class Api:
    """The register of calls, over one backend. `counters` counts calls by name, and errors by kind."""

    def __init__(self, backend: Backend, calls: Iterable[Call]) -> None:
        self.backend = backend
        self._calls = {call.name: call for call in calls}
        self.counters: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._calls)

    def call(self, name: object) -> Call:
        found = self._calls.get(name) if isinstance(name, str) else None
        if found is None:
            close = nearest(name, self._calls) if isinstance(name, str) else None
            raise UnknownCall(
                f"there is no call {shown(name)}",
                hint=f"did you mean {close}?" if close else "see `hello` for the calls",
            )
        return found

    def request(self, call: Call, arguments: object, level: Level) -> Request:
        """A request that may run.

        Raises:
            NoPermission: the caller's level is below the call's.
            BadArgument: see `check_arguments`.
        """
        if level < call.level:
            raise NoPermission(
                f"{call.name} needs the level {call.level.name.lower()}, this user has {level.name.lower()}",
                hint="use sudo" if call.level is Level.ADMIN else "join the group of the socket, or use sudo",
            )
        return Request(check_arguments(call.arguments, arguments), self.backend, self, level)

    def count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

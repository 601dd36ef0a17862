"""Who is told of changes, each at its own pace and within a bound.

The roster publishes; the local API and embedding programs subscribe. A subscriber that does not keep up loses its queue
and is told so once: it reads the whole view again. Nobody waits for it, and it never holds more than `QUEUE` changes.
"""

from __future__ import annotations

from collections import deque
from typing import Self

import attrs
import trio

from ..placement.nodes import NodeRecord

# A node's restart is a handful of changes, a burst of joins one per node: a reader that is 512 behind is better served
# by a snapshot. Entries share the view's records, so a queue costs little memory of its own.
QUEUE = 512

# The kind whose changes only subscribers that ask for them get: every node has one every few seconds.
VITALS = "vitals"


@attrs.frozen(kw_only=True)
class NodeEvent:
    """One change, with the node as it is afterwards.

    `kind` is one of joined, suspected, refuted, failed, left, replaced, forgotten, address, record, schedule, runtimes,
    engines, history, keys, vitals, udp-broken, udp-works; name-conflict, once for two live nodes of one name, with the
    other one; or, about the own node, isolated, connected, conflict. `record` is None when the node is gone from the
    view. `at` is Unix time in seconds, for people.
    """

    kind: str
    node_id: str
    record: NodeRecord | None
    other: NodeRecord | None = None
    at: float


@attrs.frozen
class Missed:
    """Changes were lost to this subscriber: what it knows must be replaced by the current view."""


class Subscription:
    """A queue of changes. Use as a context manager, in trio's thread; ends with the block."""

    def __init__(self, watchers: Watchers, *, vitals: bool, limit: int) -> None:
        self._watchers = watchers
        self.vitals = vitals
        self._limit = limit
        self._queue: deque[NodeEvent] = deque()
        self._missed = False
        self._ready = trio.Event()

    def __enter__(self) -> Self:
        self._watchers.add(self)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._watchers.discard(self)

    def offer(self, event: NodeEvent) -> None:
        if event.kind == VITALS and not self.vitals:
            return
        if len(self._queue) >= self._limit:
            self._queue.clear()
            self._missed = True
        if not self._missed:
            self._queue.append(event)
        self._ready.set()

    def take(self) -> NodeEvent | Missed | None:
        """The next change, `Missed` once after a loss, or None when there is nothing now."""
        if self._missed:
            self._missed = False
            return Missed()
        if self._queue:
            return self._queue.popleft()
        return None

    async def next_change(self) -> NodeEvent | Missed:
        while (change := self.take()) is None:
            self._ready = trio.Event()
            await self._ready.wait()
        return change


class Watchers:
    """Everyone who is told. `publish` after the view was swapped, so that a reader never sees less than it was told."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def publish(self, event: NodeEvent) -> None:
        for subscription in self._subscriptions:
            subscription.offer(event)

    def subscribe(self, *, vitals: bool = False, limit: int = QUEUE) -> Subscription:
        return Subscription(self, vitals=vitals, limit=limit)

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)

    def discard(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    @property
    def of_vitals(self) -> int:
        """How many of them want to be told of vitals too."""
        return sum(subscription.vitals for subscription in self._subscriptions)

    def __len__(self) -> int:
        return len(self._subscriptions)

"""Tables of many nodes that share what is equal: a simulated cluster at rest holds each row once, not N times.

A node's table copies an entry when it first edits it. Everything else is as in `table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random

from .items import BUCKETS, digest_of
from .member import Address, Claim, Identity, Rank, Section, State
from .messages import Head, Row
from .node import Node
from .settings import Settings
from .table import Entry, Population, Table

_FIRST_VERSION = 1


class Base:
    """What all nodes of a cluster at rest know: every node alive, at its first incarnation, with its sections."""

    def __init__(self, nodes: Iterable[tuple[Identity, Address, Mapping[int, bytes]]]) -> None:
        table = Table(0.0)
        for identity, address, payloads in nodes:
            table.add(_entry(identity, address, payloads), 0.0)
        self.entries = {entry.node_id: entry for entry in table}
        self.ids = list(self.entries)
        self.places = {node_id: place for place, node_id in enumerate(self.ids)}
        self.hash, self.buckets = table.hash, tuple(table.buckets)


def _entry(identity: Identity, address: Address, payloads: Mapping[int, bytes]) -> Entry:
    made = identity.generation
    sections = {kind: Section(made, _FIRST_VERSION, digest_of(payload), payload) for kind, payload in payloads.items()}
    heads = tuple(Head(kind, _FIRST_VERSION, sections[kind].digest) for kind in sorted(sections))
    entry = Entry(Row(Claim(identity.node_id, made, 0, Rank.ALIVE, address), heads), State.ALIVE, 0.0)
    entry.sections = sections
    return entry


def _copy(entry: Entry) -> Entry:
    twin = Entry.__new__(Entry)
    for name in Entry.__slots__:
        setattr(twin, name, getattr(entry, name))
    return twin


class SharedPopulation(Population):
    """The others of a base, with those that went and those that came."""

    def __init__(self, base: Base, me: bytes) -> None:
        super().__init__()
        self._base = base
        self._gone = {me}
        self._left = 0
        self._moved: dict[int, int] = {}
        """Of this round's shuffle: which place of the base stands at another place."""

    def __len__(self) -> int:
        return len(self._base.ids) - len(self._gone) + len(self._ids)

    def __contains__(self, node_id: bytes) -> bool:
        return (node_id in self._base.places and node_id not in self._gone) or node_id in self._places

    def __iter__(self) -> Iterator[bytes]:
        yield from (node_id for node_id in self._base.ids if node_id not in self._gone)
        yield from self._ids

    def add(self, node_id: bytes) -> None:
        if node_id in self._base.places:
            self._gone.discard(node_id)
        else:
            super().add(node_id)

    def discard(self, node_id: bytes) -> None:
        if node_id in self._base.places:
            self._gone.add(node_id)
        else:
            super().discard(node_id)

    def sample(self, chance: Random, count: int) -> list[bytes]:
        count = min(count, len(self))
        if 2 * count > len(self):
            return chance.sample(list(self), count)
        ids, extra = self._base.ids, self._ids
        chosen: dict[bytes, None] = {}
        while len(chosen) < count:
            place = chance.randrange(len(ids) + len(extra))
            node_id = ids[place] if place < len(ids) else extra[place - len(ids)]
            if node_id not in self._gone:
                chosen[node_id] = None
        return list(chosen)

    def draw(self, chance: Random) -> bytes | None:
        """As a shuffle of the base from which each round takes one at a time; newcomers are drawn as they are."""
        if self._round and chance.randrange(self._left + len(self._round)) >= self._left:
            return super().draw(chance)
        for _ in range(2):
            while self._left:
                place = chance.randrange(self._left)
                self._left -= 1
                node_id = self._base.ids[self._moved.get(place, place)]
                self._moved[place] = self._moved.pop(self._left, self._left)
                if node_id not in self._gone:
                    return node_id
            self._left = len(self._base.ids)
            self._moved = {}
            self._round = list(self._ids)
        return None


class SharedTable(Table):
    """A table over a base: what this node changed is its own, the rest is the base's."""

    def __init__(self, base: Base, me: Entry, reap_after: float) -> None:
        super().__init__(reap_after)
        self._base = base
        self._removed: set[bytes] = set()
        self._entries[me.node_id] = me
        self.live = SharedPopulation(base, me.node_id)
        self.hash, self.buckets = base.hash, list(base.buckets)
        assert len(self.buckets) == BUCKETS  # noqa: S101 - of the same build

    def __iter__(self) -> Iterator[Entry]:
        yield from self._entries.values()
        own, removed = self._entries, self._removed
        yield from (e for node_id, e in self._base.entries.items() if node_id not in own and node_id not in removed)

    def __len__(self) -> int:
        base = self._base.entries
        return len(base) - len(self._removed) + sum(node_id not in base for node_id in self._entries)

    def get(self, node_id: bytes) -> Entry | None:
        found = self._entries.get(node_id)
        if found is None and node_id not in self._removed:
            return self._base.entries.get(node_id)
        return found

    def edit(self, node_id: bytes) -> Entry:
        found = self._entries.get(node_id)
        if found is None:
            found = self._entries[node_id] = _copy(self._base.entries[node_id])
        return found

    def add(self, entry: Entry, now: float) -> None:
        if entry.node_id in self._base.entries and entry.node_id not in self._entries:
            self._removed.discard(entry.node_id)
        super().add(entry, now)

    def remove(self, node_id: bytes, now: float) -> None:
        self.edit(node_id)
        if node_id in self._base.entries:
            self._removed.add(node_id)
        super().remove(node_id, now)


class SharingNode(Node):
    """A node that begins in the middle of a cluster at rest."""

    def __init__(
        self, identity: Identity, settings: Settings, chance: Random, base: Base, *, advertise: Address
    ) -> None:
        super().__init__(identity, settings, chance, advertise=advertise)
        core = self._core
        mine = base.entries[identity.node_id]
        core.me.row, core.me.sections, core.me.hash = mine.row, mine.sections, mine.hash
        core.table = SharedTable(base, core.me, settings.reap_after)

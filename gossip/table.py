"""What this node holds about every node it knows of, the hashes over it, and the order of probing."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from random import Random
from types import MappingProxyType

from .items import BUCKETS, pack_row
from .member import NO_SECTIONS, Address, Claim, Member, Rank, Section, State
from .messages import Head, Row
from .vitals import Vitals

NEVER = float("-inf")
_HASH_MASK = 0xFFFFFFFF
_LIVENESS = struct.Struct(">16sQIBB")
_VERSION = struct.Struct(">BQI")


_MOST_HASTENED = 16  # where more are suspected at once, the rounds find them as fast


class Entry:
    """One node as it is held here. Changed only by `liveness`, `sections` and the prober, through `Table.edit`."""

    __slots__ = (
        "deadline",
        "ended_at",
        "ghost",
        "hash",
        "heard_at",
        "hearsay",
        "packed",
        "reaped",
        "row",
        "rtt",
        "rtt_spread",
        "sections",
        "shown",
        "shown_at",
        "since",
        "udp_broken",
        "validated",
        "vitals",
        "vitals_at",
        "vitals_generation",
    )

    def __init__(self, row: Row, shown: State, now: float) -> None:
        self.row = row
        self.shown = shown
        self.shown_at = now
        self.since = now
        """When this version of the claim first stopped being shown alive here."""
        self.deadline = NEVER
        """When a suspicion ends in death."""
        self.ended_at = now
        """When the node died or left, as far as anyone told."""
        self.sections: Mapping[int, Section] = NO_SECTIONS
        self.vitals: bytes | None = None
        self.vitals_generation = 0
        self.vitals_at = NEVER
        self.heard_at = NEVER
        self.rtt: float | None = None
        self.rtt_spread = 0.0
        self.udp_broken = False
        self.validated: Address | None = None
        """An address from which it answered an unpredictable request id: it may be sent more than it sends."""
        self.ghost = False
        """Dead or left when first heard of: a tombstone that was never shown."""
        self.reaped = False
        self.hearsay = False
        """From before a long absence, and not confirmed since: an address to ask, no more."""
        self.packed: bytes | None = None
        self.hash = 0

    @property
    def claim(self) -> Claim:
        return self.row.claim

    @property
    def node_id(self) -> bytes:
        return self.row.claim.node_id

    @property
    def live(self) -> bool:
        return self.shown is State.ALIVE or self.shown is State.SUSPECT

    @property
    def pending(self) -> bool:
        """Claimed dead by others, and still with time to refute: not to be passed on as dead."""
        return self.row.claim.rank is Rank.DEAD and self.shown is State.SUSPECT

    def head(self, kind: int) -> Head | None:
        """The newest version of a section that is known of, held or not."""
        return next((head for head in self.row.heads if head.kind == kind), None)

    def told(self) -> Row:
        """The row to pass on."""
        if self.pending:
            return self.row._replace(claim=self.row.claim._replace(rank=Rank.SUSPECT))
        return self.row

    def member(self) -> Member:
        claim = self.row.claim
        known = self.vitals is not None
        return Member(
            node_id=claim.node_id,
            generation=claim.generation,
            incarnation=claim.incarnation,
            address=claim.address,
            state=self.shown,
            since=self.shown_at,
            sections=MappingProxyType(dict(self.sections)),
            vitals=Vitals.unpack(self.vitals) if self.vitals is not None else None,
            vitals_at=self.vitals_at if known else None,
            udp_broken=self.udp_broken,
        )


def bucket_of(node_id: bytes) -> int:
    return node_id[0] % BUCKETS


def differing_buckets(ours: Iterable[int], theirs: Iterable[int]) -> set[int]:
    return {index for index, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other}


class Population:
    """A set of ids with a fair draw in O(1), and the shuffled round of the prober over it."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._round: list[bytes] = []
        self._hastened: list[bytes] = []

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, node_id: bytes) -> bool:
        return node_id in self._places

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._ids)

    def add(self, node_id: bytes) -> None:
        """A new one is drawn at a random place of what is left of this round."""
        if node_id not in self._places:
            self._places[node_id] = len(self._ids)
            self._ids.append(node_id)
            self._round.append(node_id)

    def discard(self, node_id: bytes) -> None:
        place = self._places.pop(node_id, None)
        if place is None:
            return
        last = self._ids.pop()
        if last != node_id:
            self._ids[place] = last
            self._places[last] = place

    def sample(self, chance: Random, count: int) -> list[bytes]:
        """Up to `count` different ids."""
        return chance.sample(self._ids, min(count, len(self._ids)))

    def hasten(self, node_id: bytes) -> None:
        """Draw that one next, beside its turn in the round."""
        if len(self._hastened) < _MOST_HASTENED:
            self._hastened.append(node_id)

    def draw(self, chance: Random) -> bytes | None:
        """The next of a shuffled round robin: a uniform draw from those that this round has not had."""
        while self._hastened:
            node_id = self._hastened.pop()
            if node_id in self._places:
                return node_id
        for _ in range(2):
            while self._round:
                place = chance.randrange(len(self._round))
                node_id = self._round[place]
                self._round[place] = self._round[-1]
                self._round.pop()
                if node_id in self._places:
                    return node_id
            self._round = list(self._ids)
        return None


class Table:
    """All entries, this node's own among them."""

    def __init__(self, reap_after: float) -> None:
        self._reap_age = int(reap_after)
        self._entries: dict[bytes, Entry] = {}
        self.live = Population()
        """Members shown alive or suspect, less this node."""
        self.suspects: set[bytes] = set()
        self.gone: set[bytes] = set()
        """Dead, left and tombstones."""
        self.hash = 0
        self.buckets = [0] * BUCKETS
        self.changed_at = NEVER
        self.bucket_changed_at = [NEVER] * BUCKETS
        self.grown_at = NEVER

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Members shown alive or suspect, this node included."""
        return len(self.live) + 1

    def get(self, node_id: bytes) -> Entry | None:
        """To read only."""
        return self._entries.get(node_id)

    def edit(self, node_id: bytes) -> Entry:
        """To change; the id must be known."""
        return self._entries[node_id]

    def add(self, entry: Entry, now: float) -> None:
        self._entries[entry.node_id] = entry
        self.touch(entry, now)

    def remove(self, node_id: bytes, now: float) -> None:
        entry = self._entries.pop(node_id)
        self.live.discard(node_id)
        self.suspects.discard(node_id)
        self.gone.discard(node_id)
        self._count(entry, 0, now)

    def packed(self, entry: Entry) -> bytes:
        """The row item to pass on, without age."""
        if entry.packed is None:
            # A reaped one is old enough to be reaped wherever this arrives; a sync tells its true age.
            entry.packed = pack_row(entry.told(), self._reap_age if entry.reaped else None)
        return entry.packed

    def touch(self, entry: Entry, now: float) -> None:
        """Bring the packed row and the hashes up to date after any change of an entry."""
        entry.packed = None
        self._count(entry, 0 if entry.reaped else _hash(entry), now)

    def _count(self, entry: Entry, value: int, now: float) -> None:
        change = value - entry.hash
        if change:
            entry.hash = value
            bucket = bucket_of(entry.node_id)
            self.hash = (self.hash + change) & _HASH_MASK
            self.buckets[bucket] = (self.buckets[bucket] + change) & _HASH_MASK
            self.changed_at = self.bucket_changed_at[bucket] = now


def _hash(entry: Entry) -> int:
    """What two equal tables agree on: not suspicions, accusers, addresses or vitals, nor what an earlier run published.

    A restarted node holds nothing of its earlier run: were that hashed elsewhere, tables would differ for ever.
    """
    claim = entry.row.claim
    dead = entry.shown is State.DEAD
    fixed = _LIVENESS.pack(claim.node_id, claim.generation, claim.incarnation, claim.rank is Rank.LEFT, dead)
    versions = [
        _VERSION.pack(kind, section.generation, section.version)
        for kind, section in sorted(entry.sections.items())
        if section.generation == claim.generation
    ]
    return int.from_bytes(blake2b(b"".join((fixed, *versions)), digest_size=4).digest(), "big")

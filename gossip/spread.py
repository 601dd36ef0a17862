"""Dissemination: the queue of news, packing by bytes, and the gossip tick that runs only while something is queued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from . import items, wire
from .core import Core
from .effects import Purpose
from .frames import PAYLOAD_BYTES
from .suspicion import send_limit

# Sections may take this much of a packet while rows wait: 40 % of a datagram, room for a record of 60 labels.
SECTION_SHARE_BYTES = 480
# A section that fits an otherwise empty gossip packet is spread; a bigger one is announced by its row and pulled.
LARGEST_SPREAD = PAYLOAD_BYTES - wire.PING_BYTES - 30 - items.SECTION_OVERHEAD
_SMALLEST_ROW = 33  # a row item without address and sections: with less room than this, packing stops
_TYPICAL_ROW = 56  # IPv4, one section
_MOST_MISFITS = 3  # bigger things than the room left are passed over this often before the packet is closed
_DRAWN_SHARE = 3  # members drawn for each receiver, so that the suspected can be passed over
# The first tick after a pause comes within this share of a tick, so that ticks of nodes do not align.
_FIRST_TICK_SHARE = 0.5

Key = TypeVar("Key")


class Queue(Generic[Key]):
    """Subjects of news by how often they were sent; one entry per subject, so it is as bounded as the table."""

    def __init__(self) -> None:
        self._levels: list[dict[Key, None]] = [{}]
        self._level_of: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def __contains__(self, key: Key) -> bool:
        return key in self._level_of

    def push(self, key: Key, *, first: bool = False) -> None:
        """Queue it with a send count of 0; `first`: before everything else."""
        self.discard(key)
        if first:
            self._levels[0] = {key: None, **self._levels[0]}
        else:
            self._levels[0][key] = None
        self._level_of[key] = 0

    def discard(self, key: Key) -> None:
        level = self._level_of.pop(key, None)
        if level is not None:
            del self._levels[level][key]

    def take(self, packed: Callable[[Key], bytes | None], budget: int, limit: int) -> list[bytes]:
        """Least-sent first, as much as fits `budget` bytes. What was sent `limit` times is done.

        `packed` gives the bytes of a subject, or None when there is nothing to say of it any more.
        """
        chosen: list[tuple[Key, bytes | None]] = []
        misfits = 0
        for key in (key for level in self._levels for key in level):
            if budget < _SMALLEST_ROW or misfits == _MOST_MISFITS:
                break
            data = packed(key)
            if data is None or len(data) <= budget:
                chosen.append((key, data))
                budget -= len(data or b"")
            else:
                misfits += 1
        for key, data in chosen:
            self._sent(key, limit, gone=data is None)
        return [data for _, data in chosen if data is not None]

    def _sent(self, key: Key, limit: int, *, gone: bool) -> None:
        level = self._level_of.pop(key)
        del self._levels[level][key]
        if gone or level + 1 >= limit:
            return
        if level + 1 == len(self._levels):
            self._levels.append({})
        self._levels[level + 1][key] = None
        self._level_of[key] = level + 1


class Spread:
    """News of this node: what to say, to whom, when."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.rows: Queue[bytes] = Queue()
        self.sections: Queue[tuple[bytes, int]] = Queue()
        self.muted = False
        """While what a join teaches is taken in: everybody else knows it."""
        self._ticking = False
        self._tick_number = 0
        self._ticked_at = float("-inf")

    def __len__(self) -> int:
        return len(self.rows) + len(self.sections)

    def row(self, node_id: bytes, now: float, *, first: bool = False) -> None:
        """Queue the row of a node."""
        if self.muted or (self._core.stale and node_id != self._core.identity.node_id):
            return
        self.rows.push(node_id, first=first)
        self.arm(now)

    def section(self, node_id: bytes, kind: int, now: float) -> None:
        """Queue a section, if it can travel by packet at all."""
        entry = self._core.table.get(node_id)
        held = None if entry is None else entry.sections.get(kind)
        if held is not None and len(held.payload) <= LARGEST_SPREAD and not self.muted and not self._core.stale:
            self.sections.push((node_id, kind))
            self.arm(now)

    def clear(self) -> None:
        """Drop everything queued: after a gap it is old news."""
        self.rows = Queue()
        self.sections = Queue()

    def arm(self, now: float) -> None:
        """Start ticking, if there is something to say and someone to say it to."""
        core = self._core
        if self._ticking or not core.table.live or not len(self):
            return
        self._ticking = True
        self._tick_number += 1
        tick = core.settings.gossip_tick
        after = max(self._ticked_at + tick - now, core.chance.random() * _FIRST_TICK_SHARE * tick)
        core.wake(Purpose.GOSSIP, after, number=self._tick_number)

    def tick(self, number: int, now: float) -> None:
        """The timer fired."""
        if number != self._tick_number or not self._ticking:
            return
        self._ticking = False
        self.burst(self._core.settings.fanout, now)
        self.arm(now)

    def burst(self, receivers: int, now: float) -> None:
        """Say what is queued to that many random members now."""
        core = self._core
        if core.paused:
            return
        self._ticked_at = now
        for node_id in self._receivers(receivers):
            if not len(self):
                return
            entry = core.table.get(node_id)
            if entry is None or entry.claim.address is None:
                continue
            # The receiver's own state first, if it has reason to deny it.
            first = () if entry.claim.rank == 0 else (core.table.packed(entry),)
            body = [*first, *self.fill(PAYLOAD_BYTES - wire.HEADER_BYTES - len(core.origin()) - sum(map(len, first)))]
            core.send(core.message(wire.GOSSIP, body), entry.claim.address)

    def _receivers(self, count: int) -> list[bytes]:
        """Random members, those shown alive first: pings tell the suspected, and the dead need no news."""
        core, suspects = self._core, self._core.table.suspects
        if not suspects:
            return core.table.live.sample(core.chance, count)
        drawn = core.table.live.sample(core.chance, _DRAWN_SHARE * count)
        return sorted(drawn, key=suspects.__contains__)[:count]

    def fill(self, budget: int) -> list[bytes]:
        """Items for a packet with `budget` bytes left; counts them as sent."""
        if not len(self) or budget < _SMALLEST_ROW or self._core.paused:
            return []
        limit = send_limit(self._core.settings, self._core.table.size)
        sections: list[bytes] = []
        if len(self.sections):
            waiting = len(self.rows) * _TYPICAL_ROW
            share = max(min(SECTION_SHARE_BYTES, budget), budget - waiting)
            sections = self.sections.take(self._packed_section, share, limit)
        rows = self.rows.take(self._packed_row, budget - sum(map(len, sections)), limit)
        return rows + sections

    def _packed_row(self, node_id: bytes) -> bytes | None:
        entry = self._core.table.get(node_id)
        return None if entry is None else self._core.table.packed(entry)

    def _packed_section(self, key: tuple[bytes, int]) -> bytes | None:
        entry = self._core.table.get(key[0])
        held = None if entry is None else entry.sections.get(key[1])
        return None if held is None else items.pack_section(key[0], key[1], held)

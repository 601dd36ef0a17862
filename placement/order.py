"""A sorted sequence that is never changed: an update gives a new one that shares all blocks but one or two.

Entries are tuples that end with the slot they stand for, so no two are equal. Each block knows its slots as a bit
set, so that a range of values is a few ORs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Any

from .bits import mask_of

Entry = tuple[Any, ...]
Block = tuple[Entry, ...]

# A block is copied on each update and searched bit by bit at the edge of a range; blocks are ORed in between. For ten
# thousand entries both sides cost about the same at this size.
_BLOCK = 64


class Order:
    """Sorted entries, immutable."""

    __slots__ = ("_blocks", "_masks", "_prefixes")

    def __init__(self, blocks: tuple[Block, ...] = (), masks: tuple[int, ...] = ()) -> None:
        self._blocks = blocks
        self._masks = masks
        self._prefixes: tuple[int, ...] | None = None

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Order:
        """The order of any entries."""
        ordered = sorted(entries)
        blocks = tuple(tuple(ordered[at : at + _BLOCK]) for at in range(0, len(ordered), _BLOCK))
        return cls(blocks, tuple(_mask(block) for block in blocks))

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self._blocks

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self._blocks)

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def moved(self, old: Entry | None, new: Entry | None) -> Order:
        """With `new` in place of `old`; either may be None: nothing to take out, or nothing to put in."""
        if old == new:
            return self
        blocks, masks = list(self._blocks), list(self._masks)
        if old is not None:
            _take_out(blocks, masks, old)
        if new is not None:
            _put_in(blocks, masks, new)
        return Order(tuple(blocks), tuple(masks))

    def before(self, key: Entry) -> int:
        """The slots of all entries that sort before the key, which may be the beginning of an entry."""
        at = bisect_left(self._blocks, (key,))
        if at == 0:
            return 0
        block = self._blocks[at - 1]
        inside = bisect_left(block, key)
        if inside == len(block):
            return self._prefix(at)
        return self._prefix(at - 1) | mask_of(entry[-1] for entry in block[:inside])

    def between(self, low: Entry, high: Entry) -> int:
        """The slots of the entries from `low` on that sort before `high`."""
        return self.before(high) & ~self.before(low)

    def _prefix(self, blocks: int) -> int:
        """The slots of the first blocks; worked out once per order, when first asked for."""
        if self._prefixes is None:
            self._prefixes = (0, *accumulate(self._masks, int.__or__))
        return self._prefixes[blocks]


def _mask(block: Block) -> int:
    return mask_of(entry[-1] for entry in block)


def _place(blocks: list[Block], entry: Entry) -> int:
    """The block that holds the entry, or would."""
    at = bisect_left(blocks, (entry,))
    if at < len(blocks) and blocks[at][0] == entry:
        return at
    return max(0, at - 1)


def _take_out(blocks: list[Block], masks: list[int], entry: Entry) -> None:
    at = _place(blocks, entry)
    block = blocks[at]
    inside = bisect_left(block, entry)
    left = (*block[:inside], *block[inside + 1 :])
    masks[at] ^= 1 << entry[-1]
    blocks[at] = left
    if not left:
        del blocks[at], masks[at]
    elif len(left) < _BLOCK // 4 and len(blocks) > 1:
        _join(blocks, masks, at if at + 1 < len(blocks) else at - 1)


def _join(blocks: list[Block], masks: list[int], at: int) -> None:
    """Make one block of two small neighbours, so that an order does not crumble."""
    if len(blocks[at]) + len(blocks[at + 1]) <= _BLOCK:
        blocks[at : at + 2] = [blocks[at] + blocks[at + 1]]
        masks[at : at + 2] = [masks[at] | masks[at + 1]]


def _put_in(blocks: list[Block], masks: list[int], entry: Entry) -> None:
    if not blocks:
        blocks.append((entry,))
        masks.append(1 << entry[-1])
        return
    at = _place(blocks, entry)
    block = blocks[at]
    inside = bisect_left(block, entry)
    grown = (*block[:inside], entry, *block[inside:])
    if len(grown) <= 2 * _BLOCK:
        blocks[at] = grown
        masks[at] |= 1 << entry[-1]
        return
    halves = [grown[:_BLOCK], grown[_BLOCK:]]
    blocks[at : at + 1] = halves
    masks[at : at + 1] = [_mask(half) for half in halves]

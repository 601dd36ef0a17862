"""A growable array that is never changed: an update copies one block of it and the list of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import Generic, TypeVar

from .bits import is_sparse, selectors, slots_of

T = TypeVar("T")

_SHIFT = 6
_BLOCK = 1 << _SHIFT
_INSIDE = _BLOCK - 1


class Slots(Generic[T]):
    """Items by slot, immutable. A slot is a small int; one that is given up holds None until it is used again."""

    __slots__ = ("_blocks", "size")

    def __init__(self, blocks: tuple[tuple[T | None, ...], ...] = (), size: int = 0) -> None:
        self._blocks = blocks
        self.size = size
        """One more than the highest slot."""

    def __getitem__(self, slot: int) -> T | None:
        return self._blocks[slot >> _SHIFT][slot & _INSIDE]

    def __iter__(self) -> Iterator[T | None]:
        return chain.from_iterable(self._blocks)

    def chosen(self, mask: int) -> list[T]:
        """The items in the slots of a set (see `bits`), ascending by slot."""
        if is_sparse(mask, self.size):
            found = [self[slot] for slot in slots_of(mask)]
        else:
            found = list(compress(self, selectors(mask)))
        return [item for item in found if item is not None]

    def set(self, slot: int, item: T | None) -> Slots[T]:
        """With the item in the slot, which may be the next new one."""
        at, inside = slot >> _SHIFT, slot & _INSIDE
        blocks = list(self._blocks)
        if at == len(blocks):
            blocks.append((item,))
        else:
            block = blocks[at]
            blocks[at] = (*block[:inside], item, *block[inside + 1 :])
        return Slots(tuple(blocks), max(self.size, slot + 1))


def in_slots(items: Iterable[T | None]) -> Slots[T]:
    """The items in slots 0, 1, 2, ..."""
    held = tuple(items)
    return Slots(tuple(held[at : at + _BLOCK] for at in range(0, len(held), _BLOCK)), len(held))

"""How old the picture of the cluster is; from the index, so that every answer can say it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .order import Block
from .view import View


@attrs.frozen(kw_only=True)
class Ages:
    """In seconds, of the nodes that are alive or suspect; None when none of them ever sent vitals.

    `stale` counts those whose vitals are too old to be relied on, `unknown` those that never sent any.
    """

    youngest: float | None
    oldest: float | None
    stale: int
    unknown: int


def ages_of(view: View, now: float) -> Ages:
    """The ages at `now`, a time of the clock of `NodeRecord.vitals_at`."""
    index = view.index
    timed = index.present & index.timed
    blocks = index.by_age.blocks
    oldest = _first(blocks, timed)
    youngest = _first((block[::-1] for block in reversed(blocks)), timed)
    return Ages(
        youngest=None if youngest is None else max(0.0, now - youngest),
        oldest=None if oldest is None else max(0.0, now - oldest),
        stale=(timed & ~index.fresh(now)).bit_count(),
        unknown=(index.present & ~index.timed).bit_count(),
    )


def _first(blocks: Iterable[Block], slots: int) -> float | None:
    """When the first entry of these slots was taken."""
    return next((entry[0] for block in blocks for entry in block if slots >> entry[-1] & 1), None)

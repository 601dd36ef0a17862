"""How much more unevenly the cluster's reservations would lie if a node took this task."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .facts import NodeFacts
from .headroom import rounded

# A task without a memory request counts as this many MiB.
_DEFAULT_REQUEST_MB = 1024
_SCALE = 30
_LEAST, _MOST = 5, 15


class Skew:
    """The reservations of all nodes, summed once; the penalty then depends only on the node's own figure."""

    __slots__ = ("_known", "_penalties", "_request", "_squares", "_total")

    def __init__(self, reservations: Mapping[str, int], memory_request_mb: int) -> None:
        self._known = reservations
        self._request = memory_request_mb if memory_request_mb > 0 else _DEFAULT_REQUEST_MB
        self._total = sum(reservations.values())
        self._squares = sum(amount * amount for amount in reservations.values())
        self._penalties: dict[tuple[int, bool], int] = {}

    def penalty(self, node: NodeFacts) -> int:
        """0, or 5 to 15 points when the task would make the distribution more uneven.

        A node that the state does not hold is added with its own figure. With one entry there is nothing to compare.
        """
        if len(self._known) <= 1:
            return 0
        held = self._known.get(node.key)
        return self.penalty_of(node.reserved_mb if held is None else held, added=held is None)

    def penalty_of(self, amount: int, *, added: bool) -> int:
        """The same for any node with this figure; `added` when the state does not hold it."""
        penalty = self._penalties.get((amount, added))
        if penalty is None:
            penalty = self._penalties[amount, added] = self._penalty(amount, added=added)
        return penalty

    def _penalty(self, amount: int, *, added: bool) -> int:
        count, total, squares = len(self._known), self._total, self._squares
        if added:
            count, total, squares = count + 1, total + amount, squares + amount * amount
        more = self._request
        before = count * squares - total * total
        after = count * (squares + 2 * amount * more + more * more) - (total + more) ** 2
        if after <= before:
            return 0
        grown = (math.sqrt(after) - math.sqrt(before)) / math.sqrt(after)
        return min(_MOST, max(_LEAST, rounded(_SCALE * grown)))

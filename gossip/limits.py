"""How often: bounds on what others can make this node do."""

from __future__ import annotations

from .member import Address
from .table import NEVER

# A member sends a few packets a second, a joiner of a cluster without TCP some hundred; more is a flood.
PACKETS_A_SECOND = 250
# Sources counted in one second; beyond it the first is forgotten, so that a flood of forged ones costs nobody else.
_MOST_SOURCES = 2048
# Refused packets are noted once in this time for each reason, with the address.
NOTE_SECONDS = 60.0
# Hosts named beside it: what an operator can look after, and a line holds.
_MOST_NAMED = 8


class Allowance:
    """At most so many times a second, whoever asks."""

    def __init__(self, a_second: int) -> None:
        self._most = a_second
        self._second = NEVER
        self._taken = 0

    def take(self, now: float) -> bool:
        """Whether once more is within the bound."""
        if now - self._second >= 1:
            self._second, self._taken = now, 0
        self._taken += 1
        return self._taken <= self._most


class SourceLimit:
    """Packets of each source in this second.

    Only opened frames are counted: else whoever forges a member's address could make us deaf to it. Opening costs
    less than looking.
    """

    def __init__(self) -> None:
        self._second = NEVER
        self._counts: dict[Address, int] = {}

    def take(self, source: Address, now: float) -> bool:
        """Count a packet; False when its source has had its share."""
        if now - self._second >= 1:
            self._second = now
            self._counts.clear()
        counts = self._counts
        count = counts.pop(source, 0) + 1
        counts[source] = count
        if len(counts) > _MOST_SOURCES:
            del counts[next(iter(counts))]
        return count <= PACKETS_A_SECOND


class Refusals:
    """What was refused for one reason since that was noted: a neighbour that sends much must not hide the others."""

    def __init__(self) -> None:
        self._noted_at = NEVER
        self._packets = 0
        self._sources: dict[str, Address] = {}

    def take(self, source: Address, now: float) -> tuple[int, list[Address]]:
        """Count a packet. How many there are to note by now, 0 while it is too early; and their other senders.

        Of each host the latest address, of the hosts those heard last.
        """
        self._packets += 1
        self._sources.pop(source[0], None)
        self._sources[source[0]] = source
        if len(self._sources) > _MOST_NAMED + 1:
            del self._sources[next(iter(self._sources))]
        if now - self._noted_at < NOTE_SECONDS:
            return 0, []
        packets, others = self._packets, [*self._sources.values()][:-1]
        self._noted_at, self._packets, self._sources = now, 0, {}
        return packets, others

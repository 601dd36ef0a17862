"""The network of a simulated cluster: how datagrams are lost, delayed, doubled, overtaken, and who is cut from whom."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import attrs

from .member import Address

UDP_HEADERS = 28  # IPv4 and UDP, counted into bytes as on the wire


@attrs.frozen(kw_only=True)
class Network:
    """How packets travel. Times in seconds, the rest shares of all datagrams. Streams lose nothing, as TCP repeats."""

    loss: float = 0.0
    shortest: float = 0.0005
    longest: float = 0.002
    doubled: float = 0.0
    """Delivered twice, at two moments."""
    held: float = 0.0
    """Delayed by up to `hold` more, and so overtaken by later ones."""
    hold: float = 1.0

    def delay(self, chance: Random) -> float:
        return self.shortest + (self.longest - self.shortest) * chance.random()

    def arrivals(self, chance: Random) -> tuple[float, ...]:
        """After how many seconds one datagram arrives: never, once or twice."""
        if self.loss and chance.random() < self.loss:
            return ()
        if not self.doubled and not self.held:
            return (self.delay(chance),)
        copies = 2 if chance.random() < self.doubled else 1
        return tuple(self._late(chance) for _ in range(copies))

    def _late(self, chance: Random) -> float:
        extra = self.hold * chance.random() if chance.random() < self.held else 0.0
        return self.delay(chance) + extra


class Cuts:
    """Which ways are blocked. Machines are named by their index. Everything is open at first."""

    def __init__(self) -> None:
        self._group_of: dict[int, int] | None = None
        self._ways: set[tuple[int, int, bool]] = set()
        self._deaf: set[tuple[int, bool]] = set()
        self.any = False

    def partition(self, *groups: Iterable[int]) -> None:
        """Only machines of one group reach each other; those in none reach nobody."""
        self._group_of = {index: number for number, group in enumerate(groups) for index in group}
        self.any = True

    def block(self, sources: Iterable[int], targets: Iterable[int], *, streams: bool = True) -> None:
        """Lose what the ones send the others, that way only. Without `streams` only datagrams are lost."""
        kinds = (False, True) if streams else (False,)
        targets = list(targets)
        self._ways.update((one, other, kind) for one in sources for other in targets for kind in kinds)
        self.any = True

    def block_streams(self, indexes: Iterable[int]) -> None:
        """No stream goes through between these machines; datagrams do."""
        indexes = list(indexes)
        self._ways.update((one, other, True) for one in indexes for other in indexes)
        self.any = True

    def deafen(self, indexes: Iterable[int], *, streams: bool = True) -> None:
        """Nothing comes in there from anybody."""
        self._deaf.update((index, kind) for index in indexes for kind in ((False, True) if streams else (False,)))
        self.any = True

    def heal(self) -> None:
        """Open everything again."""
        self.__init__()

    def blocked(self, source: int, target: int, *, stream: bool) -> bool:
        if not self.any or source == target:
            return False
        groups = self._group_of
        if groups is not None and (source not in groups or groups[source] != groups.get(target)):
            return True
        return (target, stream) in self._deaf or (source, target, stream) in self._ways


def simulated_address(index: int, move: int = 0) -> Address:
    """Where a machine is at first, and after its address changed `move` times."""
    return f"10.{move}.{index >> 8}.{index & 255}", 7931

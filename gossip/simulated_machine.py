"""One simulated machine: its node, its clocks, and whether its process runs, is stopped or sleeps."""

from __future__ import annotations

import attrs

from .frames import Frames
from .member import Address, Identity
from .node import Node

# Packets that the kernel keeps for a stopped process: a receive buffer of 208 KiB with some 800 B for a small packet.
_MOST_KEPT = 256


@attrs.define(eq=False)
class Clock:
    """A monotonic clock that drifts, and a wall clock that may be set to anything. Both run from their own origin."""

    rate: float = 1.0
    """Seconds of this clock in one true second."""
    wall_error: float = 0.0
    """Seconds by which the wall clock is wrong; only generations see it."""
    _local: float = 0.0
    _true: float = 0.0

    def at(self, true: float) -> float:
        """What the monotonic clock shows at that moment of true time."""
        return self._local + (true - self._true) * self.rate

    def drift(self, rate: float, true: float) -> None:
        """Run at another rate from now on."""
        self._local, self._true, self.rate = self.at(true), true, rate

    def lose(self, seconds: float, true: float) -> None:
        """Stand still for that long, as CLOCK_MONOTONIC does while the machine sleeps."""
        self._local, self._true = self.at(true) - seconds * self.rate, true


@attrs.define(eq=False)
class Machine:
    """One machine and the node on it."""

    index: int
    address: Address
    node: Node
    identity: Identity
    """What its state directory holds."""
    clock: Clock = attrs.field(factory=Clock)
    up: bool = True
    life: int = 0
    """Raised at each crash and restart: what was meant for an earlier life is dropped."""
    moves: int = 0
    """How often its address changed."""
    left: bool = False
    seal: Frames | None = None
    """Its frames, where they are not those of a cluster without a key."""
    held_until: float = 0.0
    """True time until which the process does not run."""
    asleep: bool = False
    """The whole machine is suspended: nobody keeps its packets."""
    kept: int = 0
    """Packets waiting for the stopped process."""
    slow: float = 0.0
    """Each packet waits up to this many seconds before it is looked at, unnoticed by the process."""
    bytes_out: int = 0
    packets_out: int = 0
    stream_bytes_out: int = 0

    def accepts(self) -> bool:
        """Whether a packet that arrives now is kept for the process."""
        if self.asleep or self.kept >= _MOST_KEPT:
            return False
        self.kept += 1
        return True

"""What this node thinks of itself: how late it runs (Lifeguard's local health), and whether it hears anyone."""

from __future__ import annotations

WORST = 8  # deadlines stretch to nine times: beyond it a node is as good as stopped


class Health:
    """Local health and hearing. Times are the caller's clock, in seconds."""

    def __init__(self) -> None:
        self.score = 0
        self.heard_at: float | None = None
        """When anything valid came in from anyone; None before the first."""
        self.isolated = False

    @property
    def stretch(self) -> int:
        """Factor on the probe schedule and on its deadlines."""
        return 1 + self.score

    def worsen(self, by: int = 1) -> None:
        """For refuting oneself, for loop lag, and for nacks that did not come, less those that came."""
        self.score = min(WORST, max(0, self.score + by))

    def improve(self) -> None:
        """For a probe that was answered."""
        self.score = max(0, self.score - 1)

    def heard(self, now: float) -> bool:
        """Note a valid packet. True when that ends isolation."""
        self.heard_at = now
        ended, self.isolated = self.isolated, False
        return ended

    def silence(self, now: float) -> float:
        """Seconds since anyone was heard; 0 for a node that never heard anyone."""
        return 0.0 if self.heard_at is None else now - self.heard_at

    def listen(self, now: float, shortest: float) -> bool:
        """Judge the silence. True when isolation begins: nothing was heard for the shortest suspicion."""
        began = not self.isolated and self.silence(now) >= shortest
        self.isolated = self.isolated or began
        return began

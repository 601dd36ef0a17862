"""The memory model: what a node can still promise, in MiB."""

from __future__ import annotations

# Kept back for the system on every node that says nothing else.
SYSTEM_RESERVE_MB = 1024


def system_reserve(total_mb: int, override_mb: int = 0) -> int:
    """What the system keeps of a node's memory; an override that is not positive means the default."""
    if total_mb <= 0:
        return 0
    return min(total_mb, override_mb if override_mb > 0 else SYSTEM_RESERVE_MB)


def reservable(total_mb: int, free_mb: int, override_mb: int = 0) -> int:
    """What could be promised if nothing were: free memory, but never the system's share."""
    if free_mb <= 0:
        return 0
    if total_mb <= 0:
        return free_mb
    return min(free_mb, max(0, total_mb - system_reserve(total_mb, override_mb)))


def allocatable(total_mb: int, free_mb: int, reserved_mb: int, override_mb: int = 0) -> int:
    """What can still be promised: the reservable memory less what is reserved."""
    return max(0, reservable(total_mb, free_mb, override_mb) - max(0, reserved_mb))

"""Arithmetic of suspicion and of spreading: how long, how often, as functions of the count of members.

`size` counts the members shown alive or suspect, this node included.
"""

from __future__ import annotations

import math

from .settings import Settings


def shortest(settings: Settings, size: int) -> float:
    """Seconds that the most confirmed suspicion lasts: enough for a refutation to make its way back."""
    return settings.suspicion_multiplier * max(1.0, math.log10(max(size, 1))) * settings.probe_interval


def timeout(settings: Settings, size: int, confirmations: int) -> float:
    """Seconds that a suspicion lasts with `confirmations` accusers beyond the first (Lifeguard)."""
    low = shortest(settings, size)
    wanted = max(0, settings.suspicion_multiplier - 2)
    if wanted == 0 or size - 2 < wanted:
        return low
    high = settings.suspicion_max_multiplier * low
    share = math.log(confirmations + 1) / math.log(wanted + 1)
    return max(low, high - share * (high - low))


def spread_time(settings: Settings, size: int) -> float:
    """Seconds in which news reaches nearly everybody by gossip alone."""
    rounds = math.ceil(math.log(max(size, 2), settings.fanout + 1)) + 1
    return settings.gossip_tick * rounds


def send_limit(settings: Settings, size: int) -> int:
    """How often a queued row is sent."""
    return settings.retransmit_multiplier * max(1, math.ceil(math.log10(size + 1)))


def most_unconfirmed(size: int) -> int:
    """How many open suspicions that nobody else confirmed one node may hold: a deaf node cannot accuse everybody."""
    return 2 + int(math.log2(max(size, 1)))

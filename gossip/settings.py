"""Every number of the protocol that an operator may choose, with the three profiles."""

from __future__ import annotations

from typing import Any

import attrs

from .errors import SettingsRefused

# Four times the lan default; slower clusters would hold suspicions for many minutes.
LONGEST_INTERVAL = 60.0


@attrs.frozen(kw_only=True)
class Settings:
    """Timings and bounds of one cluster; the same on every node. Times are in seconds.

    The defaults are the `lan` profile. All intervals are configured values: health stretches them at run time.
    """

    cluster: str = "shoal"
    """Name of the cluster: part of every frame's checksum or seal, so that neighbours never mix."""

    probe_interval: float = 1.0
    """One member is pinged each interval."""
    probe_timeout: float = 0.5
    """How long a direct ack may take before any sample of the round trip, and how long relays have after that."""
    relays: int = 3
    """How many others are asked to ping a target that did not answer."""
    tcp_fallback: bool = True
    """Also ask a silent target over TCP, beside the relays."""

    gossip_tick: float = 0.2
    """Pause between gossip packets; runs only while something is queued."""
    fanout: int = 3
    """Receivers of each tick."""
    retransmit_multiplier: int = 4
    """A queued row is sent this many times ceil(log10(N + 1))."""

    suspicion_multiplier: int = 4
    """Shortest suspicion, in intervals times log10(N)."""
    suspicion_max_multiplier: int = 6
    """Longest suspicion, as a multiple of the shortest."""

    sync_interval: float = 30.0
    """Patience of anti-entropy: differing hashes for this long start a sync; a sync that taught nothing waits it."""
    extra_sync_after: float = 1.0
    """One more sync this long after joining, because a fresh joiner may have missed its neighbours' joins."""
    retry_interval: float = 10.0
    """How often a dead member or an unreached seed may be pinged again; for ever."""

    vitals_budget: int = 400
    """Bytes a second spent on relaying others' vitals; 0 switches the relay off."""
    reap_after: float = 24 * 3600.0
    """A member dead or left for this long loses its sections and leaves the hashes; its tombstone stays."""
    forget_after: float = 7 * 24 * 3600.0
    """A tombstone of this age is dropped."""

    def __attrs_post_init__(self) -> None:
        for name in ("probe_interval", "probe_timeout", "gossip_tick", "sync_interval", "retry_interval"):
            self._check(name, "more than 0 seconds", holds=getattr(self, name) > 0)
        for name in ("fanout", "retransmit_multiplier", "suspicion_multiplier", "suspicion_max_multiplier"):
            self._check(name, "between 1 and 16", holds=1 <= getattr(self, name) <= 16)
        longest = f"at most {LONGEST_INTERVAL} seconds"
        self._check("probe_interval", longest, holds=self.probe_interval <= LONGEST_INTERVAL)
        self._check("probe_timeout", "less than probe_interval", holds=self.probe_timeout < self.probe_interval)
        self._check("relays", "between 0 and 16", holds=0 <= self.relays <= 16)
        self._check("cluster", "1 to 255 bytes of UTF-8", holds=0 < len(self.cluster.encode()) <= 255)

    def _check(self, name: str, wanted: str, *, holds: bool) -> None:
        if not holds:
            raise SettingsRefused(f"{name} must be {wanted}, not {getattr(self, name)!r}")

    @classmethod
    def lan(cls, **changes: Any) -> Settings:
        """One site, round trips below some tens of milliseconds. Keyword arguments override single values."""
        return cls(**changes)

    @classmethod
    def wan(cls, **changes: Any) -> Settings:
        """Sites far apart: slower, and far more patient."""
        profile: dict[str, Any] = {
            "probe_interval": 5.0,
            "probe_timeout": 3.0,
            "gossip_tick": 0.5,
            "fanout": 4,
            "suspicion_multiplier": 6,
            "sync_interval": 60.0,
            "retry_interval": 20.0,
        }
        return cls(**(profile | changes))

    @classmethod
    def local(cls, **changes: Any) -> Settings:
        """One machine or one switch: quick to notice, with less proof asked for."""
        profile: dict[str, Any] = {
            "probe_timeout": 0.2,
            "relays": 1,
            "gossip_tick": 0.1,
            "suspicion_multiplier": 3,
            "retransmit_multiplier": 2,
            "sync_interval": 15.0,
        }
        return cls(**(profile | changes))

    @property
    def most_accusers(self) -> int:
        """How many accusers a suspect row keeps: k + 1, the same on every node whatever its count of members."""
        return max(1, self.suspicion_multiplier - 1)

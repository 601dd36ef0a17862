"""A node as a query returns it: identity, state, record, load, and what runs on it.

`NodeRecord` joins what gossip and detection know of one node. The agent's roster builds them; simulators and tests
do too. Nothing here reads a clock: ages come from a `now` in the same seconds as `vitals_at`.
"""

from __future__ import annotations

import enum

import attrs

from ..capabilities.record import NodeCapabilities
from ..capabilities.values import CapValue

# A record whose vitals are older than this is stale: its load is history, so it comes after every fresh node.
STALE_AFTER_SECONDS = 120.0

# How long an engine keeps an unused model loaded unless it says otherwise; warmth is time left over this.
KEEP_ALIVE_SECONDS = 300.0


class NodeState(enum.StrEnum):
    """How the cluster sees the node; only `alive` and `suspect` nodes can be chosen."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    LEFT = "left"


class Schedulable(enum.StrEnum):
    """What the operator wants: a cordoned or draining node gets no new work."""

    YES = "yes"
    CORDONED = "cordoned"
    DRAINING = "draining"


class Tier(enum.IntEnum):
    """The first key of every order: how far the picture of the node can be trusted. Lower is better."""

    FRESH = 0
    STALE = 1
    SUSPECT = 2
    GONE = 3


@attrs.frozen(kw_only=True)
class NodeVitals:
    """A node's changing load; None is unknown. `_mb` is MiB, `_centi` hundredths, PSI in hundredths of a percent."""

    ram_available_mb: int | None = None
    reserved_mb: int | None = None
    load1_centi: int | None = None
    cpu_busy_permille: int | None = None
    gpu_vram_free_mb: int | None = None
    gpu_vram_free_total_mb: int | None = None
    psi_cpu_some_avg10_centi: int | None = None
    psi_memory_some_avg10_centi: int | None = None
    psi_memory_full_avg10_centi: int | None = None
    thermal_max_celsius: int | None = None
    thermal_state: str | None = None
    """nominal, fair, serious or critical."""
    pressure: str | None = None
    """none, low, medium or high, when the node says so itself; else it follows from memory PSI."""
    battery_percent: int | None = None
    power_source: str | None = None
    """ac or battery."""


@attrs.frozen(kw_only=True)
class ResidentModel:
    """A model that an engine holds in memory.

    `expires_at` is when it unloads, in the seconds of `now`; an explicit `warmth` (0..1) wins over it.
    """

    name: str
    engine: str
    vram_mb: int | None = None
    expires_at: float | None = None
    warmth: float | None = None

    def warmth_at(self, now: float) -> float:
        """How much of its keep-alive is left, 0..1; 0 when nothing is known."""
        if self.warmth is not None:
            return self.warmth
        if self.expires_at is None:
            return 0.0
        return min(1.0, max(0.0, (self.expires_at - now) / KEEP_ALIVE_SECONDS))


@attrs.frozen(kw_only=True)
class Engines:
    """The inference engines of a node; None is unknown."""

    ollama_running: bool | None = None
    llama_server_running: bool | None = None
    llama_server_port: int | None = None
    models: tuple[ResidentModel, ...] = ()


@attrs.frozen(kw_only=True)
class NodeRecord:
    """One node of the view.

    `capabilities` is None until the record arrived, and when it did not decode: then `error` says why. `reserved_mb`
    is the sum of the node's leases in MiB as the deciding agent knows it; None falls back to the gossiped vitals.
    `network_class` is direct-lan, tailscale-direct, vpn, relayed or empty, `fast_link` a measured high-speed direct
    link: both as seen from the deciding node. `udp_broken`: it answers by TCP only, as seen from there.
    """

    node_id: str
    name: str = ""
    addr: str = ""
    state: NodeState = NodeState.ALIVE
    incarnation: int = 0
    generation: int = 1
    capabilities: NodeCapabilities | None = None
    error: str | None = None
    vitals: NodeVitals | None = None
    vitals_at: float | None = None
    schedulable: Schedulable = Schedulable.YES
    weight: int = 100
    runtimes: tuple[str, ...] = ()
    engines: Engines | None = None
    reserved_mb: int | None = None
    network_class: str = ""
    fast_link: bool = False
    udp_broken: bool = False

    def get(self, label: str, default: CapValue | None = None) -> CapValue | None:
        """The value of a label; `default` when the record has none, or there is no record."""
        return default if self.capabilities is None else self.capabilities.get(label, default)

    def age(self, now: float) -> float | None:
        """Seconds since the vitals were taken, never negative; None when there never were any."""
        return None if self.vitals_at is None else max(0.0, now - self.vitals_at)

    def tier(self, now: float) -> Tier:
        return tier_of(self.state, self.vitals_at, now)

    @property
    def reserved(self) -> int:
        """MiB promised to leases, 0 when nothing is known."""
        if self.reserved_mb is not None:
            return self.reserved_mb
        if self.vitals is not None and self.vitals.reserved_mb is not None:
            return self.vitals.reserved_mb
        return 0


def tier_of(state: NodeState, vitals_at: float | None, now: float) -> Tier:
    """How far a node's picture can be trusted; vitals that never came count as stale, the worst of that key."""
    if state is NodeState.ALIVE:
        if vitals_at is not None and vitals_at >= now - STALE_AFTER_SECONDS:
            return Tier.FRESH
        return Tier.STALE
    return Tier.SUSPECT if state is NodeState.SUSPECT else Tier.GONE

"""The named choices of a placement: what guards a node, what a fit score counts, what a ranking compares.

Each rule that the documented contract does not name is a switch here. All on is what the agent does and what the
vectors check; `documented` policies follow the written contract to the letter.
"""

from __future__ import annotations

from typing import ClassVar

import attrs


@attrs.frozen(kw_only=True)
class FilterPolicy:
    """Which guards may exclude a node."""

    pressure_guard: bool = True
    """Memory pressure keeps heavy tasks away: PSI full over 70 %, a stall of 15 %, or a `high` macOS level."""
    battery_guard: bool = True
    """A battery under 20 % keeps heavy tasks away; mains power lifts it, an unknown power source does not."""
    thermal_guard: bool = True
    """A serious or critical thermal state keeps heavy tasks away."""
    failure_memory: bool = True
    """A recent blocking failure of this class of work on the node excludes it."""
    empirical_peak: bool = True
    """A fresh observation whose peak RAM does not fit excludes the node."""

    default: ClassVar[FilterPolicy]


@attrs.frozen(kw_only=True)
class ScorePolicy:
    """What the fit score counts; `documented` and `weighted` are the two that are named in the contract."""

    weighted_gpu: bool = True
    """5..25 by VRAM and backend; else a flat 25 for any GPU."""
    weighted_turboquant: bool = True
    """Only for tasks that prefer it, less when unverified; else 15..25 for every long-context task."""
    verified_unified_bonus: bool = True
    """2 more for verified TurboQuant on unified memory."""
    psi: bool = True
    load: bool = True
    skew: bool = True
    network_class: bool = True
    fast_link: bool = True
    storage: bool = True
    soft_failures: bool = True

    documented: ClassVar[ScorePolicy]
    weighted: ClassVar[ScorePolicy]


@attrs.frozen(kw_only=True)
class RankPolicy:
    """How nodes are ordered: `exact` compares RAM to the MiB first, `banded` the fit score and then GiB bands."""

    by_score: bool = False
    """The fit score comes before the documented keys, and equal nodes are ordered by a seeded hash."""
    band_mb: int = 1
    """RAM and headroom are compared in steps of this many MiB."""
    warmth: bool = True
    """How long resident models stay loaded is a key."""

    exact: ClassVar[RankPolicy]
    banded: ClassVar[RankPolicy]


@attrs.frozen(kw_only=True)
class Policy:
    """One of each: `agent` is what the agent places with, `contract` what the vectors check."""

    filter: FilterPolicy = attrs.field(factory=FilterPolicy)
    score: ScorePolicy = attrs.field(factory=ScorePolicy)
    rank: RankPolicy = attrs.field(factory=RankPolicy)

    agent: ClassVar[Policy]
    contract: ClassVar[Policy]


FilterPolicy.default = FilterPolicy()
ScorePolicy.weighted = ScorePolicy()
ScorePolicy.documented = ScorePolicy(
    weighted_gpu=False,
    weighted_turboquant=False,
    verified_unified_bonus=False,
    psi=False,
    load=False,
    skew=False,
    network_class=False,
    fast_link=False,
    storage=False,
    soft_failures=False,
)
RankPolicy.exact = RankPolicy()
RankPolicy.banded = RankPolicy(by_score=True, band_mb=1024)
Policy.contract = Policy()
Policy.agent = Policy(rank=RankPolicy.banded)

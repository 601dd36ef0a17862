"""What a call may ask beyond the task: how many nodes, how they lie to each other, and what it would rather have."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

from ..capabilities.errors import ValueRefused
from ..capabilities.values import check_key
from .errors import OptionRefused

if TYPE_CHECKING:
    from ..capabilities.requirement import PlacementRequirement

# What one call may ask at most: bounds the work that a request can cause.
MAX_COUNT = 1024
MAX_PREFERENCES = 16
MAX_FALLBACKS = 8
MAX_WEIGHT = 1000
MAX_NAMED = 1024

# Seeds travel as msgpack integers and are mixed as 64-bit words.
SEED_BITS = 64


class PickWay(enum.StrEnum):
    """How the node is taken from the ranked ones: see `pick`."""

    BEST = "best"
    TWO_CHOICES = "two_choices"
    SPREAD = "spread"
    STICKY = "sticky"


@attrs.frozen(kw_only=True)
class Pick:
    """The way to take a node, and the key that `sticky` hashes."""

    way: PickWay = PickWay.BEST
    key: str = ""

    def __attrs_post_init__(self) -> None:
        if (self.way is PickWay.STICKY) != bool(self.key):
            raise OptionRefused("pick", "a key with sticky, and only there", f"{self.way} {self.key!r}")


@attrs.frozen(kw_only=True)
class Preference:
    """Nodes that satisfy the requirement get `weight` points; negative ones are rather left alone."""

    requirement: PlacementRequirement
    weight: int = 1

    def __attrs_post_init__(self) -> None:
        if not 0 < abs(self.weight) <= MAX_WEIGHT:
            raise OptionRefused("prefer", f"a weight of 1 to {MAX_WEIGHT}, or negative", self.weight)


@attrs.frozen(kw_only=True)
class Spread:
    """The chosen nodes are spread over the values of a label: their numbers differ by at most `max_skew`.

    Every value that an eligible node has counts as a place. `placed` are nodes (id or name) that already hold one.
    """

    label: str
    max_skew: int = 1
    placed: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        _label_key("spread", self.label)
        if self.max_skew < 1:
            raise OptionRefused("spread", "a maximum skew of at least 1", self.max_skew)


@attrs.frozen(kw_only=True)
class AntiAffinity:
    """No two of the chosen nodes, and none of them and a node of `apart_from`, share the value of the label."""

    label: str
    apart_from: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        _label_key("anti_affinity", self.label)


def _label_key(field: str, label: str) -> None:
    try:
        check_key(label)
    except ValueRefused as error:
        raise OptionRefused(field, f"for the label {error.wanted}", label) from error


def _at_most(field: str, value: int, most: int, least: int = 0) -> None:
    if not least <= value <= most:
        raise OptionRefused(field, f"{least} to {most}", value)


@attrs.frozen(kw_only=True)
class Options:
    """What a call asks beyond its task or requirement; the defaults ask for nothing.

    `avoid` names nodes (id or name) that must not be chosen. `prefer_local` takes the deciding node while it is at
    most this much worse than the best: points of fit score in a placement, eighths of a CPU's load in a find.
    `fallbacks` are tried in order when nothing fits, each in place of the requirement. `seed` decides between equal
    nodes and in picks with chance; 0 is the same order everywhere.
    """

    count: int = 1
    strict: bool = False
    avoid: tuple[str, ...] = ()
    anti_affinity: AntiAffinity | None = None
    spread: Spread | None = None
    prefer: tuple[Preference, ...] = ()
    prefer_local: int | None = None
    fallbacks: tuple[PlacementRequirement, ...] = ()
    seed: int = 0
    pick: Pick = attrs.field(factory=Pick)

    def __attrs_post_init__(self) -> None:
        _at_most("count", self.count, MAX_COUNT, least=1)
        _at_most("prefer", len(self.prefer), MAX_PREFERENCES)
        _at_most("fallbacks", len(self.fallbacks), MAX_FALLBACKS)
        _at_most("avoid", len(self.avoid), MAX_NAMED)
        _at_most("seed", self.seed, (1 << SEED_BITS) - 1)
        if self.prefer_local is not None:
            _at_most("prefer_local", self.prefer_local, MAX_WEIGHT)

    @property
    def asks_for_a_set(self) -> bool:
        """Whether the answer is a set of nodes as a whole, not a list of candidates."""
        return self.count > 1 or self.spread is not None

    @property
    def names_nodes(self) -> bool:
        """Whether nodes are ruled out one by one, by name or by where they lie."""
        return bool(self.avoid) or self.anti_affinity is not None or self.spread is not None

    @property
    def nodes_named(self) -> tuple[str, ...]:
        """Every node (id or name) that the options speak of."""
        apart = () if self.anti_affinity is None else self.anti_affinity.apart_from
        placed = () if self.spread is None else self.spread.placed
        return tuple(dict.fromkeys((*self.avoid, *apart, *placed)))

    @property
    def labels_needed(self) -> tuple[str, ...]:
        """Labels that a node must have to be placed at all: its place among the others is unknown without."""
        wanted = (self.spread, self.anti_affinity)
        return tuple(dict.fromkeys(option.label for option in wanted if option is not None))


NO_OPTIONS = Options()

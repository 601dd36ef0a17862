"""The values everything else speaks of: who a node is, what is claimed about it, and how it is shown.

A **claim** is what travels: (generation, incarnation, rank) about one node. A **member** is what this node shows of
another: derived from the held claim and this node's own clock, never sent. See `precedence` for how claims merge.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import attrs

from .vitals import Vitals

Address = tuple[str, int]
"""Canonical IP text (IPv4 dotted, IPv6 compressed; a v4-mapped address is written as IPv4) and port."""

NODE_ID_BYTES = 16
BOOT_ID_BYTES = 8
DIGEST_BYTES = 8
ACCUSER_BYTES = 8  # prefix of the accuser's node id
GENERATION_LIMIT = 1 << 63  # generations are below it
INCARNATION_LIMIT = (1 << 32) - 1  # incarnations are below it
# Half of the range: an owner driven here by forged claims starts a new generation long before it runs out.
INCARNATION_RENEWAL = 1 << 31
SECTION_LIMIT = 16 * 1024  # a bigger payload is refused at `publish`: it would crowd out liveness


class Rank(enum.IntEnum):
    """How alive a claim says a node is; within one incarnation the greater wins."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


class State(enum.StrEnum):
    """How a member is shown here."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    LEFT = "left"


class SectionKind(enum.IntEnum):
    """Kinds of section with a meaning in the agent; others are kept and relayed all the same."""

    RECORD = 1
    SCHEDULE = 2
    RUNTIMES = 3
    ENGINES = 4
    HISTORY = 5
    KEYS = 6


@attrs.frozen(kw_only=True)
class Identity:
    """Who this process is. (node_id, generation) is the fencing token of everything it starts."""

    node_id: bytes
    """16 random bytes, kept in the state directory."""
    generation: int
    """Raised and stored before the first packet of each start."""
    boot_id: bytes
    """8 random bytes of this process: tells a live twin from an echo."""


class Claim(NamedTuple):
    """What is claimed about one node. A tuple, because simulations make millions."""

    node_id: bytes
    generation: int
    incarnation: int
    rank: Rank
    address: Address | None = None
    accusers: tuple[bytes, ...] = ()
    """Sorted id prefixes of those whose own probe failed; only on a suspect claim."""


class Section(NamedTuple):
    """One versioned payload of a node. The payload is opaque here."""

    generation: int
    version: int
    digest: bytes
    payload: bytes


NO_SECTIONS: Mapping[int, Section] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class Member:
    """One node as this node shows it."""

    node_id: bytes
    generation: int
    incarnation: int
    address: Address | None
    """None only for a tombstone that arrived without one."""
    state: State
    since: float
    """When it took this state here, on the caller's clock."""
    sections: Mapping[int, Section]
    vitals: Vitals | None
    vitals_at: float | None
    """When these vitals were true, on the caller's clock."""
    udp_broken: bool
    """Its TCP answers while its UDP does not."""

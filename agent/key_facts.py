"""Who has which key: counted from what the members report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from ..gossip.seal import KeyRing


@attrs.frozen(kw_only=True)
class KeyFacts:
    """One key, and which members (node ids in hex) are known to have it. `dead` ones count as lacking too."""

    id: str
    in_use: bool
    have: int
    using: int
    lacking: tuple[str, ...]
    dead_lacking: tuple[str, ...]


@attrs.frozen(kw_only=True)
class RingFacts:
    """The ring as the cluster has it. `members` counts the live ones; `dead` are those that may come back."""

    in_use: str
    target: str
    members: int
    dead: tuple[str, ...]
    stored: bool
    keys: tuple[KeyFacts, ...]


Ids = Mapping[bytes, tuple[str, ...]]
"""By node, the keys that it reports, the sealing one first."""


def ring_facts(ring: KeyRing, live: Ids, dead: Ids, *, target: str, stored: bool) -> RingFacts:
    """Of our own keys, and then of all others that a live member has."""
    known = dict.fromkeys((*ring.ids, *(key for has in live.values() for key in has)))
    keys = tuple(
        KeyFacts(
            id=key,
            in_use=key == ring.in_use,
            have=sum(key in has for has in live.values()),
            using=sum(has[:1] == (key,) for has in live.values()),
            lacking=_hex(node for node, has in live.items() if key not in has),
            dead_lacking=_hex(node for node, has in dead.items() if key not in has),
        )
        for key in known
    )
    return RingFacts(in_use=ring.in_use, target=target, members=len(live), dead=_hex(dead), stored=stored, keys=keys)


def _hex(nodes: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(node.hex() for node in nodes)

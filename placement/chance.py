"""Repeatable chance: seeds, and one number per seed and node that no node can steer.

Every node computes the same numbers from the same seed, on any machine and Python version.
"""

from __future__ import annotations

import functools
import hashlib
import math

_MASK = (1 << 64) - 1


def word(text: str) -> int:
    """Sixty-four bits that stand for the text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


# A cluster's node ids are few and stay: hashing each once makes a tie of a thousand nodes cheap.
node_word = functools.lru_cache(maxsize=1 << 14)(word)


def mixed(seed: int, of: int) -> int:
    """The number of the pair: all 64 bits depend on all bits of both (the splitmix64 finaliser)."""
    x = (seed * 0x9E3779B97F4A7C15 + of) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def request_seed(here: str, counter: int) -> int:
    """The seed of one request: differs between deciding nodes and from one request to the next."""
    return word(f"{here}:{counter}")


def rendezvous(key: int, node_id: str, weight: int) -> float:
    """The node's claim on the key; the greatest wins. A node of twice the weight wins twice as many keys."""
    share = (mixed(key, node_word(node_id)) + 0.5) / (1 << 64)
    return weight / -math.log(share) if weight > 0 else 0.0

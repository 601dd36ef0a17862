"""How claims about one node merge: the maximum by (generation, is_left, incarnation, rank).

    a greater generation       beats everything: the node restarted
    left                       beats every other claim of its generation: the owner said goodbye
    a greater incarnation      beats the rest: only the owner raises it
    dead > suspect > alive     within one incarnation

Two suspect claims of one version join by the union of their accusers, of which the lowest few are kept: whatever the
order in which claims arrive, and however often, every node holds the same one (a join semilattice). The address is a
function of the version, so at equal versions it is only ever filled in.
"""

from __future__ import annotations

from .member import Address, Claim, Rank


def standing(claim: Claim) -> tuple[int, bool, int, int]:
    """The key of the order."""
    return claim.generation, claim.rank is Rank.LEFT, claim.incarnation, claim.rank


def same_version(one: Claim, other: Claim) -> bool:
    return one.generation == other.generation and one.incarnation == other.incarnation


def outdated(offered: Claim, held: Claim) -> bool:
    """Whether `offered` is about an older version than `held`, so that its sender deserves to hear the newer one."""
    return standing(offered)[:3] < standing(held)[:3]


def capped(claim: Claim, most_accusers: int) -> Claim:
    """The claim with no more accusers than a cluster keeps."""
    if len(claim.accusers) <= most_accusers:
        return claim
    return claim._replace(accusers=claim.accusers[:most_accusers])


def join(held: Claim, offered: Claim, most_accusers: int) -> Claim:
    """The claim to hold after hearing `offered`. Returns `held` itself when that taught nothing."""
    mine, theirs = standing(held), standing(offered)
    if mine[:3] != theirs[:3]:
        return held if mine > theirs else capped(offered, most_accusers)
    winner = held if mine >= theirs else offered
    accusers = winner.accusers
    if mine == theirs and held.accusers != offered.accusers:
        accusers = tuple(sorted({*held.accusers, *offered.accusers}))
    accusers = accusers[:most_accusers]
    address = _known_address(held.address, offered.address)
    if accusers == winner.accusers and address == winner.address:
        return winner
    return winner._replace(accusers=accusers, address=address)


def _known_address(one: Address | None, other: Address | None) -> Address | None:
    if one is None or other is None:
        return one or other
    # Two addresses of one version: a twin or a forger. Any fixed choice keeps the laws; the owner settles it.
    return max(one, other)

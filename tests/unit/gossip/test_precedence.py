from __future__ import annotations

import pytest
from shoal.gossip.member import Rank
from shoal.gossip.precedence import join, outdated

MOST = 3


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"rank": Rank.LEFT, "incarnation": 9}, {"generation": 1001}),
        ({"rank": Rank.DEAD, "incarnation": 9}, {"rank": Rank.LEFT, "incarnation": 3}),
        ({"rank": Rank.DEAD, "incarnation": 3}, {"incarnation": 4}),
        ({"rank": Rank.SUSPECT}, {"rank": Rank.DEAD}),
        ({}, {"rank": Rank.SUSPECT}),
        ({"rank": Rank.LEFT, "incarnation": 3}, {"rank": Rank.LEFT, "incarnation": 4}),
    ],
)
def test_the_greater_claim_is_held_whatever_comes_first(kit, less, more):
    less, more = kit.claim(2, **less), kit.claim(2, **more)
    assert join(less, more, MOST) == more
    assert join(more, less, MOST) is more


def test_accusers_of_equal_suspicions_unite_and_the_lowest_are_kept(kit):
    one = kit.claim(2, Rank.SUSPECT, accusers=(3, 7))
    other = kit.claim(2, Rank.SUSPECT, accusers=(5, 4))
    assert join(one, other, MOST).accusers == kit.claim(2, Rank.SUSPECT, accusers=(3, 4, 5)).accusers


def test_nothing_new_gives_back_the_very_same_claim(kit):
    held = kit.claim(2, Rank.SUSPECT, accusers=(3, 4))
    assert join(held, kit.claim(2, Rank.SUSPECT, accusers=(4,)), MOST) is held
    assert join(held, kit.claim(2), MOST) is held


def test_an_address_is_filled_in_at_the_same_version_only(kit):
    held = kit.claim(2, Rank.SUSPECT)._replace(address=None)
    assert join(held, kit.claim(2), MOST).address == kit.address(2)
    assert join(held, kit.claim(2, incarnation=1)._replace(address=None), MOST).address is None


def test_outdated_is_about_versions_not_about_ranks(kit):
    held = kit.claim(2, Rank.DEAD, incarnation=4)
    assert outdated(kit.claim(2, Rank.DEAD, incarnation=3), held)
    assert not outdated(kit.claim(2, incarnation=4), held)
    assert not outdated(kit.claim(2, generation=2000), held)

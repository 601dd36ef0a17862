"""Taking nodes from the eligible ones: best is not the only way.

With a gossiped view, "the best for all" sends every caller to one node until the news is round. Looking at two
random nodes and taking the better one spreads the load nearly as well as knowing everything, so claims do that.
Chance comes from the seed of the call: the same call gives the same answer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from .chance import mixed, rendezvous, word
from .facts import NodeFacts
from .options import PickWay
from .rank import Ranking
from .room import Room, take

# `spread` draws from the best one in this many.
_FIFTH = 5
_DEFAULT_WEIGHT = 100
_key = operator.attrgetter("key")


def pick_nodes(ranking: Ranking) -> tuple[NodeFacts, ...]:
    """As many nodes as the options ask for, in the order taken; empty when there are not enough."""
    options = ranking.situation.options
    if len(ranking.candidates) < options.count:
        return ()
    if options.count == 1 and options.spread is None:
        return (_one(ranking, ranking.candidates, 0),)
    if options.pick.way is PickWay.BEST:
        return take(ranking.sorted_with_local(), ranking.situation)
    return _several(ranking)


def _one(ranking: Ranking, among: Sequence[NodeFacts], turn: int) -> NodeFacts:
    """The node that the way of picking takes; `turn` makes the draws of one call differ."""
    options = ranking.situation.options
    match options.pick.way:
        case PickWay.BEST:
            chosen = ranking.best(among)
        case PickWay.TWO_CHOICES:
            # Drawn by their ids: where a node stands in the view depends on when it came.
            by_id = sorted(among, key=_key)
            chosen = ranking.best([by_id[at] for at in _two(options.seed, turn, len(by_id))])
        case PickWay.SPREAD:
            ranked = ranking.sorted(among)
            chosen = ranked[mixed(options.seed, turn) % math.ceil(len(ranked) / _FIFTH)]
        case PickWay.STICKY:
            # Only the id, the weight and the key: a node's load never moves a key to another node.
            key = word(options.pick.key)
            return max(among, key=lambda node: (rendezvous(key, node.key, _weight(node)), node.key))
    return ranking.local_over(chosen) if len(among) == len(ranking.candidates) else chosen


def _two(seed: int, turn: int, count: int) -> tuple[int, ...]:
    """Two different places in a list of `count`, or the only one."""
    if count == 1:
        return (0,)
    first = mixed(seed, 2 * turn) % count
    second = mixed(seed, 2 * turn + 1) % (count - 1)
    return first, second + (second >= first)


def _weight(node: NodeFacts) -> int:
    return _DEFAULT_WEIGHT if node.record is None else node.record.weight


def _several(ranking: Ranking) -> tuple[NodeFacts, ...]:
    """One draw after the other, each among the nodes that still may be taken."""
    left = list(ranking.candidates)
    room = Room(left, ranking.situation)
    taken: list[NodeFacts] = []
    for turn in range(ranking.situation.options.count):
        open_to = [node for node in left if room.has(node)]
        if not open_to:
            # Chance ran into a corner; the best ones in order may still do.
            return take(ranking.sorted(), ranking.situation)
        node = _one(ranking, open_to, turn)
        room.enter(node)
        taken.append(node)
        left = [other for other in left if other is not node]
    return tuple(taken)

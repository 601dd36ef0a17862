"""The order of nodes for a task: a list of named keys, the first that differs decides.

`RankPolicy.exact` is the documented order; `banded` puts the fit score first. A key is a function of a node that
gives a comparable value, smaller is better; together they are a total order that does not depend on the input order.

Unlike the original, an observation with an unknown peak comes after one with a known peak: skipping the comparison
is not transitive, so the order depended on the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import attrs

from .backends import backend_rank, resident, warmth
from .chance import mixed, node_word
from .facts import NodeFacts
from .gpu import gpu_score
from .headroom import headroom, reserved_by_all
from .nodes import tier_of
from .observations import Observation
from .score import Scorer
from .state import Situation

KeyFunction = Callable[[NodeFacts], int | float | str]

_PRESSURE = {"none": 0, "low": 1, "medium": 2, "high": 3}
_UNKNOWN_PRESSURE = 4
_UNKNOWN_PEAK = 1 << 62


@attrs.frozen
class RankKey:
    """One key of the order: smaller is better."""

    name: str
    of: KeyFunction


class Leaders(Protocol):
    """Something that knows quickly which candidates tie on the first keys."""

    def leading(self, ranking: Ranking, without: Sequence[NodeFacts]) -> tuple[Sequence[NodeFacts], int]:
        """The candidates that tie on the first keys with the best of them, and how many keys those are.

        Candidates in `without` do not count.
        """
        ...


class Ranking:
    """The keys of one situation and set of candidates, and the fit score that goes with them."""

    __slots__ = ("_leaders", "_reserved", "candidates", "keys", "scorer", "situation")

    def __init__(self, candidates: Sequence[NodeFacts], situation: Situation, leaders: Leaders | None = None) -> None:
        self.candidates = candidates
        self.situation = situation
        self._leaders = leaders
        self.scorer = Scorer(situation, situation.policy.score)
        self._reserved: int | None = None
        self.keys = self._keys()

    @property
    def reserved_total_mb(self) -> int:
        """MiB reserved on the candidates together; summed when a key first needs it."""
        if self._reserved is None:
            self._reserved = reserved_by_all(self.candidates)
        return self._reserved

    def headroom(self, node: NodeFacts) -> int:
        return headroom(node, self.situation.task, self.reserved_total_mb)

    def sorted(self, among: Sequence[NodeFacts] | None = None) -> list[NodeFacts]:
        """The candidates, or some of them, best first."""
        functions = [key.of for key in self.keys]
        nodes = self.candidates if among is None else among
        return sorted(nodes, key=lambda node: [function(node) for function in functions])

    def best(self, among: Sequence[NodeFacts]) -> NodeFacts:
        """The first of `sorted`, without the sort: each key only looks at the nodes that tie on those before it.

        `among` are some of the candidates, at least one.
        """
        if self._leaders is not None and among is self.candidates:
            return self._best(*self._leaders.leading(self, ()))
        return self._best(among, 0)

    def best_but(self, chosen: Sequence[NodeFacts]) -> NodeFacts | None:
        """The best candidate that is not one of these; None when there is no other."""
        if len(self.candidates) <= len(chosen):
            return None
        if self._leaders is not None:
            return self._best(*self._leaders.leading(self, chosen))
        taken = set(map(id, chosen))
        return self._best([node for node in self.candidates if id(node) not in taken], 0)

    def _best(self, among: Sequence[NodeFacts], decided: int) -> NodeFacts:
        """The best of nodes that tie on the first `decided` keys."""
        left = among
        for key in self.keys[decided:]:
            if len(left) <= 1:
                break
            function = key.of
            values = [function(node) for node in left]
            least = min(values)  # pyright: ignore[reportArgumentType] - one key gives one type
            left = [node for node, value in zip(left, values, strict=True) if value == least]
        return left[0]

    def local_over(self, chosen: NodeFacts) -> NodeFacts:
        """The deciding node, when the call prefers it and it is eligible and near enough to the chosen one."""
        margin = self.situation.options.prefer_local
        if margin is None or chosen.is_local:
            return chosen
        local = next((node for node in self.candidates if node.is_local), None)
        if local is None or self._tier(local) > self._tier(chosen):
            return chosen
        return local if self.scorer.score(local) >= self.scorer.score(chosen) - margin else chosen

    def sorted_with_local(self) -> list[NodeFacts]:
        """`sorted`, with the deciding node moved to the front where `local_over` prefers it to the best."""
        ordered = self.sorted()
        if not ordered:
            return ordered
        first = self.local_over(ordered[0])
        return [first, *(node for node in ordered if node is not first)]

    def deciding_key(self, better: NodeFacts, worse: NodeFacts) -> str:
        """The name of the first key in which the two differ; empty when none does."""
        return next((key.name for key in self.keys if key.of(better) != key.of(worse)), "")

    def ran_better(self, node: NodeFacts, other: NodeFacts) -> bool:
        """Whether earlier runs alone would put the node before the other."""
        keys = self._observations() if self.situation.observed else ()
        return [key.of(node) for key in keys] < [key.of(other) for key in keys]

    def _keys(self) -> tuple[RankKey, ...]:
        policy = self.situation.policy.rank
        keys = [RankKey("tier", self._tier)]
        if self.situation.options.prefer:
            keys.append(RankKey("prefer", self._prefer))
        if policy.by_score:
            keys.append(RankKey("fit_score", lambda node: -self.scorer.score(node)))
        keys += self._documented(policy.band_mb)
        if policy.by_score:
            seed = self.situation.options.seed
            keys.append(RankKey("hash", lambda node: mixed(seed, node_word(node.key))))
        else:
            keys.append(RankKey("name", lambda node: node.name))
        return (*keys, RankKey("node_id", lambda node: node.node_id))

    def _documented(self, band: int) -> list[RankKey]:
        """Keys 1 to 9 of the contract, each with the name that an explanation gives it."""
        task, now = self.situation.task, self.situation.now
        runtime = task.wanted_runtime
        keys = [RankKey("allocatable_ram", lambda node: -(node.allocatable_mb // band))]
        if self.situation.observed:
            keys += self._observations()
        if runtime:
            keys.append(RankKey("resident_models", lambda node: -resident(node, runtime)))
        if task.preferred_backends:
            keys.append(RankKey("backend", lambda node: -backend_rank(node, task)))
        keys.append(RankKey("gpu", self._gpu))
        keys.append(RankKey("headroom", lambda node: -(self.headroom(node) // band)))
        if task.prefers_turboquant:
            keys.append(RankKey("turboquant", _turboquant))
        if task.wants_unified_memory:
            keys.append(RankKey("unified_memory", _unified))
        keys.append(RankKey("pressure", _pressure))
        if runtime and self.situation.policy.rank.warmth:
            keys.append(RankKey("warmth", lambda node: -warmth(node, runtime, now)))
        keys.append(RankKey("reservation_ratio", _reservation_ratio))
        keys.append(RankKey("reservation_share", self._reservation_share))
        return keys

    def _tier(self, node: NodeFacts) -> int:
        return tier_of(node.state, node.vitals_at, self.situation.now)

    def _prefer(self, node: NodeFacts) -> int:
        record = node.capabilities
        wishes = self.situation.options.prefer
        return -sum(wish.weight for wish in wishes if wish.requirement.satisfied_by(record))

    def _gpu(self, node: NodeFacts) -> int:
        return -gpu_score(node.made_of.gpus, self.situation.task.lower_backends)

    def _reservation_share(self, node: NodeFacts) -> float:
        return node.reserved_mb / self.reserved_total_mb if node.reserved_mb > 0 else 0.0

    def _observations(self) -> list[RankKey]:
        """Present, successful, low peaks, fast, often seen: in this order."""
        seen = self.situation.observation

        def key(name: str, value: Callable[[Observation], int], absent: int) -> RankKey:
            def of(node: NodeFacts) -> int:
                observation = seen(node)
                return absent if observation is None else value(observation)

            return RankKey(f"observation_{name}", of)

        return [
            key("present", lambda _: 0, 1),
            key("success", lambda run: 0 if run.success else 1, 1),
            key("peak_ram", lambda run: run.peak_ram_mb or _UNKNOWN_PEAK, 0),
            key("peak_vram", lambda run: run.peak_vram_mb or _UNKNOWN_PEAK, 0),
            key("wall", lambda run: run.wall_ms, 0),
            key("samples", lambda run: -run.samples, 0),
        ]


def rank_candidates(candidates: Iterable[NodeFacts], situation: Situation) -> tuple[NodeFacts, ...]:
    """The nodes best first. They need not be eligible: an order exists for any nodes."""
    return tuple(Ranking(tuple(candidates), situation).sorted())


def _turboquant(node: NodeFacts) -> int:
    return -2 if node.turboquant_verified else -int(node.turboquant_supported)


def _unified(node: NodeFacts) -> int:
    if node.resources is None or not node.unified_memory:
        return 0
    return -(1 + max(0, node.resources.memory_class) + int(node.turboquant_verified))


def _pressure(node: NodeFacts) -> int:
    if node.resources is None:
        return _PRESSURE["high"]
    return _PRESSURE.get(node.resources.pressure.lower(), _UNKNOWN_PRESSURE)


def _reservation_ratio(node: NodeFacts) -> float:
    """How much of what could be promised is; a node that can promise nothing counts as full."""
    reservable = node.reservable_mb
    return node.reserved_mb / reservable if reservable > 0 else 1.0

"""The fit score, 0 to 100: how comfortably a node takes a task.

A sum of terms, each named by what it reads, then clamped. Terms that read only the node come first (an index keeps
their sum), then those that read the task, then those that read the cluster's state.
"""

from __future__ import annotations

from collections.abc import Callable

from .facts import UNIFIED, MadeOf, NodeFacts, Resources
from .filter import LINUX_PSI
from .gpu import gpu_score
from .policy import ScorePolicy
from .skew import Skew
from .state import NO_STATE, ClusterState, Situation
from .task import Task

BEST = 100
_MB_PER_POINT, _MOST_RAM = 256, 30
_PRESSURE = {"none": 25, "low": 20, "medium": 10}
_MOST_GPU = 25
_MOST_CORES = 10
_LOCAL = 10
_FAST_LINK = 15
_NETWORK = {"direct-lan": 20, "tailscale-direct": -20, "vpn": -20, "relayed": -20}
# By context tokens: points when verified, and when only announced.
_TURBOQUANT = ((1_000_000, 25, 10), (256_000, 20, 8), (0, 15, 5))
_UNIFIED, _MOST_CLASS, _VERIFIED = 8, 8, 2
_PSI_SHARE, _MOST_PSI = 0.25, 25
_EASY_LOAD, _LOAD_SCALE, _MOST_LOAD = 1.5, 10, 15
_HDD = 15
_SOFT_FAILURE = 10


def compute_fit_score(node: NodeFacts, policy: ScorePolicy = ScorePolicy.documented) -> int:
    """How fit the node is for anything."""
    return compute_task_fit_score(node, Task(), policy=policy)


def compute_task_fit_score(
    node: NodeFacts,
    task: Task,
    state: ClusterState = NO_STATE,
    *,
    policy: ScorePolicy = ScorePolicy.documented,
    now: float = 0.0,
) -> int:
    """How fit the node is for the task. A node without resources scores 0."""
    return Scorer(Situation(task, state, now=now), policy).score(node)


class Scorer:
    """Scores many nodes for one situation. What equal hardware and equal figures share is computed once."""

    __slots__ = ("_extras", "_policy", "_situation", "_skew", "_task", "is_stateful")

    def __init__(self, situation: Situation, policy: ScorePolicy) -> None:
        self._situation = situation
        self._policy = policy
        self._task = situation.task
        self._extras: dict[object, int] = {}
        reservations = situation.state.reservations
        self._skew = Skew(reservations, self._task.memory_request_mb) if policy.skew and len(reservations) > 1 else None
        self.is_stateful = self._skew is not None or (policy.soft_failures and situation.deciding is not None)

    def score(self, node: NodeFacts) -> int:
        if node.resources is None:
            return 0
        points = node_points(node, node.resources, self._policy) + self.points_of(node.made_of)
        if self.is_stateful:
            points += self.state_points(node)
        return clamped(points)

    def points_of(self, made_of: MadeOf) -> int:
        """Points that depend on the task and on what a node is made of, not on its load."""
        points = self._extras.get(made_of)
        if points is None:
            points = self._extras[made_of] = sum(term(made_of, self._task, self._policy) for term in TASK_TERMS)
        return points

    @property
    def unremarkable_points(self) -> int:
        """What the state adds to a node of which it holds nothing, and on which nothing is reserved."""
        return 0 if self._skew is None else -self._skew.penalty_of(0, added=True)

    def state_points(self, node: NodeFacts) -> int:
        """Points for what the cluster's state holds against the node: none, or fewer."""
        points = 0 if self._skew is None else -self._skew.penalty(node)
        if self._policy.soft_failures:
            failure = self._situation.failure(node)
            if failure is not None and not failure.is_blocking:
                points -= _SOFT_FAILURE * failure.count
        return points


def clamped(points: int) -> int:
    return min(BEST, max(0, points))


def node_points(node: NodeFacts, resources: Resources, policy: ScorePolicy) -> int:
    """Points that depend on the node alone: memory, pressure, cores, place, load, network."""
    points = min(_MOST_RAM, node.free_mb // _MB_PER_POINT)
    points += _PRESSURE.get(resources.pressure.lower(), 0)
    points += min(_MOST_CORES, resources.cpu_cores)
    if node.is_local:
        points += _LOCAL
    elif policy.fast_link and node.fast_link:
        points += _FAST_LINK
    if policy.network_class:
        points += _NETWORK.get(node.network_class, 0)
    if policy.psi:
        points -= _psi(resources)
    if policy.load:
        points -= _load(resources)
    return points


def _psi(resources: Resources) -> int:
    """A quarter point for each percent of pressure; the stall stands in where Linux gives no PSI."""
    pressure = resources.psi_some_avg10
    if pressure <= 0 and resources.pressure_source == LINUX_PSI:
        pressure = resources.stall_avg10
    return min(_MOST_PSI, int(_PSI_SHARE * pressure))


def _load(resources: Resources) -> int:
    """Ten points for each load per core beyond one and a half."""
    if resources.cpu_cores <= 0:
        return 0
    over = resources.load_1m / resources.cpu_cores - _EASY_LOAD
    return min(_MOST_LOAD, int(_LOAD_SCALE * over)) if over > 0 else 0


def _gpu(made_of: MadeOf, task: Task, policy: ScorePolicy) -> int:
    if not policy.weighted_gpu:
        return _MOST_GPU if made_of.gpus else 0
    return min(_MOST_GPU, gpu_score(made_of.gpus, task.lower_backends))


def _turboquant(made_of: MadeOf, task: Task, policy: ScorePolicy) -> int:
    """For tasks that prefer it. Announced but not verified counts less, unless the policy is literal."""
    if not task.prefers_turboquant or made_of.turboquant is None or not made_of.turboquant.supported:
        return 0
    full = made_of.turboquant.verified or not policy.weighted_turboquant
    return next((points if full else lesser) for tokens, points, lesser in _TURBOQUANT if task.context_tokens >= tokens)


def _unified(made_of: MadeOf, task: Task, policy: ScorePolicy) -> int:
    if not task.wants_unified_memory or made_of.memory_topology != UNIFIED:
        return 0
    points = _UNIFIED + min(_MOST_CLASS, 2 * max(0, made_of.memory_class))
    proved = made_of.turboquant is not None and made_of.turboquant.supported and made_of.turboquant.verified
    return points + (_VERIFIED if policy.verified_unified_bonus and proved else 0)


def _storage(made_of: MadeOf, task: Task, policy: ScorePolicy) -> int:
    return -_HDD if policy.storage and task.is_heavy and made_of.storage_class.lower() == "hdd" else 0


TASK_TERMS: tuple[Callable[[MadeOf, Task, ScorePolicy], int], ...] = (_gpu, _turboquant, _unified, _storage)


def label_of(score: int) -> str:
    """The score in a word."""
    for least, word in ((75, "excellent"), (50, "good"), (25, "adequate")):
        if score >= least:
            return word
    return "limited"

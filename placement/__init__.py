"""shoal.placement: which nodes suit, best first, and why not the others.

Pure functions of an immutable view, a requirement or task, state, policy, options and `now`: no clock, no input or
output, no chance but the seed of a call. Over a `View`, `find_suitable_nodes` answers queries and `place` chooses
nodes for a task; over facts that the caller holds, `filter_candidates`, `rank_candidates` and `select_best_node` do the
same without an index.
"""

from .ages import Ages, ages_of
from .chance import request_seed
from .derive import facts_of
from .errors import OptionRefused, PlacementError, TaskRefused, UnknownNode
from .explain import Explanation, explain_decision, explain_find, explain_placement
from .facts import AppleModel, Gpu, NodeFacts, Ollama, Resources, Status, TurboQuant
from .failures import FailureClass, FailureRecord, Failures, FailureScope
from .filter import Filtered, Reason, ReasonKind, filter_candidates, reasons_against
from .find import Found, find_suitable_nodes
from .headroom import headroom, min_free_ram_for_node
from .history import History, HistoryRefused, history_from_plain, history_to_plain, joined
from .model_name import extract_model_name
from .nodes import Engines, NodeRecord, NodeState, NodeVitals, ResidentModel, Schedulable, Tier
from .observations import (
    Observation,
    Observations,
    ObservationScope,
    observation_scope_for_requirements,
    recording_scope,
)
from .options import AntiAffinity, Options, Pick, PickWay, Preference, Spread
from .place import place
from .policy import FilterPolicy, Policy, RankPolicy, ScorePolicy
from .rank import rank_candidates
from .score import compute_fit_score, compute_task_fit_score
from .select import Decision, select_best_node
from .state import ClusterState, Situation
from .task import Task
from .verdict import Verdict
from .view import View
from .workload import Inference, infer_requirements

__all__ = [
    "Ages",
    "AntiAffinity",
    "AppleModel",
    "ClusterState",
    "Decision",
    "Engines",
    "Explanation",
    "FailureClass",
    "FailureRecord",
    "FailureScope",
    "Failures",
    "FilterPolicy",
    "Filtered",
    "Found",
    "Gpu",
    "History",
    "HistoryRefused",
    "Inference",
    "NodeFacts",
    "NodeRecord",
    "NodeState",
    "NodeVitals",
    "Observation",
    "ObservationScope",
    "Observations",
    "Ollama",
    "OptionRefused",
    "Options",
    "Pick",
    "PickWay",
    "PlacementError",
    "Policy",
    "Preference",
    "RankPolicy",
    "Reason",
    "ReasonKind",
    "ResidentModel",
    "Resources",
    "Schedulable",
    "ScorePolicy",
    "Situation",
    "Spread",
    "Status",
    "Task",
    "TaskRefused",
    "Tier",
    "TurboQuant",
    "UnknownNode",
    "Verdict",
    "View",
    "ages_of",
    "compute_fit_score",
    "compute_task_fit_score",
    "explain_decision",
    "explain_find",
    "explain_placement",
    "extract_model_name",
    "facts_of",
    "filter_candidates",
    "find_suitable_nodes",
    "headroom",
    "history_from_plain",
    "history_to_plain",
    "infer_requirements",
    "joined",
    "min_free_ram_for_node",
    "observation_scope_for_requirements",
    "place",
    "rank_candidates",
    "reasons_against",
    "recording_scope",
    "request_seed",
    "select_best_node",
]

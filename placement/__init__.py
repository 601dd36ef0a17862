"""shoal.placement: which nodes suit, best first, and why not the others.

Pure functions of an immutable view, a requirement or task, a policy and `now`: no clock, no input or output, no
chance but the seed of a call.
"""

from .errors import OptionRefused, PlacementError, TaskRefused, UnknownNode
from .find import Found, find_suitable_nodes
from .model_name import extract_model_name
from .nodes import Engines, NodeRecord, NodeState, NodeVitals, ResidentModel, Schedulable, Tier
from .task import Task
from .view import View
from .workload import Inference, infer_requirements

__all__ = [
    "Engines",
    "Found",
    "Inference",
    "NodeRecord",
    "NodeState",
    "NodeVitals",
    "OptionRefused",
    "PlacementError",
    "ResidentModel",
    "Schedulable",
    "Task",
    "TaskRefused",
    "Tier",
    "UnknownNode",
    "View",
    "extract_model_name",
    "find_suitable_nodes",
    "infer_requirements",
]

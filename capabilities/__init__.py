"""shoal.capabilities: what a machine has, and whether it satisfies a requirement.

Pure: importing it imports neither psutil nor pynvml. The probes are in `survey`, which is imported when it is used.
"""

from .constraints import (
    AnyOf,
    Constraint,
    Devices,
    Equals,
    FailKind,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
)
from .devices import DeviceGroup, group_devices
from .errors import (
    CapabilityError,
    ContradictionError,
    RecordError,
    RequirementError,
    RequirementSyntaxError,
    ValueRefused,
)
from .failing import FailingTerm
from .record import NodeCapabilities
from .requirement import PlacementRequirement
from .review import RequirementWarning, review
from .text import parse_requirement
from .values import CapValue

__all__ = [
    "AnyOf",
    "CapValue",
    "CapabilityError",
    "Constraint",
    "ContradictionError",
    "DeviceGroup",
    "Devices",
    "Equals",
    "FailKind",
    "FailingTerm",
    "HasLabel",
    "IsFalse",
    "IsTrue",
    "LacksLabel",
    "MaxInt",
    "MinInt",
    "MinVersion",
    "NodeCapabilities",
    "NotEquals",
    "OneOf",
    "PlacementRequirement",
    "RecordError",
    "RequirementError",
    "RequirementSyntaxError",
    "RequirementWarning",
    "ValueRefused",
    "group_devices",
    "parse_requirement",
    "review",
]

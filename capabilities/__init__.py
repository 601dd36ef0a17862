"""shoal.capabilities: what a machine has, and whether it satisfies a requirement.

Pure: importing it imports neither psutil nor pynvml. `detect` surveys this machine; it and the probes behind it are
imported when it is named.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .survey import Detection, detect

__all__ = [
    "AnyOf",
    "CapValue",
    "CapabilityError",
    "Constraint",
    "ContradictionError",
    "Detection",
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
    "detect",
    "group_devices",
    "parse_requirement",
    "review",
]

_SURVEY = frozenset({"Detection", "detect"})


def __getattr__(name: str) -> object:
    if name not in _SURVEY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import survey

    return getattr(survey, name)

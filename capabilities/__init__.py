"""shoal.capabilities: what a machine has, and whether it satisfies a requirement."""

from .devices import DeviceGroup, group_devices
from .errors import CapabilityError, RecordError, RequirementError, RequirementSyntaxError, ValueRefused
from .record import NodeCapabilities
from .values import CapValue

__all__ = [
    "CapValue",
    "CapabilityError",
    "DeviceGroup",
    "NodeCapabilities",
    "RecordError",
    "RequirementError",
    "RequirementSyntaxError",
    "ValueRefused",
    "group_devices",
]

"""What the sections hold that gossip carries without looking: encoded by the owner, decoded by everyone's roster.

Each payload is one msgpack array; fields that a later version appends are ignored, so N and N+1 mix both ways.
"""

from typing import Any, cast

import attrs
import msgpack  # pyright: ignore[reportMissingTypeStubs]

from ..capabilities.errors import CapabilityError
from ..capabilities.record import NodeCapabilities
from ..placement.nodes import Schedulable

# A DNS name's length; longer host names do not exist.
NAME_BYTES = 253
# msgpack ships no types.
_codec: Any = msgpack
_SCHEDULES = (Schedulable.YES, Schedulable.CORDONED, Schedulable.DRAINING)
WEIGHT_LIMIT = 1000


class PayloadError(ValueError):
    """A section of another node does not decode. The node stays a member; its record says why it cannot be used."""


@attrs.frozen
class RecordPayload:
    """A node's capability record with the name people call it by and the version of its agent."""

    name: str
    agent_version: str
    capabilities: NodeCapabilities

    def encode(self) -> bytes:
        return _pack([self.name, self.agent_version, self.capabilities.to_wire()])

    @classmethod
    def decode(cls, data: bytes) -> "RecordPayload":
        """Raises PayloadError naming the field."""
        name, version, wire = _fields(data, "record", 3)
        if type(name) is not str or not 0 < len(name.encode("utf-8", "replace")) <= NAME_BYTES:
            raise PayloadError(f"record.name: expected 1 to {NAME_BYTES} bytes of text")
        if type(version) is not str or type(wire) is not bytes:
            raise PayloadError("record: expected [text, text, bytes]")
        try:
            return cls(name, version, NodeCapabilities.from_wire(wire))
        except CapabilityError as error:
            raise PayloadError(f"record.capabilities: {error}") from error


@attrs.frozen
class SchedulePayload:
    """Whether a node takes new work, and its weight among equals (100 is usual)."""

    schedulable: Schedulable = Schedulable.YES
    weight: int = 100

    def encode(self) -> bytes:
        return _pack([_SCHEDULES.index(self.schedulable), self.weight])

    @classmethod
    def decode(cls, data: bytes) -> "SchedulePayload":
        """Raises PayloadError naming the field."""
        state, weight = _fields(data, "schedule", 2)
        if type(state) is not int or not 0 <= state < len(_SCHEDULES):
            raise PayloadError(f"schedule.state: expected 0 to {len(_SCHEDULES) - 1}")
        if type(weight) is not int or not 0 <= weight <= WEIGHT_LIMIT:
            raise PayloadError(f"schedule.weight: expected 0 to {WEIGHT_LIMIT}")
        return cls(_SCHEDULES[state], weight)


def _pack(value: object) -> bytes:
    packed: bytes = _codec.packb(value)
    return packed


def _fields(data: bytes, place: str, count: int) -> list[Any]:
    """The first `count` items of the msgpack array in `data`. A later version may append fields of any shape.

    Gossip bounds a section to 16 KiB, and msgpack allocates nothing that is only claimed.
    """
    try:
        value: Any = _codec.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, _codec.UnpackException, RecursionError) as error:
        raise PayloadError(f"{place}: not msgpack: {error}") from error
    if type(value) is not list or len(cast("list[Any]", value)) < count:
        raise PayloadError(f"{place}: expected an array of at least {count} fields")
    return cast("list[Any]", value)[:count]

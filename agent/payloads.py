"""What the sections hold that gossip carries without looking: encoded by the owner, decoded by everyone's roster.

Each payload is one msgpack array; fields that a later version appends are ignored, so N and N+1 mix both ways.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import attrs
import msgpack  # pyright: ignore[reportMissingTypeStubs]

from ..capabilities.errors import CapabilityError
from ..capabilities.record import NodeCapabilities
from ..placement.history import History, HistoryRefused, history_from_plain, history_to_plain
from ..placement.nodes import Engines, ResidentModel, Schedulable

# A DNS name's length; longer host names do not exist.
NAME_BYTES = 253
T = TypeVar("T", bool, int)
_ID = re.compile("[0-9a-f]{32}")
# msgpack ships no types.
_codec: Any = msgpack
_SCHEDULES = (Schedulable.YES, Schedulable.CORDONED, Schedulable.DRAINING)
WEIGHT_LIMIT = 1000

# Half a hundred of the latest runs and failures. The section goes to every node, and again after each change: a whole
# 16 KiB of it would crowd out what membership has to say.
HISTORY_BYTES = 4 << 10
# Models with long names that together stay below the same; no machine holds as many.
ENGINES_BYTES = 4 << 10
_RUN_FIELDS = 11
_FAILURE_FIELDS = 9


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


def agent_version(payload: bytes) -> str | None:
    """The version of the agent that published a record; None when it does not say."""
    try:
        version = _fields(payload, "record", 2)[1]
    except PayloadError:
        return None
    return version if type(version) is str else None


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


@attrs.frozen
class HistoryPayload:
    """What callers recorded on a node: the failures that hold longest, then the latest runs, as far as they fit.

    Node ids travel as 16 bytes. Rows that a later version made longer are read as far as they are known.
    """

    history: History

    def encode(self) -> bytes:
        # The budget is of generous guesses of what a row takes: begin with more than what will fit.
        budget = 3 * HISTORY_BYTES
        while len(packed := _pack(_turned(history_to_plain(self.history, budget), _id_bytes))) > HISTORY_BYTES:
            budget -= budget // 5
        return packed

    @classmethod
    def decode(cls, data: bytes) -> "HistoryPayload":
        """Raises PayloadError."""
        try:
            return cls(history_from_plain(_turned(_fields(data, "history", 3), _id_text)))
        except HistoryRefused as error:
            raise PayloadError(f"history: {error}") from error


@attrs.frozen
class EnginesPayload:
    """The inference engines of a node and what they hold in memory; `expires_at` of a model is in Unix time here."""

    engines: Engines

    def encode(self) -> bytes:
        models: list[list[object]] = []
        left = ENGINES_BYTES
        for model in self.engines.models:
            row: list[object] = [model.name, model.engine, model.vram_mb, model.expires_at and int(model.expires_at)]
            left -= len(_pack(row))
            if left < 0:
                break
            models.append(row)
        known = self.engines
        return _pack([known.ollama_running, known.llama_server_running, known.llama_server_port, models])

    @classmethod
    def decode(cls, data: bytes) -> "EnginesPayload":
        """Raises PayloadError naming the field."""
        ollama, llama_server, port, models = _fields(data, "engines", 4)
        if type(models) is not list:
            raise PayloadError("engines.models: expected an array")
        return cls(
            Engines(
                ollama_running=_maybe(bool, ollama, "engines.ollama_running"),
                llama_server_running=_maybe(bool, llama_server, "engines.llama_server_running"),
                llama_server_port=_maybe(int, port, "engines.llama_server_port"),
                models=tuple(_model(row) for row in cast("list[object]", models)),
            )
        )


def _model(row: object) -> ResidentModel:
    if type(row) is not list or len(cast("list[object]", row)) < 4:
        raise PayloadError("engines.models: expected arrays of at least 4 fields")
    name, engine, vram_mb, expires = cast("list[object]", row)[:4]
    if type(name) is not str or type(engine) is not str:
        raise PayloadError("engines.models: expected a name and an engine")
    return ResidentModel(
        name=name,
        engine=engine,
        vram_mb=_maybe(int, vram_mb, "engines.models.vram_mb"),
        expires_at=_maybe(int, expires, "engines.models.expires_at"),
    )


def _maybe(kind: type[T], value: object, path: str) -> T | None:
    if value is not None and type(value) is not kind:
        raise PayloadError(f"{path}: expected {kind.__name__} or nothing")
    return cast("T | None", value)


def _rows(rows: object, length: int, node: Callable[[object], object]) -> object:
    """The rows with at most so many fields, the first of them in another form; what is no row is left to its check."""
    if type(rows) is not list:
        return rows
    turned: list[object] = []
    for row in cast("list[object]", rows):
        if type(row) is list and row:
            fields = cast("list[object]", row)
            turned.append([node(fields[0]), *fields[1:length]])
        else:
            turned.append(cast("object", row))
    return turned


def _turned(plain: list[object], node: Callable[[object], object]) -> list[object]:
    version, runs, failures = plain
    return [version, _rows(runs, _RUN_FIELDS, node), _rows(failures, _FAILURE_FIELDS, node)]


def _id_bytes(node: object) -> object:
    text = str(node)
    return bytes.fromhex(text) if _ID.fullmatch(text) else text


def _id_text(node: object) -> object:
    return node.hex() if type(node) is bytes else node


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

"""The compact form of a record.

It is one msgpack array `[version, trues, falses, pairs, groups]`: `trues` and `falses` name the Bool labels,
`pairs` is name, value, name, value ... of the others, `groups` the devices. A well-known name is its integer code, any
other the text itself. Codes come in rising order before names, so equal records have equal bytes. Elements past the
known ones are skipped: they are how a later version adds to this one without breaking it.

Decoding is total: any bytes give a record or a `RecordError`, and nothing is allocated for a length that is only
claimed.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgpack  # pyright: ignore[reportMissingTypeStubs]

from .devices import DeviceGroup
from .errors import RecordError, ValueRefused, shown
from .labels import BY_CODE, LABELS, MAX_CODE
from .record import DIGEST_BYTES, NodeCapabilities
from .values import STR_BYTES, CapValue

# msgpack ships no types.
_codec: Any = msgpack

VERSION = 1
# A section of gossip holds 16 KiB at most; the record shares it with the node's name and version.
MAX_RECORD_BYTES = 16 * 1024 - 512
# More labels than fit the bytes above; a claimed length past it is refused before anything is read.
MAX_ITEMS = 8 * 1024
# Names of kinds and makers that travel as numbers; like label codes they never change.
_KIND_CODES = {"gpu": 0, "tpu": 1, "npu": 2, "fpga": 3, "dpu": 4}
_VENDOR_CODES = {
    "nvidia": 0, "amd": 1, "intel": 2, "apple": 3, "google": 4, "huawei": 5, "habana": 6, "qualcomm": 7,
    "tenstorrent": 8, "amazon": 9, "xilinx": 10,
}  # fmt: skip
_KINDS = {code: name for name, code in _KIND_CODES.items()}
_VENDORS = {code: name for name, code in _VENDOR_CODES.items()}

_CODE_NAME = re.compile(r"code_(0|[1-9][0-9]{0,4})")

# First bytes of msgpack's maps, arrays, binaries and extensions.
_CONTAINERS = frozenset([*range(0x80, 0xA0), *range(0xC4, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)])

_RECORD_ITEMS = 5
_GROUP_FIELDS = ("kind", "vendor", "model", "vram_mb", "compute", "count", "numa", "mig", "unified")

Name = int | str
Read = TypeVar("Read")


def encode_record(record: NodeCapabilities) -> bytes:
    """The canonical bytes. Raises `RecordError` when they are more than `MAX_RECORD_BYTES`."""
    data = _pack(record)
    if len(data) > MAX_RECORD_BYTES:
        problem = f"{len(data)} bytes on the wire; at most {MAX_RECORD_BYTES}: set fewer or shorter labels"
        raise RecordError(path="record", problem=problem)
    return data


def digest_record(record: NodeCapabilities) -> bytes:
    return hashlib.blake2b(_pack(record), digest_size=DIGEST_BYTES).digest()


def _pack(record: NodeCapabilities) -> bytes:
    names: list[tuple[Name, CapValue]] = [(_name(key), value) for key, value in record.labels.items()]
    names.extend(record.unlisted)
    names.sort(key=lambda item: (type(item[0]) is str, item[0]))
    trues = [name for name, value in names if value is True]
    falses = [name for name, value in names if value is False]
    pairs = [part for item in names if type(item[1]) is not bool for part in item]
    groups = [_pack_group(group) for group in record.devices]
    packed: bytes = _codec.packb([VERSION, trues, falses, pairs, groups])
    return packed


def _name(key: str) -> Name:
    label = LABELS.get(key)
    return key if label is None or label.code is None else label.code


def _pack_group(group: DeviceGroup) -> list[object]:
    fields: list[object] = [getattr(group, name) for name in _GROUP_FIELDS]
    fields[0] = _code(group.kind, _KIND_CODES)
    if group.vendor is not None:
        fields[1] = _code(group.vendor, _VENDOR_CODES)
    return fields


def _code(name: str, codes: dict[str, int]) -> Name:
    """The number of a kind or maker; one that only a newer version knows goes on as it came (see `_coded`)."""
    found = _CODE_NAME.fullmatch(name)
    number = int(found[1]) if found is not None else MAX_CODE + 1
    if number <= MAX_CODE and number not in codes.values():
        return number
    return codes.get(name, name)


def decode_record(data: bytes) -> NodeCapabilities:
    """The record in these bytes. Raises `RecordError`, and nothing else, when there is none."""
    if type(data) is not bytes:  # a payload that came out of a container may be anything
        raise RecordError(path="record", problem=f"wanted bytes, got {shown(data)}")
    if len(data) > MAX_RECORD_BYTES:
        raise RecordError(path="record", problem=f"{len(data)} bytes; at most {MAX_RECORD_BYTES}")
    reader = _Reader(data)
    parts = reader.array("record", least=_RECORD_ITEMS)
    (version,) = reader.scalars(1, "version")
    if type(version) is not int or version != VERSION:
        raise RecordError(path="version", problem=f"wanted {VERSION}, got {shown(version)}")
    labels: dict[str, CapValue] = {}
    unlisted: dict[int, CapValue] = {}
    for name, value in _named(reader):
        if name in labels or name in unlisted:
            raise RecordError(path=str(name), problem="stands twice")
        if type(name) is int:
            unlisted[name] = value
        else:
            labels[str(name)] = value
    groups = [_group(reader, f"devices[{at}]") for at in range(reader.array("devices"))]
    reader.skip(parts - _RECORD_ITEMS)
    reader.end()
    try:
        return NodeCapabilities(labels=labels, devices=groups, unlisted=tuple(unlisted.items()))
    except ValueRefused as error:
        raise RecordError(path=error.path, problem=f"wanted {error.wanted}, got {shown(error.got)}") from error


def _named(reader: "_Reader") -> Iterator[tuple[Name, CapValue]]:
    """Every label of the record under its name, or under its code where that has no name here."""
    for path, value in (("trues", True), ("falses", False)):
        for name in reader.scalars(reader.array(path), path):
            yield _known(name, path), value
    pairs = reader.scalars(reader.array("pairs"), "pairs")
    if len(pairs) % 2:
        raise RecordError(path="pairs", problem="a name without its value")
    for coded, value in zip(pairs[::2], pairs[1::2], strict=True):
        name = _known(coded, "pairs")
        if type(value) is not int and type(value) is not str:
            raise RecordError(path=str(name), problem=f"wanted an Int or a Str, got {shown(value)}")
        yield name, value


def _known(name: object, path: str) -> Name:
    if type(name) is str:
        return name
    if type(name) is not int or not 0 <= name <= MAX_CODE:
        raise RecordError(path=path, problem=f"wanted a key or a code up to {MAX_CODE}, got {shown(name)}")
    label = BY_CODE.get(name)
    return name if label is None else label.name


def _group(reader: "_Reader", path: str) -> DeviceGroup:
    items = reader.array(path, least=len(_GROUP_FIELDS))
    fields: dict[str, Any] = dict(zip(_GROUP_FIELDS, reader.scalars(len(_GROUP_FIELDS), path), strict=True))
    reader.skip(items - len(_GROUP_FIELDS))
    fields["kind"] = _coded(fields["kind"], _KINDS, path)
    fields["vendor"] = _coded(fields["vendor"], _VENDORS, path)
    try:
        return DeviceGroup(**fields)
    except ValueRefused as error:
        problem = f"wanted {error.wanted}, got {shown(error.got)}"
        raise RecordError(path=f"{path}.{error.path}", problem=problem) from error


def _coded(value: object, names: dict[int, str], path: str) -> object:
    """The name of a kind or maker; `code_17` for a number that only a newer version knows."""
    if type(value) is not int:
        return value
    if not 0 <= value <= MAX_CODE:
        raise RecordError(path=path, problem=f"wanted a code up to {MAX_CODE}, got {value}")
    return names.get(value, f"code_{value}")


class _Reader:
    """The arrays and scalars of one msgpack value, read one by one so that no nested junk is ever built."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.unpacker = _codec.Unpacker(
            None, raw=False, max_buffer_size=max(1, len(data)), max_array_len=MAX_ITEMS, max_str_len=STR_BYTES
        )
        self.unpacker.feed(data)

    def array(self, path: str, least: int = 0) -> int:
        """The length of the array that comes next, at least so many items."""
        length = self._read(path, self.unpacker.read_array_header)
        if not least <= length <= MAX_ITEMS:
            raise RecordError(path=path, problem=f"wanted a list of at least {least} items")
        return length

    def scalars(self, count: int, path: str) -> list[object]:
        """The next values, none of them a container."""
        return self._read(path, lambda: [self._scalar(path) for _ in range(count)])

    def _scalar(self, path: str) -> object:
        at = self.unpacker.tell()
        if at < len(self.data) and self.data[at] in _CONTAINERS:
            raise RecordError(path=path, problem="wanted one value, got a container")
        return self.unpacker.unpack()

    def skip(self, items: int) -> None:
        for _ in range(items):
            self._read("record", self.unpacker.skip)

    def end(self) -> None:
        if self.unpacker.tell() != len(self.data):
            raise RecordError(path="record", problem="bytes after the end")

    def _read(self, path: str, read: Callable[[], Read]) -> Read:
        try:
            return read()
        except (ValueError, _codec.UnpackException) as error:
            raise RecordError(path=path, problem=f"no msgpack: {shown(str(error))}") from error

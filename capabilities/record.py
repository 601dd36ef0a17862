"""The capability record of one machine: immutable, sorted, hashable, with a canonical digest."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from .devices import MAX_GROUPS, DeviceGroup, group_devices
from .errors import ValueRefused
from .labels import BY_CODE, MAX_CODE
from .values import CapValue, check_int, check_key, check_value, same, typed

if TYPE_CHECKING:
    from .requirement import PlacementRequirement

DIGEST_BYTES = 8


def _sorted_labels(labels: Mapping[str, CapValue]) -> Mapping[str, CapValue]:
    for key, value in labels.items():
        check_value(value, check_key(key))
    return MappingProxyType(dict(sorted(labels.items())))


def _sorted_unlisted(unlisted: Iterable[tuple[int, CapValue]]) -> tuple[tuple[int, CapValue], ...]:
    checked: dict[int, CapValue] = {}
    for code, value in unlisted:
        if check_int(code, "code", 0, MAX_CODE) in BY_CODE or code in checked:
            raise ValueRefused(path="code", wanted="a code that has no name here, once", got=code)
        checked[code] = check_value(value, f"code {code}")
    return tuple(sorted(checked.items()))


def _groups(devices: Iterable[DeviceGroup]) -> tuple[DeviceGroup, ...]:
    groups = group_devices(devices)
    if len(groups) > MAX_GROUPS:
        raise ValueRefused(path="devices", wanted=f"at most {MAX_GROUPS} different groups", got=len(groups))
    return groups


@attrs.frozen(eq=False)
class NodeCapabilities:
    """What one machine has: labels in sorted order, and its accelerators as groups of equal ones.

    `labels` is a read-only mapping. `unlisted` holds what a newer version of shoal sent under integer codes that this
    one does not know: kept and sent on, matched by nothing. Raises `ValueRefused` for an illegal key or value.
    """

    labels: Mapping[str, CapValue] = attrs.field(factory=dict[str, CapValue], converter=_sorted_labels)
    devices: tuple[DeviceGroup, ...] = attrs.field(default=(), converter=_groups)
    unlisted: tuple[tuple[int, CapValue], ...] = attrs.field(default=(), converter=_sorted_unlisted, kw_only=True)

    def get(self, key: str, default: CapValue | None = None) -> CapValue | None:
        return self.labels.get(key, default)

    def set(self, key: str, value: CapValue) -> "NodeCapabilities":
        """A record in which `key` has this value; this one is unchanged."""
        return self.with_labels({key: value})

    def with_labels(self, extra: Mapping[str, CapValue]) -> "NodeCapabilities":
        """A record in which the labels of `extra` (an operator's) override those of this one (detected)."""
        return attrs.evolve(self, labels={**self.labels, **extra})

    def satisfies(self, requirement: "PlacementRequirement") -> bool:
        """Whether every term of the requirement holds here; `requirement.check(record)` says which do not."""
        return requirement.satisfied_by(self)

    @property
    def digest(self) -> bytes:
        """Eight bytes that differ when the records differ: blake2b over the canonical bytes."""
        from .wire import digest_record

        return digest_record(self)

    def to_wire(self) -> bytes:
        """The canonical bytes. Raises `RecordError` when the record is too big to be sent."""
        from .wire import encode_record

        return encode_record(self)

    @classmethod
    def from_wire(cls, data: bytes) -> "NodeCapabilities":
        """The record that `to_wire` wrote. Raises `RecordError`, and nothing else, for any other bytes."""
        from .wire import decode_record

        return decode_record(data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeCapabilities):
            return NotImplemented
        return (
            self.labels == other.labels
            and self.devices == other.devices
            and all(same(value, other.labels[key]) for key, value in self.labels.items())
            and [(code, typed(value)) for code, value in self.unlisted]
            == [(code, typed(value)) for code, value in other.unlisted]
        )

    def __hash__(self) -> int:
        return hash((tuple(self.labels.items()), self.devices, self.unlisted))

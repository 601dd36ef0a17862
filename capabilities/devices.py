"""Accelerators: groups of identical devices, and the fields that a `Devices` term may ask for.

A record holds only healthy, usable devices: what failed or was withdrawn is counted in labels (`gpu_failed_count`), not
here. A field that is None is unknown.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from .errors import ValueRefused
from .labels import Form, Label, Role
from .values import CapValue, Kind, check_bool, check_int, check_str

# Far above any machine; keeps sums of counts and a hostile record small.
MAX_COUNT = 65_535
# Different groups in one record: kinds x models x NUMA nodes of the largest machines stay well below.
MAX_GROUPS = 64

KIND_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,31}")

# The fields that a `Devices` term may ask for, as they are written: `gpu[vram_mb>=24GB, compute>=8.9]`.
DEVICE_FIELDS: Mapping[str, Label] = MappingProxyType(
    {
        row.name: row
        for row in (
            Label(name="vendor", kind=Kind.STR, meaning="maker: nvidia, amd, intel ...", role=Role.DEVICE),
            Label(name="model", kind=Kind.STR, meaning="model as a slug: a100-sxm4-80gb", role=Role.DEVICE),
            Label(
                name="vram_mb",
                kind=Kind.INT,
                meaning="memory of one device; unknown when it is the machine's",
                unit="MiB",
                form=Form.MEBIBYTES,
                role=Role.DEVICE,
            ),
            Label(
                name="compute",
                kind=Kind.INT,
                meaning="compute capability: 8.9 is 809",
                unit="a*100+b",
                form=Form.HUNDREDS,
                role=Role.DEVICE,
            ),
            Label(name="numa", kind=Kind.INT, meaning="NUMA node that it hangs on", role=Role.DEVICE),
            Label(name="mig", kind=Kind.BOOL, meaning="an instance of a divided GPU", role=Role.DEVICE),
            Label(name="unified", kind=Kind.BOOL, meaning="shares the memory of the machine", role=Role.DEVICE),
        )
    }
)


def check_kind(kind: object, path: str = "kind") -> str:
    """Return `kind` when it is a device kind (`gpu`, `tpu`, `npu` or another short lower-case word)."""
    if type(kind) is not str or KIND_PATTERN.fullmatch(kind) is None:
        raise ValueRefused(path=path, wanted="a device kind: a lower-case word such as gpu", got=kind)
    return kind


@attrs.frozen(kw_only=True)
class DeviceGroup:
    """`count` identical devices of one `kind`. Raises `ValueRefused` for a field of a wrong type or range."""

    kind: str
    vendor: str | None = None
    model: str | None = None
    vram_mb: int | None = None
    compute: int | None = None
    count: int = 1
    numa: int | None = None
    mig: bool | None = None
    unified: bool | None = None
    facts: Mapping[str, CapValue] = attrs.field(init=False, eq=False, repr=False)
    """The known fields by name: what the `where` terms of a `Devices` constraint read."""

    def __attrs_post_init__(self) -> None:
        check_kind(self.kind)
        check_int(self.count, "count", 1, MAX_COUNT)
        facts: dict[str, CapValue] = {}
        for name, field in DEVICE_FIELDS.items():
            value = getattr(self, name)
            if value is None:
                continue
            if field.kind is Kind.STR:
                facts[name] = check_str(value, name)
            elif field.kind is Kind.BOOL:
                facts[name] = check_bool(value, name)
            else:
                facts[name] = check_int(value, name, low=0)
        object.__setattr__(self, "facts", MappingProxyType(facts))


def _order(group: DeviceGroup) -> tuple[object, ...]:
    """Sorts by kind and fields, an unknown field before any known one."""
    facts = group.facts
    return (group.kind, *((name in facts, facts.get(name, 0)) for name in DEVICE_FIELDS))


def group_devices(devices: Iterable[DeviceGroup]) -> tuple[DeviceGroup, ...]:
    """Equal devices as one group each, in an order that does not depend on the order found."""
    counts: Counter[DeviceGroup] = Counter()
    for device in devices:
        counts[attrs.evolve(device, count=1)] += device.count
    groups = (attrs.evolve(identity, count=count) for identity, count in counts.items())
    return tuple(sorted(groups, key=_order))

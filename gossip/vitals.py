"""Vitals: one small fixed row per node of what changes by the second. 30 bytes, big-endian, all ones = unknown."""

from __future__ import annotations

import struct

import attrs

from .errors import WireError

PACKED_BYTES = 30
COUNTER_LIMIT = 1 << 32

_FIXED = struct.Struct(">I3sH3s3s3s3sHHHBBB")
_U16 = 0xFFFF
_U24 = 0xFFFFFF
_U8 = 0xFF
_BITS3 = 7
_BITS2 = 3

# A new row is worth sending when one of these moved by at least a quantum: a share of the old value, or a step.
_SHARE = 0.05
_MEMORY_STEP = 256  # MiB: less does not change a placement
_LOAD_STEP = 25  # hundredths of a runnable task
_BUSY_STEP = 50  # thousandths
_PSI_STEP = 200  # hundredths of a percent
_THERMAL_STEP = 3  # degrees
_BATTERY_STEP = 2  # percent


@attrs.frozen(kw_only=True)
class Vitals:
    """What a node's load is. None means that the node could not tell.

    A value outside its field's range is sent as the nearest that the field can say.
    """

    counter: int = 0
    """Set by `Node.set_vitals`: the greater wins within a generation."""
    load1_centi: int | None = None
    cpu_busy_permille: int | None = None
    available_mib: int | None = None
    reserved_mib: int | None = None
    """Sum of the claims on the node."""
    gpu_best_free_mib: int | None = None
    gpu_total_free_mib: int | None = None
    psi_cpu_some_centi: int | None = None
    """Hundredths of a percent, average of 10 s; as the other two."""
    psi_memory_some_centi: int | None = None
    psi_memory_full_centi: int | None = None
    thermal_celsius: int | None = None
    battery_percent: int | None = None
    pressure_level: int | None = None
    """0 none, 1 low, 2 medium, 3 high."""
    thermal_state: int | None = None
    """0 nominal, 1 fair, 2 serious, 3 critical."""
    power_source: int | None = None
    """0 mains, 1 battery."""

    def pack(self) -> bytes:
        bits = (
            _fit(self.pressure_level, _BITS3) << 5
            | _fit(self.thermal_state, _BITS3) << 2
            | _fit(self.power_source, _BITS2)
        )
        return _FIXED.pack(
            self.counter,
            _fit(self.load1_centi, _U24).to_bytes(3, "big"),
            _fit(self.cpu_busy_permille, _U16),
            _fit(self.available_mib, _U24).to_bytes(3, "big"),
            _fit(self.reserved_mib, _U24).to_bytes(3, "big"),
            _fit(self.gpu_best_free_mib, _U24).to_bytes(3, "big"),
            _fit(self.gpu_total_free_mib, _U24).to_bytes(3, "big"),
            _fit(self.psi_cpu_some_centi, _U16),
            _fit(self.psi_memory_some_centi, _U16),
            _fit(self.psi_memory_full_centi, _U16),
            _fit(self.thermal_celsius, _U8),
            _fit(self.battery_percent, _U8),
            bits,
        )

    @classmethod
    def unpack(cls, data: bytes) -> Vitals:
        """The value of 30 bytes; every such string has one. Raises WireError for another length."""
        if len(data) != PACKED_BYTES:
            raise WireError("vitals", f"{PACKED_BYTES} bytes", len(data))
        counter, load1, busy, available, reserved, best, total, cpu, some, full, thermal, battery, bits = _FIXED.unpack(
            data
        )
        return cls(
            counter=counter,
            load1_centi=_known24(load1),
            cpu_busy_permille=_known(busy, _U16),
            available_mib=_known24(available),
            reserved_mib=_known24(reserved),
            gpu_best_free_mib=_known24(best),
            gpu_total_free_mib=_known24(total),
            psi_cpu_some_centi=_known(cpu, _U16),
            psi_memory_some_centi=_known(some, _U16),
            psi_memory_full_centi=_known(full, _U16),
            thermal_celsius=_known(thermal, _U8),
            battery_percent=_known(battery, _U8),
            pressure_level=_known(bits >> 5, _BITS3),
            thermal_state=_known(bits >> 2 & _BITS3, _BITS3),
            power_source=_known(bits & _BITS2, _BITS2),
        )


# Field and the smallest step that is worth a new row; amounts of memory and load also need a share of the old value.
_QUANTA: tuple[tuple[str, int, float], ...] = (
    ("load1_centi", _LOAD_STEP, _SHARE),
    ("cpu_busy_permille", _BUSY_STEP, 0.0),
    ("available_mib", _MEMORY_STEP, _SHARE),
    ("reserved_mib", 1, 0.0),
    ("gpu_best_free_mib", _MEMORY_STEP, _SHARE),
    ("gpu_total_free_mib", _MEMORY_STEP, _SHARE),
    ("psi_cpu_some_centi", _PSI_STEP, _SHARE),
    ("psi_memory_some_centi", _PSI_STEP, 0.0),
    ("psi_memory_full_centi", _PSI_STEP, 0.0),
    ("thermal_celsius", _THERMAL_STEP, 0.0),
    ("battery_percent", _BATTERY_STEP, 0.0),
    ("pressure_level", 1, 0.0),
    ("thermal_state", 1, 0.0),
    ("power_source", 1, 0.0),
)


def worth_telling(old: Vitals, new: Vitals) -> bool:
    """Whether `new` differs from `old` by at least one quantum in some field."""
    for name, step, share in _QUANTA:
        before, after = getattr(old, name), getattr(new, name)
        if before is None or after is None:
            if before is not after:
                return True
        elif abs(after - before) >= max(step, share * before):
            return True
    return False


def _fit(value: int | None, unknown: int) -> int:
    if value is None:
        return unknown
    return min(max(value, 0), unknown - 1)


def _known(value: int, unknown: int) -> int | None:
    return None if value == unknown else value


def _known24(data: bytes) -> int | None:
    return _known(int.from_bytes(data, "big"), _U24)

"""What this agent knows of its machine: a survey, and what the checks after it withdrew. All of it waits in threads.

Probes keep deadlines of their own, so a thread that is given up ends soon, or is one that hangs in the kernel and that
nobody can end.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import attrs
import structlog
import trio

from ..capabilities import health, survey
from ..capabilities.devices import MAX_COUNT, DeviceGroup
from ..capabilities.probes.findings import DetectWarning, model_slug
from ..capabilities.record import NodeCapabilities
from ..capabilities.values import CapValue
from .config import DetectConfig

log = structlog.get_logger("shoal.detect")

# Below this a state directory soon refuses to be written, and a full disk breaks more than one program.
LOW_DISK_MB = 64
# What a pretended node keeps of its machine.
_REAL = ("arch", "os")


@attrs.frozen(kw_only=True)
class Known:
    """The record without operator labels, what could not be read, and the vitals that only drivers of GPUs tell.

    `checked` are the warnings of the last health check.
    """

    record: NodeCapabilities = attrs.field(factory=NodeCapabilities)
    detected: tuple[DetectWarning, ...] = ()
    checked: tuple[DetectWarning, ...] = ()
    vitals: Mapping[str, CapValue] = attrs.field(factory=dict[str, CapValue])

    @property
    def warnings(self) -> tuple[DetectWarning, ...]:
        return survey.distinct((*self.detected, *self.checked))


async def detected(config: DetectConfig) -> Known:
    """Survey the machine; of a pretended node's machine only architecture and system are taken, and no hook runs."""
    directories = survey.Directories(config.labels_dir or None, config.probes_dir or None)
    if not config.enabled:
        directories = survey.Directories(None, None)
    work = functools.partial(survey.detect, directories=directories)
    found = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    if not config.enabled:
        return Known(record=NodeCapabilities(labels={key: found.record.labels[key] for key in _REAL}))
    return Known(record=found.record, detected=found.warnings, vitals=_of_gpus(found.vitals))


def pretended_gpus(labels: Mapping[str, CapValue]) -> tuple[DeviceGroup, ...]:
    """The devices of a pretended node: as many equal GPUs as its labels claim."""
    count, name = labels.get("gpu_count"), labels.get("gpu_name")
    if type(count) is not int or not 0 < count <= MAX_COUNT:
        return ()
    group = DeviceGroup(
        kind="gpu",
        vendor="nvidia" if labels.get("gpu_nvidia") is True else None,
        model=(model_slug(name) or None) if isinstance(name, str) else None,
        vram_mb=_amount(labels.get("gpu_vram_mb")),
        compute=_amount(labels.get("gpu_compute_capability")),
        count=count,
    )
    return (group,)


def _amount(value: CapValue | None) -> int | None:
    return value if type(value) is int and value >= 0 else None


async def checked(known: Known) -> Known:
    """The same less the GPUs that do not answer any more, with their free memory of now."""
    work = functools.partial(health.check_health, known.record)
    found = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    for group in found.withdrawn:
        log.warning("gpu.withdrawn", count=group.count, vendor=group.vendor, model=group.model)
    return attrs.evolve(known, record=found.record, checked=found.warnings, vitals=_of_gpus(found.vitals))


async def free_mib(paths: Sequence[str]) -> dict[str, int | None]:
    """Free MiB by path, None where it cannot be had; a dead mount delays the answer and nothing else."""
    work = functools.partial(survey.free_space, paths)
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def disk_warnings(free: Mapping[str, int | None]) -> tuple[DetectWarning, ...]:
    """What is wrong with the free space of some paths, in words that do not change from minute to minute."""
    found: list[DetectWarning] = []
    for path, amount in free.items():
        if amount is None:
            found.append(DetectWarning("storage", path, "its free space cannot be read, or its mount does not answer"))
        elif amount < LOW_DISK_MB:
            found.append(DetectWarning("storage", path, f"less than {LOW_DISK_MB} MiB are free"))
    return tuple(found)


def _of_gpus(vitals: Mapping[str, CapValue]) -> dict[str, CapValue]:
    return {key: value for key, value in vitals.items() if key.startswith("gpu_")}

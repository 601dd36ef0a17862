"""The health check after a detection: it may only withdraw.

Called at most every `CHECK_SECONDS`, from a thread. GPUs that were detected and do not answer any more (lost, driver
replaced under way, library hanging) leave the record, with the reason in its labels; what appears or recovers waits for
the next detection, so that a flapping device cannot draw work again and again.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

import attrs

from .devices import DeviceGroup
from .probes import amd, apple, gpus, intel, nvidia
from .probes.deadline import Work, run_all
from .probes.facades import Facades, system_facades
from .probes.findings import DetectWarning, Findings, Gpu
from .probes.reader import CachedReader, Reader, SystemReader
from .record import NodeCapabilities
from .values import CapValue

# NVML takes tens of milliseconds when it is well, and a driver without its persistence daemon wakes every GPU for it.
CHECK_SECONDS = 30.0

PROBES = {"nvidia": nvidia.probe, "amd": amd.probe, "intel": intel.probe, "apple": apple.probe}
PROBE_SECONDS = nvidia.NVML_SECONDS + 5.0

# What sums up the devices of the record, and goes or changes with them.
SUMMARY = frozenset({
    "gpu_nvidia", "gpu_count", "gpu_name", "gpu_models", "gpu_vram_mb", "gpu_vram_max_mb", "gpu_vram_total_mb",
    "gpu_compute_capability", "gpu_memory_unified", "gpu_integrated", "gpu_homogeneous", "gpu_shared_memory_mb",
})  # fmt: skip
# What only the drivers tell, taken from the new answers when something was withdrawn.
TOLD = frozenset({"gpu_error", "gpu_failed_count", "gpu_amd_count", "gpu_intel_count", "gpu_mig", "gpu_visible_count"})


@attrs.frozen(kw_only=True)
class Health:
    """The record to publish from now on, what it lost, free GPU memory, and why."""

    record: NodeCapabilities
    withdrawn: tuple[DeviceGroup, ...]
    vitals: Mapping[str, CapValue]
    warnings: tuple[DetectWarning, ...]


def check_health(record: NodeCapabilities, reader: Reader | None = None, facades: Facades | None = None) -> Health:
    """Ask the GPUs of `record` (as detected, without operator labels) again. Never raises; blocks until a deadline."""
    held = [group for group in record.devices if group.kind == "gpu"]
    if not held:
        return Health(record=record, withdrawn=(), vitals=MappingProxyType({}), warnings=())
    files, machine = CachedReader(reader or SystemReader()), facades or system_facades()
    works = {name: Work(partial(probe, files, machine), PROBE_SECONDS) for name, probe in PROBES.items()}
    parts: list[Findings] = []
    for name, outcome in run_all(works).items():
        parts.append(outcome.answer or Findings(name))
        if outcome.answer is None:
            parts[-1].warn("probe", outcome.problem)
    kept, gone = _matched(held, [gpu for part in parts for gpu in part.gpus])
    whole = Findings("gpus")
    gpus.summarise(whole, kept)
    told = {key: value for part in parts for key, value in part.labels.items() if key in TOLD}
    return Health(
        record=_withdrawn(record, whole, told) if gone else record,
        withdrawn=gone,
        vitals=MappingProxyType(dict(whole.vitals)),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
    )


def _matched(held: Sequence[DeviceGroup], found: Sequence[Gpu]) -> tuple[list[Gpu], tuple[DeviceGroup, ...]]:
    """The GPUs of the record that still answer, and those that do not. A GPU that is in no group is news: not taken."""
    left = list(found)
    kept: list[Gpu] = []
    gone: list[DeviceGroup] = []
    for group in held:
        answering = [gpu for gpu in left if _is_of(gpu, group)][: group.count]
        for gpu in answering:
            left.remove(gpu)
            kept.append(_as_recorded(gpu, group))
        if len(answering) < group.count:
            gone.append(attrs.evolve(group, count=group.count - len(answering)))
    return kept, tuple(gone)


def _is_of(gpu: Gpu, group: DeviceGroup) -> bool:
    """Whether a GPU is one of a group; a fact that could not be read this time does not speak against it."""
    now = gpu.group()
    names = ("vendor", "model", "vram_mb", "compute", "numa", "mig", "unified")
    return all(getattr(now, name) in (None, getattr(group, name)) for name in names)


def _as_recorded(gpu: Gpu, group: DeviceGroup) -> Gpu:
    """The GPU with what the record knows of it."""
    return attrs.evolve(
        gpu,
        name=gpu.name or group.model,
        vram_mb=gpu.vram_mb if gpu.vram_mb is not None else group.vram_mb,
        compute=gpu.compute if gpu.compute is not None else group.compute,
        numa=group.numa,
        mig=group.mig,
        unified=group.unified,
        integrated=gpu.integrated if gpu.integrated is not None else group.unified,
    )


def _withdrawn(record: NodeCapabilities, whole: Findings, told: Mapping[str, CapValue]) -> NodeCapabilities:
    """The record without what is gone: every label that sums up GPUs is made anew."""
    labels = {key: value for key, value in record.labels.items() if key not in SUMMARY | TOLD}
    others = [group for group in record.devices if group.kind != "gpu"]
    return attrs.evolve(record, labels={**labels, **told, **whole.labels}, devices=(*others, *whole.devices))

"""From single GPUs of any vendor to the scalar labels, vitals and device groups of the record.

Integrated GPUs beside discrete ones are in the device list only: a laptop with a 24 GB card and a processor's own
graphics counts one GPU of 24 GB, so that `gpu_count` and `gpu_vram_mb` speak of the same devices.
"""

from collections import Counter
from collections.abc import Sequence

import attrs

from ..devices import DeviceGroup
from .findings import Findings, Gpu


def summarise(findings: Findings, gpus: Sequence[Gpu]) -> None:
    """Write all labels and vitals that speak of GPUs of any vendor, and the device groups."""
    counted = [gpu for gpu in gpus if not gpu.integrated] or list(gpus)
    source = ", ".join(sorted({gpu.source for gpu in counted})) or "no driver has a GPU"
    findings.devices.extend(gpu.group() for gpu in gpus)
    findings.label("gpu_nvidia", any(gpu.vendor == "nvidia" for gpu in gpus), source)
    findings.label("gpu_count", len(counted), source)
    if not counted:
        return
    names = Counter(gpu.name for gpu in counted if gpu.name is not None)
    if names:
        most = max(names.values())
        findings.label("gpu_name", min(name for name, count in names.items() if count == most), source)
    for key, answers in (
        ("gpu_memory_unified", {gpu.unified for gpu in counted}),
        ("gpu_integrated", {gpu.integrated for gpu in counted}),
    ):
        if None not in answers:
            findings.label(key, True in answers, source)
    _models(findings, [gpu.group() for gpu in counted], source)
    _memory(findings, counted, source)


def _models(findings: Findings, groups: Sequence[DeviceGroup], source: str) -> None:
    models = sorted({group.model for group in groups if group.model})
    findings.label("gpu_models", ",".join(models), source)
    findings.label(
        "gpu_compute_capability", min((g.compute for g in groups if g.compute is not None), default=None), source
    )
    # Devices that differ only in where they hang are alike; models that nobody told may be anything.
    kinds = {attrs.evolve(group, numa=None) for group in groups}
    if len(kinds) > 1 or len(groups) == 1 or all(group.model for group in groups):
        findings.label("gpu_homogeneous", len(kinds) == 1, source)


def _memory(findings: Findings, counted: Sequence[Gpu], source: str) -> None:
    """Own memory of the smallest, the largest and all; nothing of the smallest or all when any is unknown or shared."""
    own = [None if gpu.unified else gpu.vram_mb for gpu in counted]
    known = [amount for amount in own if amount is not None]
    if len(known) == len(own):
        findings.label("gpu_vram_mb", min(known), source)
        findings.label("gpu_vram_total_mb", sum(known), source)
    if known:
        findings.label("gpu_vram_max_mb", max(known), source)
    free = [gpu.free_mb for gpu in counted if gpu.free_mb is not None and not gpu.unified]
    if free:
        findings.vital("gpu_vram_free_mb", max(free), source)
        findings.vital("gpu_vram_free_total_mb", sum(free), source)
    shared = [gpu.shared_mb for gpu in counted if gpu.unified and gpu.shared_mb is not None]
    if shared:
        findings.label("gpu_shared_memory_mb", max(shared), source)

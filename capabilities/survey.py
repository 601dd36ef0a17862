"""A survey of this machine: all probes side by side, each with a deadline, joined into one record.

`detect` and `check_health` take seconds on a machine with broken hardware: call them from a thread, never from an event
loop. `sample_vitals` reads a few files and may be called there.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import attrs

from .devices import MAX_GROUPS, DeviceGroup, group_devices
from .errors import RecordError, ValueRefused
from .probes import (
    accelerators,
    amd,
    apple,
    cgroup,
    cpu,
    engines,
    gpus,
    hooks,
    intel,
    label_files,
    memory,
    network,
    nvidia,
    platform,
    storage,
    system,
    tools,
    vitals,
)
from .probes.deadline import Outcome, Work, run_all, run_one
from .probes.facades import Facades, system_facades
from .probes.findings import DetectWarning, Findings, ResidentModel
from .probes.reader import CachedReader, Reader, SystemReader
from .probes.sampler import Sampler
from .record import NodeCapabilities
from .values import CapValue, check_key

Probe = Callable[[Reader, Facades], Findings]

# Reading /proc and /sys takes milliseconds; a probe that has not ended by now is stuck in the kernel.
PROBE_SECONDS = 5.0
# Probes that wait for something else under deadlines of their own, and may use them up.
SLOW_SECONDS: Mapping[str, float] = {
    "nvidia": nvidia.NVML_SECONDS + PROBE_SECONDS,
    "probes.d": hooks.HOOK_SECONDS + PROBE_SECONDS,
}

PROBES: Mapping[str, Probe] = MappingProxyType(
    {
        "system": system.probe,
        "cpu": cpu.probe,
        "memory": memory.probe,
        "cgroup": cgroup.probe,
        "platform": platform.probe,
        "storage": storage.probe,
        "network": network.probe,
        "nvidia": nvidia.probe,
        "amd": amd.probe,
        "intel": intel.probe,
        "apple": apple.probe,
        "accelerators": accelerators.probe,
        "tools": tools.probe,
        "engines": engines.probe,
        "vitals": vitals.probe,
    }
)


@attrs.frozen
class Directories:
    """Where operators put label files and hook programs; None: nowhere."""

    labels: str | None = "/etc/shoal/labels.d"
    probes: str | None = "/etc/shoal/probes.d"


# Parts whose labels an operator's files and programs add.
ADDED = frozenset({"probes.d", "labels.d"})

# Warnings of one survey, over all probes: more are of no use to a reader.
WARNINGS = 200


@attrs.frozen(kw_only=True)
class Detection:
    """What a survey found: the record to publish, what changes, and what could not be read.

    `sources` tells for each label, vital and engine fact where it came from; `seconds` how long each probe took.
    """

    record: NodeCapabilities
    vitals: Mapping[str, CapValue]
    warnings: tuple[DetectWarning, ...]
    sources: Mapping[str, str]
    engines: Mapping[str, CapValue]
    models: tuple[ResidentModel, ...]
    seconds: Mapping[str, float]


def detect(
    reader: Reader | None = None, facades: Facades | None = None, directories: Directories | None = None
) -> Detection:
    """Survey this machine, or the one that `reader` and `facades` show. Never raises; blocks until all deadlines.

    The operator's files and hooks (of the usual `directories` when not given) override what probes found.
    """
    files = CachedReader(reader or SystemReader())
    machine = facades or system_facades()
    works = {
        name: Work(partial(probe, files, machine), SLOW_SECONDS.get(name, PROBE_SECONDS))
        for name, probe in PROBES.items()
    }
    places = directories or Directories()
    for name, read, directory in (
        ("probes.d", hooks.run_directory, places.probes),
        ("labels.d", label_files.read_directory, places.labels),
    ):
        if directory is not None:
            works[name] = Work(partial(read, files, machine, directory), SLOW_SECONDS.get(name, PROBE_SECONDS))
    return joined(run_all(works))


def joined(outcomes: Mapping[str, Outcome[Findings]]) -> Detection:
    """One detection from what the probes found, in the order of the probes: a later one overrides an earlier."""
    parts: list[Findings] = []
    for name, outcome in outcomes.items():
        if outcome.answer is not None:
            parts.append(outcome.answer)
        else:
            parts.append(Findings(name))
            parts[-1].warn("probe", outcome.problem)
    whole = Findings("gpus")
    gpus.summarise(whole, [gpu for part in parts for gpu in part.gpus])
    parts.insert(0, whole)
    labels = _merged(parts, _labels)
    devices = group_devices(device for part in parts for device in part.devices)
    if len(devices) > MAX_GROUPS:
        whole.warn("devices", f"{len(devices)} different groups, only {MAX_GROUPS} are kept")
    record = _record(labels, devices[:MAX_GROUPS], whole)
    if not _fits(record):
        # Only an operator's files and hooks can be so many.
        added = {key for part in parts if part.probe in ADDED for key in part.labels}
        whole.warn("labels.d, probes.d", f"{len(added)} labels make a record that is too big to be spread: not used")
        record = _record(_merged([part for part in parts if part.probe not in ADDED], _labels), record.devices, whole)
    return Detection(
        record=record,
        vitals=MappingProxyType(_merged(parts, lambda part: part.vitals)),
        warnings=distinct(warning for part in parts for warning in part.warnings)[:WARNINGS],
        sources=MappingProxyType({key: source for part in parts for key, source in part.sources.items()}),
        engines=MappingProxyType(_merged(parts, lambda part: part.engines)),
        models=tuple(model for part in parts for model in part.models),
        seconds=MappingProxyType({name: outcome.seconds for name, outcome in outcomes.items()}),
    )


def distinct(warnings: Iterable[DetectWarning]) -> tuple[DetectWarning, ...]:
    """Each thing that went wrong once, however many probes ran into it."""
    first: dict[tuple[str, str], DetectWarning] = {}
    for warning in warnings:
        first.setdefault((warning.source, warning.reason), warning)
    return tuple(first.values())


_sampler: Sampler | None = None
_sampler_lock = threading.Lock()


def sample_vitals(reader: Reader | None = None, facades: Facades | None = None) -> dict[str, CapValue]:
    """The vitals of now, for a few file reads; also `cpu_busy_permille`, from the second sample on.

    Without arguments the sampler of this process is used, which remembers its file lists; with them a new one each
    time: keep a `Sampler` to sample another machine repeatedly. Never raises.
    """
    global _sampler  # noqa: PLW0603 - one machine, one sampler
    if reader is not None or facades is not None:
        return Sampler(reader or SystemReader(), facades or system_facades()).sample()
    with _sampler_lock:
        if _sampler is None:
            _sampler = Sampler(SystemReader(), system_facades())
        return _sampler.sample()


@attrs.frozen
class EngineFacts:
    """The engines section of now: facts by name, every resident model, and what could not be read."""

    facts: Mapping[str, CapValue]
    models: tuple[ResidentModel, ...]
    warnings: tuple[DetectWarning, ...]


def sample_engines(reader: Reader | None = None, facades: Facades | None = None) -> EngineFacts:
    """Which inference engines run and what they hold. Never raises; asks local servers, so call it from a thread."""
    work = partial(engines.probe, reader or SystemReader(), facades or system_facades())
    outcome = run_one("engines", work, PROBE_SECONDS)
    found = outcome.answer or Findings("engines")
    if outcome.answer is None:
        found.warn("probe", outcome.problem)
    return EngineFacts(MappingProxyType(dict(found.engines)), tuple(found.models), tuple(found.warnings))


def free_space(paths: Sequence[str], facades: Facades | None = None) -> dict[str, int | None]:
    """Free MiB of the file systems of some paths; None for one that cannot be read or does not answer in time.

    Call it from a thread: a dead mount costs `storage.USAGE_SECONDS`.
    """
    found = storage.usages(facades or system_facades(), paths, Findings("storage"))
    return {path: found[path].free // storage.MIB if path in found else None for path in paths}


def _labels(part: Findings) -> Mapping[str, CapValue]:
    return part.labels


def _fits(record: NodeCapabilities) -> bool:
    try:
        record.to_wire()
    except RecordError:
        return False
    return True


def _merged(parts: list[Findings], which: Callable[[Findings], Mapping[str, CapValue]]) -> dict[str, CapValue]:
    return {key: value for part in parts for key, value in which(part).items()}


def _record(labels: Mapping[str, CapValue], devices: tuple[DeviceGroup, ...], whole: Findings) -> NodeCapabilities:
    """The record; a label whose key is none is left out with a warning (a hook or an odd file may name one)."""
    kept: dict[str, CapValue] = {"arch": "unknown", "os": "unknown"}
    for key, value in labels.items():
        try:
            kept[check_key(key)] = value
        except ValueRefused as refused:
            whole.warn(key, refused)
    return NodeCapabilities(labels=kept, devices=devices)

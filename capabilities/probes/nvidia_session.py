"""A session with NVML: every device and every attribute asked for on its own.

What cannot be used is not counted: a GPU that is lost (15) or needs a reset (16), one that this user may not open (4),
and the parent of MIG instances.
"""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import attrs

from . import jetson
from .findings import Gpu, readable
from .nvml import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    UNKNOWN,
    Nvml,
    NvmlFault,
)
from .pci import normal_address, numa_node
from .reader import Look
from .visible import visible_count

# More GPUs or instances in one machine are a garbled answer.
MOST_GPUS = 256
MOST_INSTANCES = 16
# An instance count that the driver did not tell: every generation so far has at most seven.
USUAL_INSTANCES = 7
MIB = 1024 * 1024

# The device is unusable whatever else it answers.
FATAL = frozenset({GPU_IS_LOST, RESET_REQUIRED})
# The ordinary answers of healthy devices that lack a feature, of old drivers, and of containers.
ORDINARY = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND})

# Compute capabilities that exist only as a part of a system on chip, with one memory for CPU and GPU.
INTEGRATED_COMPUTE = frozenset({302, 503, 602, 702, 807, 1001, 1100, 1201})
_INTEGRATED_NAME = re.compile(r"\b(gb1[0-9]|orin|thor|xavier|tegra|jetson|nvgpu|n1x?)\b", re.IGNORECASE)

# nvmlBrandType_t; numbers that are not here are brands of a newer driver.
BRANDS = {
    1: "quadro", 2: "tesla", 3: "nvs", 4: "grid", 5: "geforce", 6: "titan", 7: "vapps", 8: "vpc", 9: "vcs", 10: "vws",
    11: "cloud-gaming", 12: "quadro-rtx", 13: "rtx", 14: "nvidia", 15: "geforce-rtx", 16: "titan-rtx",
}  # fmt: skip


class Garbled(Exception):
    """The binding failed on what the library gave it: text that is no UTF-8, a number that it does not know."""


class _Unusable(Exception):
    """The device at hand has failed with this fault."""

    def __init__(self, fault: NvmlFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def called(nvml: Nvml, name: str, *arguments: object, version: str | None = None) -> object:
    """One call. Raises NvmlFault, or Garbled for whatever else a binding raises."""
    try:
        return nvml.call(name, *arguments, version=version)
    except NvmlFault:
        raise
    except Exception as error:
        raise Garbled(f"{type(error).__name__}: {error}") from error


@attrs.frozen
class Session:
    """Between nvmlInit and nvmlShutdown."""

    nvml: Nvml
    look: Look
    arm: bool

    def refused(self, what: str, fault: NvmlFault) -> None:
        self.look.findings.label("gpu_error", f"nvml:{fault.code}", "NVML")
        self.look.findings.warn(f"NVML {what}", fault)

    def survey(self, visible: str | None) -> None:
        findings = self.look.findings
        try:
            count = called(self.nvml, "nvmlDeviceGetCount")
        except NvmlFault as fault:
            self.refused("nvmlDeviceGetCount", fault)
            return
        except Garbled as garbled:
            count = garbled
        if type(count) is not int or not 0 <= count <= MOST_GPUS:
            findings.warn("NVML nvmlDeviceGetCount", f"not a number of GPUs: {count!r}"[:80])
            return
        findings.label("nvidia_driver", readable(text(self.ask("nvmlSystemGetDriverVersion"))), "NVML")
        findings.label("cuda", self._cuda(), "NVML")
        failed = 0
        handles: list[object] = []
        facts: list[Facts] = []
        for index in range(count):
            try:
                handle = self._handle(index)
                if handle is None:
                    continue
                handles.append(handle)
                facts.append(self._device(handle))
            except _Unusable as unusable:
                failed += 1
                self.refused(f"device {index}", unusable.fault)
        if count:
            findings.label("gpu_physical_count", count, "NVML")
            findings.label("gpu_failed_count", failed, "NVML")
            self._shared_labels(facts)
        if visible is not None and count:
            ids = self._ids(handles) if "GPU-" in visible else []
            instances = self._ids([handle for fact in facts for handle in fact.instances]) if "MIG-" in visible else []
            shown = visible_count(visible, count, ids, instances)
            findings.label("gpu_visible_count", shown, "env CUDA_VISIBLE_DEVICES")

    def _ids(self, handles: Sequence[object]) -> list[str | None]:
        return [text(self.ask("nvmlDeviceGetUUID", handle)) for handle in handles]

    def _shared_labels(self, facts: "Sequence[Facts]") -> None:
        findings = self.look.findings
        for fact in facts:
            findings.gpus.extend(fact.gpus)
        divided = [fact.divided for fact in facts if fact.divided is not None]
        if divided:
            findings.label("gpu_mig", any(divided), "NVML")
        corrected = [fact.ecc for fact in facts if fact.ecc is not None]
        if corrected:
            findings.label("gpu_ecc", all(corrected), "NVML")
        brands = sorted({fact.brand for fact in facts if fact.brand is not None})
        findings.label("gpu_brand", ",".join(brands), "NVML")

    def _cuda(self) -> int | None:
        version = self.ask("nvmlSystemGetCudaDriverVersion_v2") or self.ask("nvmlSystemGetCudaDriverVersion")
        if type(version) is not int or not 1000 <= version < 1_000_000:
            return None
        return version // 1000 * 100 + version % 1000 // 10

    def _handle(self, index: int) -> object | None:
        """None for a device that this process may not open: it is someone else's, not broken."""
        try:
            return called(self.nvml, "nvmlDeviceGetHandleByIndex", index)
        except NvmlFault as fault:
            if fault.code == NO_PERMISSION:
                self.look.findings.warn(f"NVML device {index}", fault)
                return None
            raise _Unusable(fault) from fault
        except Garbled as garbled:
            raise _Unusable(NvmlFault(UNKNOWN)) from garbled

    def _device(self, handle: object) -> "Facts":
        """Everything about one device. Raises _Unusable when any answer says that it is lost."""
        asked = _Asked(self)
        name = readable(text(asked("nvmlDeviceGetName", handle)))
        mode = numbers(asked("nvmlDeviceGetMigMode", handle))
        compute = _compute(numbers(asked("nvmlDeviceGetCudaComputeCapability", handle)))
        numa = self._numa(asked("nvmlDeviceGetPciInfo", handle))
        ecc = numbers(asked("nvmlDeviceGetEccMode", handle))
        brand = asked("nvmlDeviceGetBrand", handle)
        memory = self._memory(asked, handle)
        if asked.answers == 0 and UNKNOWN in asked.codes:
            raise _Unusable(NvmlFault(UNKNOWN))
        divided = mode[0] == 1 if mode else None
        parent = Gpu(
            vendor="nvidia",
            name=name,
            compute=compute,
            numa=numa,
            mig=False if divided is False else None,
            source="NVML",
        )
        instances = self._instances(asked, handle) if divided else []
        if divided:
            gpus = [self._instance(asked, instance, parent) for instance in instances]
        else:
            gpus = [self._whole(parent, memory, refused=NOT_SUPPORTED in asked.codes_of("nvmlDeviceGetMemoryInfo"))]
        return Facts(
            gpus=gpus,
            instances=instances,
            divided=divided,
            ecc=ecc[0] == 1 if ecc else None,
            brand=BRANDS.get(brand) if isinstance(brand, int) else None,
        )

    def _whole(self, parent: Gpu, memory: tuple[int | None, int | None], *, refused: bool) -> Gpu:
        total, free = memory
        unified = parent.compute in INTEGRATED_COMPUTE or _INTEGRATED_NAME.search(parent.name or "") is not None
        # Every discrete GPU tells its memory; on Arm "not supported" comes from parts that share the machine's.
        if unified or (total is None and refused and self.arm):
            return attrs.evolve(parent, unified=True, integrated=True, shared_mb=jetson.machine_memory_mb(self.look))
        known = total is not None
        return attrs.evolve(
            parent, vram_mb=total, free_mb=free, unified=False if known else None, integrated=False if known else None
        )

    def _instances(self, asked: "_Asked", handle: object) -> list[object]:
        """The handles of the MIG instances of a divided GPU; places without an instance answer "not found"."""
        most = asked("nvmlDeviceGetMaxMigDeviceCount", handle)
        if type(most) is not int or not 0 < most <= MOST_INSTANCES:
            most = USUAL_INSTANCES
        places = (asked("nvmlDeviceGetMigDeviceHandleByIndex", handle, place) for place in range(most))
        return [instance for instance in places if instance is not None]

    def _instance(self, asked: "_Asked", instance: object, parent: Gpu) -> Gpu:
        name = readable(text(asked("nvmlDeviceGetName", instance))) or parent.name
        total, free = self._memory(asked, instance)
        return attrs.evolve(parent, name=name, vram_mb=total, free_mb=free, mig=True, unified=False, integrated=False)

    def _memory(self, asked: "_Asked", handle: object) -> tuple[int | None, int | None]:
        """Total and free in MiB. The old and the new structure agree on both; some libraries serve only one."""
        for version in (None, "nvmlMemory_v2"):
            answer = asked("nvmlDeviceGetMemoryInfo", handle, version=version)
            total, free = whole(answer, "total"), whole(answer, "free")
            if total:
                return total // MIB, free // MIB if free is not None and free <= total else None
        return None, None

    def _numa(self, info: object) -> int | None:
        bus_id = text(field(info, "busId"))
        return numa_node(self.look, normal_address(bus_id)) if bus_id and "/" not in bus_id else None

    def ask(self, name: str, *arguments: object, version: str | None = None) -> object | None:
        """One answer, or None and (where it is news) a warning."""
        try:
            return called(self.nvml, name, *arguments, version=version)
        except NvmlFault as fault:
            if fault.code not in ORDINARY:
                self.look.findings.warn(f"NVML {name}", fault)
        except Garbled as garbled:
            self.look.findings.warn(f"NVML {name}", garbled)
        return None


@attrs.frozen
class Facts:
    """One physical device: what can be used of it, its MIG instances, and what is summed up over all devices."""

    gpus: list[Gpu]
    instances: list[object]
    divided: bool | None
    ecc: bool | None
    brand: str | None


class _Asked:
    """Asks about one device; remembers which codes came, and raises _Unusable on a fatal one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._codes: list[tuple[str, int]] = []
        self.answers = 0

    @property
    def codes(self) -> set[int]:
        return {code for _, code in self._codes}

    def codes_of(self, name: str) -> set[int]:
        return {code for asked, code in self._codes if asked == name}

    def __call__(self, name: str, *arguments: object, version: str | None = None) -> object | None:
        try:
            answer = called(self._session.nvml, name, *arguments, version=version)
        except NvmlFault as fault:
            if fault.code in FATAL:
                raise _Unusable(fault) from fault
            self._codes.append((name, fault.code))
            # A parent of MIG instances may hide its memory from a container; an empty place for one is ordinary.
            if fault.code not in ORDINARY and name != "nvmlDeviceGetMigDeviceHandleByIndex":
                self._session.look.findings.warn(f"NVML {name}", fault)
            return None
        except Garbled as garbled:
            self.answers += 1
            self._session.look.findings.warn(f"NVML {name}", garbled)
            return None
        self.answers += 1
        return answer


def text(value: object) -> str | None:
    """Old bindings answer in bytes, new ones in str; what is not UTF-8 is unknown."""
    if isinstance(value, bytes):
        try:
            return value.rstrip(b"\0").decode("utf-8")
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def field(answer: object, name: str) -> object:
    """A field of an NVML structure, or of a mapping."""
    if isinstance(answer, Mapping):
        return cast("Mapping[str, object]", answer).get(name)
    return getattr(answer, name, None)


def whole(answer: object, name: str) -> int | None:
    value = field(answer, name)
    return value if type(value) is int and 0 <= value < 2**63 else None


def numbers(answer: object) -> list[int] | None:
    """A pair such as (current, pending), as a list; None when it is no sequence of whole numbers."""
    if not isinstance(answer, (list, tuple)) or not answer:
        return None
    values = cast("Sequence[object]", answer)
    return [value for value in values if isinstance(value, int)] if all(type(v) is int for v in values) else None


def _compute(pair: list[int] | None) -> int | None:
    if pair is None or len(pair) != 2 or not 0 < pair[0] < 100 or not 0 <= pair[1] < 100:
        return None
    return pair[0] * 100 + pair[1]

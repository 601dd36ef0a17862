"""NVIDIA GPUs by NVML, each attribute read on its own; and without NVML, why.

What cannot be used is not counted: a GPU that is lost (15) or needs a reset (16), one that this user may not open (4),
and the parent of MIG instances. NVML can hang on a broken GPU, so all of it runs under a deadline.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import attrs

from . import jetson
from .deadline import run_one
from .facades import Facades
from .findings import Findings, Gpu, readable
from .nvml import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    UNKNOWN,
    Nvml,
    NvmlFault,
)
from .pci import NVIDIA, normal_address, numa_node, pci_devices
from .reader import Look, Reader
from .system import architecture
from .visible import visible_count

# Bringing up eight GPUs without the persistence daemon takes several seconds; a hung one never answers.
NVML_SECONDS = 15.0
# More GPUs or instances in one machine are a garbled answer.
MOST_GPUS = 256
MOST_INSTANCES = 16
# An instance count that the driver did not tell: every generation so far has at most seven.
USUAL_INSTANCES = 7
MIB = 1024 * 1024

DRIVER_VERSION = "/proc/driver/nvidia/version"

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

Kept = TypeVar("Kept")


class _Unusable(Exception):
    """The device at hand has failed with this fault."""

    def __init__(self, fault: NvmlFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def probe(reader: Reader, facades: Facades) -> Findings:
    """GPUs of NVIDIA and the labels that only NVIDIA has."""
    outcome = run_one("nvml", lambda: _by_nvml(reader, facades), NVML_SECONDS)
    findings = outcome.answer
    if findings is None:
        findings = Findings("nvidia")
        findings.warn("NVML", outcome.problem)
        findings.label("gpu_error", "nvml:timeout", "NVML")
    look = Look(reader, findings)
    if "nvidia_driver" not in findings.labels:
        findings.label("nvidia_driver", kernel_module_version(look), DRIVER_VERSION)
    if not findings.gpus and findings.labels.get("gpu_failed_count") is None:
        _without_nvml(look)
    return findings


def kernel_module_version(look: Look) -> str | None:
    """The loaded kernel module's version, whether or not a library of the same version is there."""
    match = re.search(r"Kernel Module(?:\s+for\s+\S+)?\s+([0-9]+(?:\.[0-9]+)+)", look.text(DRIVER_VERSION) or "")
    return match[1] if match is not None else None


def has_card(look: Look) -> bool:
    """An NVIDIA GPU on the bus that is not handed to a guest."""
    devices = pci_devices(look) or ()
    return any(device.vendor == NVIDIA and device.is_gpu and not device.passed_through for device in devices)


def _without_nvml(look: Look) -> None:
    """A Jetson of before NVML; or a card without its library, which deserves a reason."""
    integrated = jetson.gpu(look)
    if integrated is not None:
        look.findings.gpus.append(integrated)
        look.findings.labels.pop("gpu_error", None)
    elif "gpu_error" not in look.findings.labels and has_card(look):
        look.findings.label("gpu_error", f"nvml:{LIBRARY_NOT_FOUND}", "NVML")
        look.findings.warn("NVML", f"there is an NVIDIA GPU, but {NvmlFault(LIBRARY_NOT_FOUND)}")


def _by_nvml(reader: Reader, facades: Facades) -> Findings:
    findings = Findings("nvidia")
    session = _Session(nvml=facades.nvml, look=Look(reader, findings), arm=_is_arm(facades))
    try:
        facades.nvml.call("nvmlInit")
    except NvmlFault as fault:
        if fault.code != LIBRARY_NOT_FOUND:
            session.refused("nvmlInit", fault)
        return findings
    try:
        session.survey(facades.environment("CUDA_VISIBLE_DEVICES"))
    finally:
        session.ask("nvmlShutdown")
    return findings


def _is_arm(facades: Facades) -> bool:
    return architecture(facades.uname().machine) == "arm64"


@attrs.frozen
class _Session:
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
            count = self.nvml.call("nvmlDeviceGetCount")
        except NvmlFault as fault:
            self.refused("nvmlDeviceGetCount", fault)
            return
        if type(count) is not int or not 0 <= count <= MOST_GPUS:
            findings.warn("NVML nvmlDeviceGetCount", f"not a number of GPUs: {count!r}"[:80])
            return
        findings.label("nvidia_driver", readable(text(self.ask("nvmlSystemGetDriverVersion"))), "NVML")
        findings.label("cuda", self._cuda(), "NVML")
        failed = 0
        handles: list[object] = []
        facts: list[_Facts] = []
        for index in range(count):
            try:
                handle = self._handle(index)
                if handle is None:
                    continue
                handles.append(handle)
                facts.append(self._device(handle))
            except _Unusable as unusable:
                failed += 1
                findings.warn(f"NVML device {index}", unusable.fault)
        if count:
            findings.label("gpu_physical_count", count, "NVML")
            findings.label("gpu_failed_count", failed, "NVML")
            self._shared_labels(facts)
        if visible is not None and count:
            ids = [text(self.ask("nvmlDeviceGetUUID", handle)) for handle in handles] if "-" in visible else []
            findings.label("gpu_visible_count", visible_count(visible, count, ids), "env CUDA_VISIBLE_DEVICES")

    def _shared_labels(self, facts: "Sequence[_Facts]") -> None:
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
            return self.nvml.call("nvmlDeviceGetHandleByIndex", index)
        except NvmlFault as fault:
            if fault.code == NO_PERMISSION:
                self.look.findings.warn(f"NVML device {index}", fault)
                return None
            raise _Unusable(fault) from fault

    def _device(self, handle: object) -> "_Facts":
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
        if divided:
            gpus = self._instances(asked, handle, parent)
        else:
            gpus = [self._whole(parent, memory, refused=NOT_SUPPORTED in asked.codes_of("nvmlDeviceGetMemoryInfo"))]
        return _Facts(
            gpus=gpus,
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

    def _instances(self, asked: "_Asked", handle: object, parent: Gpu) -> list[Gpu]:
        """The MIG instances of a divided GPU; places without an instance answer "not found"."""
        most = asked("nvmlDeviceGetMaxMigDeviceCount", handle)
        if type(most) is not int or not 0 < most <= MOST_INSTANCES:
            most = USUAL_INSTANCES
        found: list[Gpu] = []
        for place in range(most):
            instance = asked("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            if instance is None:
                continue
            name = readable(text(asked("nvmlDeviceGetName", instance))) or parent.name
            total, free = self._memory(asked, instance)
            found.append(
                attrs.evolve(parent, name=name, vram_mb=total, free_mb=free, mig=True, unified=False, integrated=False)
            )
        return found

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
            return self.nvml.call(name, *arguments, version=version)
        except NvmlFault as fault:
            if fault.code not in ORDINARY:
                self.look.findings.warn(f"NVML {name}", fault)
        except (ValueError, TypeError) as error:
            self.look.findings.warn(f"NVML {name}", f"{type(error).__name__}: {error}")
        return None


@attrs.frozen
class _Facts:
    """One physical device: what can be used of it, and the attributes that are summed up over all."""

    gpus: list[Gpu]
    divided: bool | None
    ecc: bool | None
    brand: str | None


class _Asked:
    """Asks about one device; remembers which codes came, and raises _Unusable on a fatal one."""

    def __init__(self, session: _Session) -> None:
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
            answer = self._session.nvml.call(name, *arguments, version=version)
        except NvmlFault as fault:
            if fault.code in FATAL:
                raise _Unusable(fault) from fault
            self._codes.append((name, fault.code))
            # A parent of MIG instances may hide its memory from a container; an empty place for one is ordinary.
            if fault.code not in ORDINARY and name != "nvmlDeviceGetMigDeviceHandleByIndex":
                self._session.look.findings.warn(f"NVML {name}", fault)
            return None
        except (ValueError, TypeError) as error:
            self.answers += 1
            self._session.look.findings.warn(f"NVML {name}", f"{type(error).__name__}: {error}")
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

"""NVIDIA GPUs: what NVML says, under a deadline; and where there is no NVML, why, or what the device tree says."""

import re

from . import jetson
from .deadline import run_one
from .facades import Facades
from .findings import Findings
from .nvidia_session import Garbled, Session, called
from .nvml import LIBRARY_NOT_FOUND, UNKNOWN, NvmlFault
from .pci import NVIDIA, pci_devices
from .reader import Look, Reader
from .system import architecture

# Bringing up eight GPUs without the persistence daemon takes several seconds; a hung one never answers.
NVML_SECONDS = 15.0

DRIVER_VERSION = "/proc/driver/nvidia/version"


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
    """A Jetson of before NVML; or a card that NVML does not show, which deserves a reason."""
    integrated = jetson.gpu(look)
    if integrated is not None:
        look.findings.gpus.append(integrated)
        look.findings.labels.pop("gpu_error", None)
    elif "gpu_error" not in look.findings.labels and has_card(look):
        look.findings.warn("NVML", "there is an NVIDIA GPU on the bus, but NVML shows none to this process")


def _by_nvml(reader: Reader, facades: Facades) -> Findings:
    """Everything that NVML says. The session is closed again: an open one would keep a driver from being replaced."""
    findings = Findings("nvidia")
    arm = architecture(facades.uname().machine) == "arm64"
    session = Session(nvml=facades.nvml, look=Look(reader, findings), arm=arm)
    try:
        called(facades.nvml, "nvmlInit")
    except NvmlFault as fault:
        # Most machines have neither a library nor a card: nobody refused anything there.
        if fault.code != LIBRARY_NOT_FOUND or has_card(session.look):
            session.refused("nvmlInit", fault)
        return findings
    except Garbled as garbled:
        findings.warn("NVML nvmlInit", garbled)
        session.refused("nvmlInit", NvmlFault(UNKNOWN))
        return findings
    try:
        session.survey(facades.environment("CUDA_VISIBLE_DEVICES"))
    finally:
        session.ask("nvmlShutdown")
    return findings

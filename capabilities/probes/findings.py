"""What one probe found: labels with their sources, devices, vitals, and warnings about what could not be read."""

import re

import attrs

from ..devices import DeviceGroup
from ..errors import ValueRefused
from ..values import CapValue, check_int, check_str

# Words of a driver's device name that say who made it, not what it is.
VENDOR_WORDS = frozenset({"nvidia", "amd", "ati", "intel", "apple", "corporation", "inc"})
_TRADE_MARK = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")

# One broken machine must not fill the log or the answer: a probe that has warned this often says no more.
WARNINGS_PER_PROBE = 32


@attrs.frozen
class DetectWarning:
    """A fact that could not be read, where it was looked for, and why."""

    probe: str
    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.probe}: {self.source}: {self.reason}"


@attrs.frozen(kw_only=True)
class Gpu:
    """One usable GPU, or one MIG instance. None is unknown; amounts in MiB; `compute` 8.9 is 809.

    `shared_mb` is the machine's memory that a unified device may use, `free_mb` free memory of its own.
    """

    vendor: str
    name: str | None = None
    vram_mb: int | None = None
    free_mb: int | None = None
    shared_mb: int | None = None
    compute: int | None = None
    numa: int | None = None
    mig: bool | None = None
    unified: bool | None = None
    integrated: bool | None = None
    source: str = ""

    def group(self) -> DeviceGroup:
        return DeviceGroup(
            kind="gpu",
            vendor=self.vendor,
            model=(model_slug(self.name) or None) if self.name is not None else None,
            vram_mb=None if self.unified else self.vram_mb,
            compute=self.compute,
            count=1,
            numa=self.numa,
            mig=self.mig,
            unified=self.unified,
        )


@attrs.frozen(kw_only=True)
class ResidentModel:
    """A model that an engine holds in memory; `expires` is seconds since 1970, None is unknown or never."""

    name: str
    engine: str
    vram_mb: int | None = None
    expires: int | None = None


@attrs.define
class Findings:
    """The growing answer of one probe; written by the probe's own thread only."""

    probe: str
    labels: dict[str, CapValue] = attrs.field(factory=dict[str, CapValue])
    sources: dict[str, str] = attrs.field(factory=dict[str, str])
    devices: list[DeviceGroup] = attrs.field(factory=list[DeviceGroup])
    gpus: list[Gpu] = attrs.field(factory=list[Gpu])
    vitals: dict[str, CapValue] = attrs.field(factory=dict[str, CapValue])
    engines: dict[str, CapValue] = attrs.field(factory=dict[str, CapValue])
    models: list[ResidentModel] = attrs.field(factory=list[ResidentModel])
    warnings: list[DetectWarning] = attrs.field(factory=list[DetectWarning])

    def warn(self, source: str, reason: object) -> None:
        """Note that `source` could not be read or believed; the same words are noted once."""
        warning = DetectWarning(self.probe, source, printable(str(reason)) or type(reason).__name__)
        if len(self.warnings) < WARNINGS_PER_PROBE and warning not in self.warnings:
            self.warnings.append(warning)

    def label(self, key: str, value: CapValue | None, source: str) -> None:
        """Set a label, or leave it absent when the value is None, empty, or cannot be a label."""
        kept = self._checked(value, key, source)
        if kept is not None:
            self.labels[key] = kept
            self.sources[key] = source

    def vital(self, key: str, value: CapValue | None, source: str) -> None:
        """Set a vital; the same refusals as `label`, but an absent vital needs no source."""
        kept = self._checked(value, key, source)
        if kept is not None:
            self.vitals[key] = kept
            self.sources[key] = source

    def engine(self, key: str, value: CapValue | None, source: str) -> None:
        """Set a fact of the engines section, where an empty Str is a statement ("none")."""
        kept = value if value == "" and type(value) is str else self._checked(value, key, source)
        if kept is not None:
            self.engines[key] = kept
            self.sources[key] = source

    def _checked(self, value: CapValue | None, key: str, source: str) -> CapValue | None:
        if value is None or type(value) is bool:
            return value
        try:
            if type(value) is int:
                return check_int(value, key)
            text = check_str(" ".join(str(value).split()), key)
        except ValueRefused as refused:
            self.warn(source, refused)
            return None
        if printable(text) != text:
            self.warn(source, f"{key} is not readable text")
            return None
        return text or None


def printable(text: str) -> str:
    """The readable part of `text`: control characters, undecodable bytes and lone surrogates dropped; bounded."""
    return "".join(char for char in text[:1024] if char.isprintable() and char != "\N{REPLACEMENT CHARACTER}")


def readable(name: str | None) -> str | None:
    """A device's name when it is text that can be shown and kept."""
    if name is None:
        return None
    text = " ".join(name.split())
    return text if text and len(text) <= 128 and printable(text) == text else None


def model_slug(name: str) -> str:
    """A driver's device name as a slug: `NVIDIA RTX A6000` is `rtx-a6000`; "" when nothing is left."""
    words = _NOT_IN_SLUG.split(_TRADE_MARK.sub(" ", name.lower()))
    return "-".join(word for word in words if word and word not in VENDOR_WORDS)

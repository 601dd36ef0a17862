"""Reasons and amounts as an operator reads them."""

from __future__ import annotations

from collections.abc import Callable

from ..capabilities.failing import FailingTerm
from .failures import FailureRecord
from .filter import Reason, ReasonKind

_GIB = 1024


def gib(mb: int) -> str:
    """MiB as a short amount: `512 MiB`, `7.5 GiB`, `64 GiB`."""
    if abs(mb) < _GIB:
        return f"{mb} MiB"
    return f"{mb / _GIB:.1f}".removesuffix(".0") + " GiB"


def shortage(wanted: int, actual: int) -> str:
    return f"needs {gib(wanted)}, has {gib(actual)}, {gib(wanted - actual)} short"


def reason_text(reason: Reason) -> str:
    """The reason as a sentence without the node's name."""
    return _TEXTS[reason.kind](reason)


def _fixed(text: str) -> Callable[[Reason], str]:
    return lambda _: text


def _amount(what: str) -> Callable[[Reason], str]:
    return lambda reason: f"{what}: {shortage(_int(reason.wanted), _int(reason.actual))}"


def _over(what: str, unit: str) -> Callable[[Reason], str]:
    return lambda reason: f"{what} {reason.actual}{unit}, the limit is {reason.wanted}{unit}"


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _constraint(reason: Reason) -> str:
    return "requirement not met: " + ", ".join(term_text(term) for term in reason.terms)


def term_text(term: FailingTerm) -> str:
    """A failing term and what is there instead: `gpu_vram_mb>=22888 (has 16384)`."""
    if type(term.actual) is bool:
        return f"{term.text} (is {'true' if term.actual else 'false'})"
    found = "missing" if term.actual is None else f"has {term.actual}"
    return f"{term.text} ({found})"


def _failure(reason: Reason) -> str:
    record = reason.actual
    if not isinstance(record, FailureRecord):
        return "failed lately"
    often = "once" if record.count == 1 else f"{record.count} times"
    return f"{record.failure_class} here lately, {often}: kept away for now"


def _tools(reason: Reason) -> str:
    missing = reason.wanted
    return "lacks " + ", ".join(missing) if isinstance(missing, tuple) else "lacks a tool"


_TEXTS: dict[ReasonKind, Callable[[Reason], str]] = {
    ReasonKind.APPLE_FM_NOT_LOCAL: _fixed("the on-device model can only be used on the deciding node"),
    ReasonKind.APPLE_FM_NOT_READY: _fixed("the on-device model is not ready"),
    ReasonKind.STATUS: lambda reason: f"its facts are {reason.actual}, not {reason.wanted}",
    ReasonKind.CORDONED: _fixed("cordoned"),
    ReasonKind.DRAINING: _fixed("draining"),
    ReasonKind.SUSPECT: _fixed("suspected to be down, and the call is strict"),
    ReasonKind.CONSTRAINT: _constraint,
    ReasonKind.AVOIDED: _fixed("left out by the call"),
    ReasonKind.ANTI_AFFINITY: lambda reason: f"{reason.wanted}={reason.actual} is taken by a node to stay apart from",
    ReasonKind.LABEL_NEEDED: lambda reason: f"has no label {reason.wanted}, by which the call places",
    ReasonKind.PRESSURE_PSI_FULL: _over("memory stood still", " % of the time"),
    ReasonKind.PRESSURE_LINUX_STALL: _over("memory stall", " %"),
    ReasonKind.PRESSURE_DARWIN_HIGH: lambda reason: f"memory pressure {reason.actual}",
    ReasonKind.PRESSURE_OTHER: lambda reason: f"memory pressure {reason.actual}",
    ReasonKind.BATTERY_LOW: lambda reason: f"battery at {reason.actual} %, the floor is {reason.wanted} %",
    ReasonKind.THERMAL: lambda reason: f"thermal state {reason.actual}",
    ReasonKind.FAILURE_MEMORY: _failure,
    ReasonKind.MEMORY_REQUEST: _amount("memory request"),
    ReasonKind.MIN_FREE_RAM: _amount("free memory"),
    ReasonKind.EMPIRICAL_PEAK_RAM: _amount("peak of earlier runs"),
    ReasonKind.MISSING_TOOLS: _tools,
}

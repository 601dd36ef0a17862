"""From a node's record, vitals and engines to the facts that the rules read.

Amounts come from capability labels (what the machine may use) and vitals (what is free now); label names are those of
the capability contract. Labels that only an operator sets: `system_reserve_mb`, `memory_class`, `turboquant`,
`turboquant_verified`, `turboquant_backends` (joined by comma), `apple_fm`, `apple_fm_verified`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..capabilities.devices import DeviceGroup
from ..capabilities.record import NodeCapabilities
from .facts import UNIFIED, AppleModel, Gpu, NodeFacts, Ollama, Resources, Status, TurboQuant
from .filter import DARWIN_PRESSURE, LINUX_PSI
from .nodes import Engines, NodeRecord, NodeState, NodeVitals
from .task import LLAMA_SERVER

_TOOL = "tool_"
_INTERFACES = {"nvidia": ("cuda",), "amd": ("rocm",), "apple": ("metal",)}

# Memory pressure on Linux, by the share of time that some task waited for memory, in hundredths of a percent.
_LEVELS = ((100, "none"), (500, "low"), (1500, "medium"))

_NO_VITALS = NodeVitals()
_NO_ENGINES = Engines()


def facts_of(record: NodeRecord, here: str) -> NodeFacts:
    """The facts of one node as the deciding node `here` (a node id) sees it."""
    have, engines = record.capabilities, record.engines or _NO_ENGINES
    return NodeFacts(
        name=record.name or record.node_id,
        node_id=record.node_id,
        status=status_of(record),
        is_local=record.node_id == here,
        resources=None if have is None else _resources(have, record.vitals or _NO_VITALS),
        reserved_mb=record.reserved,
        system_reserve_mb=0 if have is None else (int_label(have, "system_reserve_mb") or 0),
        tools=() if have is None else tuple(_tools(have, engines)),
        ollama=Ollama(
            installed=have is not None and have.get("tool_ollama") is True, running=engines.ollama_running is True
        ),
        resident_models=engines.models,
        turboquant=None if have is None else _turboquant(have),
        apple=None if have is None else _apple(have),
        network_class=record.network_class,
        fast_link=record.fast_link,
        state=record.state,
        schedulable=record.schedulable,
        vitals_at=record.vitals_at,
        record=record,
    )


def status_of(record: NodeRecord) -> Status:
    """Whether the node can be judged: it is there and its record arrived and decoded."""
    if record.state in (NodeState.DEAD, NodeState.LEFT):
        return Status.UNREACHABLE
    if record.capabilities is not None:
        return Status.COMPLETE
    return Status.PARTIAL if record.error is None else Status.ERROR


def int_label(have: NodeCapabilities | None, key: str) -> int | None:
    """The label when it is an Int; a Bool is none."""
    value = None if have is None else have.labels.get(key)
    return value if type(value) is int else None


def _str_label(have: NodeCapabilities, key: str) -> str:
    value = have.labels.get(key)
    return value if type(value) is str else ""


def usable_milli(have: NodeCapabilities | None) -> int:
    """Thousandths of a CPU that the node's work may use; 0 when unknown."""
    milli = int_label(have, "cpu_usable_milli")
    return milli if milli is not None else 1000 * (int_label(have, "cpu_count") or 0)


def total_mb(have: NodeCapabilities | None) -> int:
    """MiB that the node's work may use; 0 when unknown."""
    limit = int_label(have, "ram_limit_mb")
    return limit if limit is not None else (int_label(have, "ram_mb") or 0)


def _resources(have: NodeCapabilities, now: NodeVitals) -> Resources:
    milli, some = usable_milli(have), now.psi_memory_some_avg10_centi
    stall = (some or 0) / 100
    return Resources(
        # Part of a core still runs things.
        cpu_cores=max(1, milli // 1000) if milli > 0 else 0,
        ram_total_mb=total_mb(have),
        ram_free_mb=now.ram_available_mb or 0,
        free_known=now.ram_available_mb is not None,
        pressure=_pressure(now),
        pressure_source=_pressure_source(have, now),
        stall_avg10=stall,
        psi_some_avg10=stall,
        psi_full_avg10=(now.psi_memory_full_avg10_centi or 0) / 100,
        memory_topology=UNIFIED if _is_unified(have) else "",
        memory_class=int_label(have, "memory_class") or 0,
        load_1m=(now.load1_centi or 0) / 100,
        storage_class=_str_label(have, "disk_root_class"),
        battery_percent=now.battery_percent,
        power_source=now.power_source,
        thermal_state=now.thermal_state or "",
        gpus=tuple(_gpus(have)),
    )


def _pressure(now: NodeVitals) -> str:
    if now.pressure is not None:
        return now.pressure
    some = now.psi_memory_some_avg10_centi
    if some is None:
        return ""
    return next((level for limit, level in _LEVELS if some < limit), "high")


def _pressure_source(have: NodeCapabilities, now: NodeVitals) -> str:
    if now.psi_memory_some_avg10_centi is not None:
        return LINUX_PSI
    return DARWIN_PRESSURE if now.pressure is not None and have.labels.get("os") == "darwin" else ""


def _is_unified(have: NodeCapabilities) -> bool:
    return have.labels.get("gpu_memory_unified") is True or any(group.unified for group in have.devices)


def _gpus(have: NodeCapabilities) -> Iterator[Gpu]:
    """One per group of equal devices: scores read only the best one. Without devices, what the labels say."""
    found = False
    for group in have.devices:
        if group.kind == "gpu":
            found = True
            yield _gpu(group)
    if not found and have.labels.get("gpu_nvidia") is True:
        yield Gpu(vendor="nvidia", vram_mb=int_label(have, "gpu_vram_mb") or 0, capabilities=_INTERFACES["nvidia"])


def _gpu(group: DeviceGroup) -> Gpu:
    vendor = group.vendor or ""
    return Gpu(vendor=vendor, vram_mb=group.vram_mb or 0, capabilities=_INTERFACES.get(vendor, ()))


def _tools(have: NodeCapabilities, engines: Engines) -> Iterator[str]:
    """The programs that the labels name, spelled as labels spell them, and a server that was seen running."""
    for key, value in have.labels.items():
        if value is True and key.startswith(_TOOL):
            yield key.removeprefix(_TOOL)
    if engines.llama_server_running and have.labels.get("tool_llama_server") is not True:
        yield LLAMA_SERVER


def _turboquant(have: NodeCapabilities) -> TurboQuant | None:
    if have.labels.get("turboquant") is not True:
        return None
    backends = _str_label(have, "turboquant_backends")
    return TurboQuant(
        supported=True,
        verified=have.labels.get("turboquant_verified") is True,
        backends=tuple(name.strip() for name in backends.split(",") if name.strip()),
    )


def _apple(have: NodeCapabilities) -> AppleModel | None:
    if have.labels.get("apple_fm") is not True:
        return None
    return AppleModel(available=True, verified=have.labels.get("apple_fm_verified") is True)

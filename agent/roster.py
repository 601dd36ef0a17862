"""The roster: gossip's members, their records and vitals, joined into the immutable view that every query reads.

Gossip says what changed; the roster rebuilds that node's `NodeRecord`, swaps the view by reference and then tells the
watchers, all in one turn of trio's thread. A reader in any thread holds a whole view, old or new.
"""

import time
from collections.abc import Callable
from typing import Any

import attrs

from ..gossip.effects import Change, Changed
from ..gossip.member import Member, SectionKind, State
from ..gossip.vitals import Vitals
from ..placement.nodes import NodeRecord, NodeState, NodeVitals, Schedulable
from ..placement.view import View
from .config_values import address_text
from .payloads import PayloadError, RecordPayload, SchedulePayload
from .watchers import NodeEvent, Watchers

_SECTION_EVENTS: dict[int, str] = {kind: kind.name.lower() for kind in SectionKind}
_EVENTS = {
    Change.JOINED: "joined",
    Change.SUSPECTED: "suspected",
    Change.REFUTED: "refuted",
    Change.FAILED: "failed",
    Change.LEFT: "left",
    Change.REPLACED: "replaced",
    Change.FORGOTTEN: "forgotten",
    Change.ADDRESS: "address",
    Change.VITALS: "vitals",
    Change.UDP_BROKEN: "udp-broken",
    Change.UDP_WORKS: "udp-works",
}
_STATES = {
    State.ALIVE: NodeState.ALIVE,
    State.SUSPECT: NodeState.SUSPECT,
    State.DEAD: NodeState.DEAD,
    State.LEFT: NodeState.LEFT,
}
_PRESSURE = ("none", "low", "medium", "high")
_THERMAL = ("nominal", "fair", "serious", "critical")
_POWER = ("ac", "battery")


class Roster:
    """Who is in the cluster and what each has. `view` is swapped by reference: read it once per answer."""

    def __init__(self, here: bytes, member: Callable[[bytes], Member | None]) -> None:
        self.view = View.of((), here=here.hex())
        self.watchers = Watchers()
        self._member = member
        # What each node's sections decoded to, and of which version: vitals change often, records do not.
        self._decoded: dict[str, dict[int, tuple[tuple[int, int, bytes], dict[str, Any]]]] = {}

    def identity(self, here: bytes) -> None:
        """We became another generation, or after a conflict another node: gossip tells only of others' changes."""
        old = self.view.here
        if here.hex() == old:
            self.changed(Changed(here, Change.REPLACED))
            return
        self.view = View.of(self.view.records, here=here.hex(), isolated=self.view.isolated)
        self.changed(Changed(bytes.fromhex(old), Change.FORGOTTEN))
        self.changed(Changed(here, Change.JOINED))

    def changed(self, change: Changed) -> None:
        node_id = change.node_id.hex()
        member = self._member(change.node_id)
        if member is None:
            self._decoded.pop(node_id, None)
            self.view = self.view.remove(node_id)
        else:
            self.view = self.view.replace(self._record(node_id, member))
        self._tell(self._event_name(change), node_id)

    def isolation(self, *, isolated: bool) -> None:
        self.view = self.view.with_isolated(isolated=isolated)
        self._tell("isolated" if isolated else "connected", self.view.here)

    def conflict(self) -> None:
        self._tell("conflict", self.view.here)

    def _tell(self, kind: str, node_id: str) -> None:
        if len(self.watchers):
            record = self.view.get(node_id)
            self.watchers.publish(NodeEvent(kind=kind, node_id=node_id, record=record, at=time.time()))

    def _event_name(self, change: Changed) -> str:
        if change.what is Change.SECTION:
            return _SECTION_EVENTS.get(change.section or 0, "section")
        return _EVENTS[change.what]

    def _record(self, node_id: str, member: Member) -> NodeRecord:
        fields: dict[str, Any] = {}
        known = self._decoded.setdefault(node_id, {})
        for kind, section in member.sections.items():
            decode = _DECODERS.get(kind)
            if decode is None:
                continue
            version = (section.generation, section.version, section.digest)
            held = known.get(kind)
            if held is None or held[0] != version:
                held = known[kind] = (version, decode(section.payload))
            fields |= held[1]
        return NodeRecord(
            node_id=node_id,
            addr=address_text(member.address) if member.address is not None else "",
            state=_STATES[member.state],
            incarnation=member.incarnation,
            generation=member.generation,
            vitals=None if member.vitals is None else node_vitals(member.vitals),
            vitals_at=member.vitals_at,
            **fields,
        )


def node_vitals(vitals: Vitals) -> NodeVitals:
    """The gossiped row in placement's words."""
    return NodeVitals(
        ram_available_mb=vitals.available_mib,
        reserved_mb=vitals.reserved_mib,
        load1_centi=vitals.load1_centi,
        cpu_busy_permille=vitals.cpu_busy_permille,
        gpu_vram_free_mb=vitals.gpu_best_free_mib,
        gpu_vram_free_total_mb=vitals.gpu_total_free_mib,
        psi_cpu_some_avg10_centi=vitals.psi_cpu_some_centi,
        psi_memory_some_avg10_centi=vitals.psi_memory_some_centi,
        psi_memory_full_avg10_centi=vitals.psi_memory_full_centi,
        thermal_max_celsius=vitals.thermal_celsius,
        thermal_state=_word(_THERMAL, vitals.thermal_state),
        pressure=_word(_PRESSURE, vitals.pressure_level),
        battery_percent=vitals.battery_percent,
        power_source=_word(_POWER, vitals.power_source),
    )


def _word(words: tuple[str, ...], index: int | None) -> str | None:
    """A later version may know more levels than we do: those are unknown here."""
    return words[index] if index is not None and index < len(words) else None


def _record_fields(payload: bytes) -> dict[str, Any]:
    try:
        record = RecordPayload.decode(payload)
    except PayloadError as error:
        return {"error": str(error)}
    return {"name": record.name, "capabilities": record.capabilities}


def _schedule_fields(payload: bytes) -> dict[str, Any]:
    """A node that says about new work what we cannot read gets none."""
    try:
        return attrs.asdict(SchedulePayload.decode(payload))
    except PayloadError as error:
        return {"schedulable": Schedulable.CORDONED, "error": str(error)}


_DECODERS: dict[int, Callable[[bytes], dict[str, Any]]] = {
    SectionKind.RECORD: _record_fields,
    SectionKind.SCHEDULE: _schedule_fields,
}

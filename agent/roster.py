"""The roster: gossip's members, their records and vitals, joined into the immutable view that every query reads.

Gossip says what changed; the roster rebuilds that node's `NodeRecord`, swaps the view by reference and then tells the
watchers, all in one turn of trio's thread. A reader in any thread holds a whole view, old or new. Vitals come all the
time, mostly while nobody looks: the next who does puts them into the view.
"""

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import attrs
import structlog

from ..gossip.effects import Change, Changed
from ..gossip.member import Member, SectionKind, State
from ..gossip.vitals import Vitals
from ..placement.history import History
from ..placement.nodes import Engines, NodeRecord, NodeState, NodeVitals, ResidentModel, Schedulable
from ..placement.task import LLAMA_CPP, LLAMA_SERVER
from ..placement.view import View
from .addresses import address_text
from .names import Names
from .payloads import EnginesPayload, HistoryPayload, PayloadError, RecordPayload, SchedulePayload
from .watchers import NodeEvent, Watchers

log = structlog.get_logger("shoal.agent")

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
# Detection names the program that holds a model, placement the backend that a task asks for.
_BACKENDS = {LLAMA_SERVER: LLAMA_CPP}
_NOTHING_REMEMBERED: Mapping[str, History] = MappingProxyType({})


class Roster:
    """Who is in the cluster, what each has, and what the others remember.

    `view` and `histories` are swapped by reference: read each once per answer, in any thread. `epoch` says what to add
    to the clock of vitals to get Unix time.
    """

    def __init__(
        self, here: bytes, member: Callable[[bytes], Member | None], *, epoch: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._view = View.of((), here=here.hex())
        # Members of whom more is known than the view has, but no news. The lock is for readers in other threads.
        self._fresh: dict[str, Member] = {}
        self._swapping = threading.RLock()
        self.watchers = Watchers()
        self.histories = _NOTHING_REMEMBERED
        self._member = member
        self._epoch = epoch
        self._names = Names()
        # What each node's sections decoded to, and of which version: vitals change often, records do not.
        self._decoded: dict[str, dict[int, tuple[tuple[int, int, bytes], dict[str, Any]]]] = {}

    @property
    def view(self) -> View:
        if self._fresh:
            with self._swapping:
                fresh, self._fresh = self._fresh, {}
                for node_id, member in fresh.items():
                    held = self._view.get(node_id)
                    if held is not None:
                        self._view = self._view.replace(attrs.evolve(held, **_passing(member)))
        return self._view

    def identity(self, here: bytes) -> None:
        """We became another generation, or after a conflict another node: gossip tells only of others' changes."""
        old = self.view.here
        if here.hex() == old:
            self.changed(Changed(here, Change.REPLACED))
            return
        with self._swapping:
            self._view = View.of(self.view.records, here=here.hex(), isolated=self.view.isolated)
        self.changed(Changed(bytes.fromhex(old), Change.FORGOTTEN))
        self.changed(Changed(here, Change.JOINED))

    def changed(self, change: Changed) -> None:
        node_id = change.node_id.hex()
        member = self._member(change.node_id)
        if member is not None and change.what is Change.VITALS and self._can_wait(node_id):
            with self._swapping:
                self._fresh[node_id] = member
            return
        if member is None:
            self._decoded.pop(node_id, None)
            self._remember(node_id, None)
            self._names.forget(node_id)
            with self._swapping:
                self._view = self.view.remove(node_id)
            self._tell(self._event_name(change), node_id)
            return
        before = self.view.get(node_id), self.histories
        record = self._record(node_id, member)
        with self._swapping:
            self._fresh.pop(node_id, None)
            self._view = self.view.replace(record)
        # Told again by a new run, it may be in the view already, or hold no longer for want of being told.
        if not change.again or before != (record, self.histories):
            self._tell(self._event_name(change), node_id)
        other = self.view.get(self._names.note(record) or "")
        # A node without a state directory that was restarted is another one at the same address; the first is no more.
        if other is not None and other.addr != record.addr:
            self._shared_name(record, other)

    def _can_wait(self, node_id: str) -> bool:
        return not self.watchers.of_vitals and self._view.get(node_id) is not None

    def isolation(self, *, isolated: bool) -> None:
        with self._swapping:
            self._view = self.view.with_isolated(isolated=isolated)
        self._tell("isolated" if isolated else "connected", self.view.here)

    def conflict(self) -> None:
        self._tell("conflict", self.view.here)

    def _shared_name(self, record: NodeRecord, other: NodeRecord) -> None:
        places = {"node": record.node_id, "address": record.addr, "other": other.node_id, "other_address": other.addr}
        log.warning("node.name_conflict", name=record.name, **places)
        self._tell("name-conflict", record.node_id, other)

    def _tell(self, kind: str, node_id: str, other: NodeRecord | None = None) -> None:
        if len(self.watchers):
            record = self.view.get(node_id)
            self.watchers.publish(NodeEvent(kind=kind, node_id=node_id, record=record, other=other, at=time.time()))

    def _event_name(self, change: Changed) -> str:
        if change.what is Change.SECTION:
            return _SECTION_EVENTS.get(change.section or 0, "section")
        return _EVENTS[change.what]

    def _record(self, node_id: str, member: Member) -> NodeRecord:
        fields = self._fields(node_id, member)
        self._remember(node_id, fields.pop("history", None))
        engines = fields.pop("engines", None)
        return NodeRecord(
            node_id=node_id,
            addr=address_text(member.address) if member.address is not None else "",
            state=_STATES[member.state],
            generation=member.generation,
            udp_broken=member.udp_broken,
            engines=None if engines is None else _here_and_now(engines, self._epoch()),
            **_passing(member),
            **fields,
        )

    def _fields(self, node_id: str, member: Member) -> dict[str, Any]:
        """What the sections say.

        Of an earlier run of the node only the record counts, until the new one is there: what a run does not publish
        again it does not mean any more, such as a cordon.
        """
        fields: dict[str, Any] = {}
        known = self._decoded.setdefault(node_id, {})
        for kind, section in member.sections.items():
            decode = _DECODERS.get(kind)
            if decode is None or (kind != SectionKind.RECORD and section.generation < member.generation):
                continue
            version = (section.generation, section.version, section.digest)
            held = known.get(kind)
            if held is None or held[0] != version:
                held = known[kind] = (version, decode(section.payload))
            fields |= held[1]
        return fields

    def _remember(self, node_id: str, history: History | None) -> None:
        """Our own history is not read from our section, which holds only the latest of it."""
        if history is self.histories.get(node_id) or node_id == self.view.here:
            return
        others = {node: held for node, held in self.histories.items() if node != node_id}
        self.histories = MappingProxyType(others if history is None else {**others, node_id: history})


def _passing(member: Member) -> dict[str, Any]:
    """What changes without any news: vitals, and the incarnation of who refuted what we never heard."""
    return {
        "incarnation": member.incarnation,
        "vitals": None if member.vitals is None else node_vitals(member.vitals),
        "vitals_at": member.vitals_at,
    }


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


def _engines_fields(payload: bytes) -> dict[str, Any]:
    """Engines are good to know, never needed: what does not decode is unknown."""
    try:
        return {"engines": EnginesPayload.decode(payload).engines}
    except PayloadError:
        return {}


def _history_fields(payload: bytes) -> dict[str, Any]:
    """Nobody depends on another node's memory: what does not decode is nothing."""
    try:
        return {"history": HistoryPayload.decode(payload).history}
    except PayloadError:
        return {}


def _here_and_now(engines: Engines, epoch: float) -> Engines:
    """The published engines in placement's words and in the clock of vitals."""
    if not engines.models:
        return engines
    models = tuple(
        ResidentModel(
            name=model.name,
            engine=_BACKENDS.get(model.engine, model.engine),
            vram_mb=model.vram_mb,
            expires_at=None if model.expires_at is None else model.expires_at - epoch,
        )
        for model in engines.models
    )
    return attrs.evolve(engines, models=models)


_DECODERS: dict[int, Callable[[bytes], dict[str, Any]]] = {
    SectionKind.RECORD: _record_fields,
    SectionKind.SCHEDULE: _schedule_fields,
    SectionKind.ENGINES: _engines_fields,
    SectionKind.HISTORY: _history_fields,
}

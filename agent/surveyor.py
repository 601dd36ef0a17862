"""This node's own record: detected, the operator's labels over it, published whenever it changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import attrs
import structlog
import trio

from ..capabilities import survey
from ..capabilities.errors import CapabilityError, RecordError
from ..capabilities.health import CHECK_SECONDS
from ..capabilities.probes.findings import DetectWarning
from ..capabilities.record import NodeCapabilities
from ..capabilities.values import CapValue, check_key, check_value, same
from ..gossip.errors import GossipError
from ..gossip.vitals import Vitals
from .config import DetectConfig
from .errors import BadArgument, Refused, ShoalError
from .machine import Known, checked, detected, disk_warnings, free_mib, pretended_gpus
from .payloads import RecordPayload
from .state import StateDirectory
from .vitals import pretended, row

log = structlog.get_logger("shoal.detect")

_LABELS = "labels"


@attrs.frozen(kw_only=True)
class Reloaded:
    """What detecting again changed in the record. `changed` holds what each value was and is.

    `needs_restart` names the settings that were changed too and are not in force.
    """

    added: Mapping[str, CapValue]
    removed: Mapping[str, CapValue]
    changed: Mapping[str, tuple[CapValue, CapValue]]
    devices_changed: bool
    needs_restart: tuple[str, ...] = ()

    @property
    def labels_changed(self) -> list[str]:
        return sorted([*self.added, *self.removed, *self.changed])


class Surveyor:
    """Holds what was detected, what the configuration says and what was set at run time, and joins the three.

    Later wins: detected, then configured, then set at run time. `publish` gets the encoded record, and may refuse it.
    `free_mib` is the free space of the state directory and of the configured paths, None where it cannot be had.
    """

    def __init__(
        self,
        name: str,
        version: str,
        detect: DetectConfig,
        configured: Mapping[str, CapValue],
        state: StateDirectory | None,
    ) -> None:
        self._name = name
        self._version = version
        self._config = detect
        self._configured: Mapping[str, CapValue] = configured
        self._state = state
        self._set = _stored_labels(state)
        self._known = Known()
        self._logged: set[DetectWarning] = set()
        # A check that began before a survey ended would bring back what was known before.
        self._looking = trio.Lock()
        self.free_mib: Mapping[str, int | None] = {}

    async def detect(self) -> None:
        """Detect this machine, in a thread."""
        async with self._looking:
            self._known = await detected(self._config)
        self._log(self.warnings)

    async def reload(
        self, detect: DetectConfig, configured: Mapping[str, CapValue], publish: Callable[[bytes], None]
    ) -> Reloaded:
        """Detect again, with another configuration if it is another, and publish what is new. All or nothing.

        Raises:
            Refused: the record would be too big to spread; the one before stays in force.
        """
        async with self._looking:
            known = await detected(detect)
            record, before = self.record, (self._known, self._config, self._configured)
            self._known, self._config, self._configured = known, detect, configured
            try:
                self._publish_if_new(record, publish)
            except (ShoalError, GossipError):
                self._known, self._config, self._configured = before
                raise
        self._logged &= set(self.warnings)
        self._log(self.warnings)
        return _difference(record, self.record)

    async def check(self, publish: Callable[[bytes], None]) -> None:
        """Ask the GPUs again, if there are any; what is gone is withdrawn from the record at once."""
        async with self._looking:
            if not any(group.kind == "gpu" for group in self._known.record.devices):
                return
            record = self.record
            self._known = await checked(self._known)
            try:
                self._publish_if_new(record, publish)
            except (ShoalError, GossipError) as error:
                log.warning("record.not_published", error=str(error))
        self._log(self.warnings)

    async def watch(self, publish: Callable[[bytes], None]) -> None:
        """Look at GPUs and disks, as often as the health check may."""
        while True:
            await self.measure_disks()
            await trio.sleep(CHECK_SECONDS)
            if self._config.enabled:
                await self.check(publish)

    async def measure_disks(self) -> None:
        state = [str(self._state.path)] if self._state is not None else []
        paths = dict.fromkeys([*state, *self._config.disk_paths])
        self.free_mib = await free_mib([*paths]) if paths else {}
        self._log(disk_warnings(self.free_mib))

    @property
    def warnings(self) -> tuple[DetectWarning, ...]:
        """What could not be read or believed, each once."""
        return survey.distinct((*self._known.warnings, *disk_warnings(self.free_mib)))

    def _log(self, warnings: Iterable[DetectWarning]) -> None:
        """Log each warning once, and again only after a survey without it."""
        for warning in warnings:
            if warning not in self._logged and len(self._logged) < survey.WARNINGS:
                self._logged.add(warning)
                log.warning("detect.warning", what=str(warning))

    def _publish_if_new(self, before: NodeCapabilities, publish: Callable[[bytes], None]) -> None:
        if self.record != before:
            publish(self.payload())

    def vitals(self) -> Vitals:
        """A sample of this machine's load; of a pretended one, that of an idle machine like it."""
        if not self._config.enabled:
            return row(pretended(self.record.labels), reserved_mib=0)
        return row({**self._known.vitals, **survey.sample_vitals()}, reserved_mib=0)

    @property
    def record(self) -> NodeCapabilities:
        record = self._known.record.with_labels(self._configured).with_labels(self._set)
        return record if self._config.enabled else attrs.evolve(record, devices=pretended_gpus(record.labels))

    @property
    def operator_labels(self) -> dict[str, CapValue]:
        """The labels that an operator gave, configured or set at run time."""
        return dict(sorted({**self._configured, **self._set}.items()))

    def payload(self) -> bytes:
        """The record as it is spread. Raises Refused when it is too big for that."""
        try:
            return RecordPayload(self._name, self._version, self.record).encode()
        except RecordError as error:
            raise Refused(str(error), hint="use fewer or shorter labels") from error

    def set_labels(self, labels: Mapping[str, CapValue], publish: Callable[[bytes], None]) -> None:
        """Set labels at run time, all or none: checked, then published, then stored.

        Raises:
            BadArgument: a key or value that no record may have.
            Refused: the record would be too big to spread.
            StateUnusable: they cannot be stored; then they are taken back.
        """
        try:
            for key, value in labels.items():
                check_key(key, f"labels.{key}")
                check_value(value, f"labels.{key}")
        except CapabilityError as error:
            raise BadArgument(str(error)) from error
        self._change({**self._set, **labels}, publish)

    def unset_labels(self, keys: Sequence[str], publish: Callable[[bytes], None]) -> list[str]:
        """Take back labels that were set at run time; answers those that were.

        Raises:
            Refused: a label that is there for another reason.
        """
        gone = [key for key in keys if key in self._set]
        for key in keys:
            if key not in gone and key in self.record.labels:
                raise Refused(f"the label {key!r} was not set at run time", hint=self._why_not(key))
        if gone:
            self._change({key: value for key, value in self._set.items() if key not in gone}, publish)
        return gone

    def _change(self, labels: dict[str, CapValue], publish: Callable[[bytes], None]) -> None:
        before, self._set = self._set, labels
        published = False
        try:
            publish(self.payload())
            published = True
            if self._state is not None:
                self._state.save(_LABELS, labels)
        except (ShoalError, GossipError):
            self._set = before
            if published:
                publish(self.payload())
            raise

    def _why_not(self, key: str) -> str:
        if key in self._configured:
            return "it comes from the configuration: remove it there and reload"
        return "it was detected; set it to another value to override it"


def _difference(before: NodeCapabilities, after: NodeCapabilities) -> Reloaded:
    old, new = before.labels, after.labels
    return Reloaded(
        added={key: value for key, value in new.items() if key not in old},
        removed={key: value for key, value in old.items() if key not in new},
        changed={key: (old[key], new[key]) for key in old if key in new and not same(old[key], new[key])},
        devices_changed=before.devices != after.devices,
    )


def _stored_labels(state: StateDirectory | None) -> dict[str, CapValue]:
    """Labels set before the last stop; what is no valid label any more is dropped and reported."""
    stored = state.load(_LABELS) if state is not None else None
    labels: dict[str, CapValue] = {}
    items = cast("dict[str, CapValue]", stored) if isinstance(stored, dict) else {}
    for key, value in items.items():
        try:
            labels[check_key(key, "labels")] = check_value(value, f"labels.{key}")
        except CapabilityError as error:
            log.warning("state.label_dropped", error=str(error))
    return labels

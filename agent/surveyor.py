"""This node's own record: detected once, the operator's labels over it, published whenever it changes."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import structlog
import trio

from ..capabilities import survey
from ..capabilities.errors import CapabilityError, RecordError
from ..capabilities.probes.findings import DetectWarning
from ..capabilities.record import NodeCapabilities
from ..capabilities.values import CapValue, check_key, check_value
from ..gossip.errors import GossipError
from ..gossip.vitals import Vitals
from .config import DetectConfig
from .errors import BadArgument, Refused, ShoalError
from .payloads import RecordPayload
from .state import StateDirectory
from .vitals import pretended, row

log = structlog.get_logger("shoal.detect")

_LABELS = "labels"


class Surveyor:
    """Holds what was detected, what the configuration says and what was set at run time, and joins the three.

    Later wins: detected, then configured, then set at run time. `publish` gets the encoded record, and may refuse it.
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
        self._configured = dict(configured)
        self._state = state
        self._set = _stored_labels(state)
        self._base = NodeCapabilities()
        self.warnings: tuple[DetectWarning, ...] = ()

    async def detect(self) -> None:
        """Detect this machine, in a thread; of a pretended node's machine only architecture and system are taken."""
        config = self._config
        directories = survey.Directories(config.labels_dir or None, config.probes_dir or None)
        if not config.enabled:
            directories = survey.Directories(None, None)
        survey_it = functools.partial(survey.detect, directories=directories)
        found = await trio.to_thread.run_sync(survey_it, abandon_on_cancel=True)
        self._base = found.record
        self.warnings = found.warnings
        if not self._config.enabled:
            self._base = NodeCapabilities(labels={key: found.record.labels[key] for key in ("arch", "os")})
            self.warnings = ()
        for warning in self.warnings:
            log.warning("detect.warning", what=str(warning))

    def vitals(self) -> Vitals:
        """A sample of this machine's load; of a pretended one, that of an idle machine like it."""
        found = survey.sample_vitals() if self._config.enabled else pretended(self.record.labels)
        return row(found, reserved_mib=0)

    @property
    def record(self) -> NodeCapabilities:
        return self._base.with_labels(self._configured).with_labels(self._set)

    @property
    def operator_labels(self) -> dict[str, CapValue]:
        """The labels that an operator gave, configured or set at run time."""
        return dict(sorted((self._configured | self._set).items()))

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

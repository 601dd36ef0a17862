"""Likely slips of a requirement, seen against the records that are known: legal terms that are hardly meant so."""

import enum
from collections.abc import Iterable, Iterator

import attrs

from .constraints import AnyOf, Constraint, Devices, Equals, HasLabel, MaxInt, MinInt, MinVersion, NotEquals, OneOf
from .devices import DEVICE_FIELDS
from .labels import ENGINES, LABELS, VITALS, nearest
from .record import NodeCapabilities
from .requirement import PlacementRequirement
from .values import Kind, kind_of
from .written import write_term


class Slip(enum.StrEnum):
    """What a warning is about."""

    UNKNOWN_KEY = "unknown_key"
    UNKNOWN_DEVICE = "unknown_device"
    NOT_A_LABEL = "not_a_label"
    OTHER_TYPE = "other_type"
    ALSO_FALSE = "also_false"


@attrs.frozen
class RequirementWarning:
    """One slip. `nearest` is the closest known key or kind of device, or None when nothing is close."""

    slip: Slip
    key: str
    text: str
    nearest: str | None = None

    def __str__(self) -> str:
        return self.text + (f"; did you mean {self.nearest}?" if self.nearest else "")


@attrs.define
class _Known:
    """What the records say about the keys that are asked for, and the kinds of devices they have."""

    records: list[NodeCapabilities]
    types: dict[str, set[Kind]] = attrs.field(factory=dict[str, set[Kind]])
    false_somewhere: set[str] = attrs.field(factory=set[str])
    devices: set[str] = attrs.field(factory=set[str])


def review(requirement: PlacementRequirement, records: Iterable[NodeCapabilities]) -> tuple[RequirementWarning, ...]:
    """The slips of a requirement, each once, in the order of its terms.

    Without any record nothing can be said about unknown keys, and nothing is.
    """
    terms = list(_all_terms(requirement.constraints))
    known = _survey({term.key for term in terms if not isinstance(term, Devices)}, list(records))
    found: dict[tuple[Slip, str], RequirementWarning] = {}
    for term in terms:
        for warning in _device_slips(term, known) if isinstance(term, Devices) else _label_slips(term, known):
            found.setdefault((warning.slip, warning.key), warning)
    return tuple(found.values())


def _all_terms(terms: Iterable[Constraint]) -> Iterator[Constraint]:
    """Every term, those inside alternatives too; not the insides of device terms."""
    for term in terms:
        if isinstance(term, AnyOf):
            for alternative in term.alternatives:
                yield from _all_terms(alternative)
        else:
            yield term


def _survey(keys: set[str], records: list[NodeCapabilities]) -> _Known:
    known = _Known(records)
    for record in records:
        known.devices.update(group.kind for group in record.devices)
        for key in keys:
            value = record.labels.get(key)
            if value is not None:
                known.types.setdefault(key, set()).add(kind_of(value))
            if value is False:
                known.false_somewhere.add(key)
    return known


def _label_slips(term: Constraint, known: _Known) -> Iterator[RequirementWarning]:
    key = term.key
    types = known.types.get(key)
    if types is None and (key in VITALS or key in ENGINES):
        text = f"{key} changes all the time: it is shown with a node, but is no label of its record"
        yield RequirementWarning(slip=Slip.NOT_A_LABEL, key=key, text=text)
    elif types is None and known.records:
        names = {*LABELS, *(name for record in known.records for name in record.labels)} - {key}
        text = f"no known node has {key}"
        yield RequirementWarning(slip=Slip.UNKNOWN_KEY, key=key, text=text, nearest=nearest(key, names))
    asked = asked_types(term)
    if types and asked and not asked & types:
        text = f"{key} is {_names(types)} on every node that has it; {write_term(term)} asks for {_names(asked)}"
        yield RequirementWarning(slip=Slip.OTHER_TYPE, key=key, text=text)
    label = LABELS.get(key)
    may_be_false = label is not None and label.kind is Kind.BOOL and not label.only_true
    if isinstance(term, HasLabel) and (may_be_false or key in known.false_somewhere):
        text = f"has({key}) also matches nodes where it is false; write {key} for those where it is true"
        yield RequirementWarning(slip=Slip.ALSO_FALSE, key=key, text=text)


def _device_slips(term: Devices, known: _Known) -> Iterator[RequirementWarning]:
    if known.records and term.kind not in known.devices:
        closest = nearest(term.kind, known.devices)
        text = f"no known node has a device of kind {term.kind}"
        yield RequirementWarning(slip=Slip.UNKNOWN_DEVICE, key=term.kind, text=text, nearest=closest)
    for inside in _all_terms(term.where):
        asked, field = asked_types(inside), DEVICE_FIELDS[inside.key]
        if asked and field.kind not in asked:
            written = write_term(inside, in_device=True)
            text = f"{inside.key} of a device is {field.kind.value}; {written} asks for {_names(asked)}"
            yield RequirementWarning(slip=Slip.OTHER_TYPE, key=f"{term.kind}.{inside.key}", text=text)


def asked_types(term: Constraint) -> set[Kind]:
    """The types of which the label has to be one; empty when any will do."""
    match term:
        case Equals() | NotEquals():
            return {kind_of(term.value)}
        case OneOf():
            return {kind_of(value) for value in term.values}
        case MinInt() | MaxInt():
            return {Kind.INT}
        case MinVersion():
            return {Kind.STR}
        case _:
            return set()


def _names(types: set[Kind]) -> str:
    return " or ".join(sorted(kind.value for kind in types))

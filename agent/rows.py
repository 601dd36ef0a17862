"""Nodes as plain maps for the socket, and the node that a caller means by a name or id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import attrs

from ..capabilities.devices import DeviceGroup
from ..placement.nodes import Engines, NodeRecord, NodeState, NodeVitals, Schedulable
from ..placement.view import View
from .api import Answer, Pages
from .arguments import Argument, Check, either, flag, list_of, text
from .errors import UnknownNode, UsageError
from .nearest import nearest

# Rows of one reply: with the largest record that gossip carries they stay far below the reply limit, and turning them
# into bytes takes the loop a few milliseconds.
PAGE_ROWS = 256
# Shorter beginnings of an id match too much of a big cluster by accident.
_ID_PREFIX = 4
_KEYS_MOST = 256

_VITALS = tuple(field.name for field in attrs.fields(NodeVitals))
_ENGINES = ("ollama_running", "llama_server_running", "llama_server_port")
_DEVICE = tuple(field.name for field in attrs.fields(DeviceGroup) if field.init)

# Which labels the rows hold: all, none, or those with these keys.
LABELS = Argument("labels", either(flag, list_of(text(), most=_KEYS_MOST), bool), default=True)
NODE: Check = text()


def node_row(record: NodeRecord, *, labels: bool | tuple[str, ...], now: float, here: str) -> dict[str, Any]:
    """One node. What is unknown is absent; `vitals_age_ms` counts from when the vitals were taken."""
    row: dict[str, Any] = {
        "node_id": record.node_id,
        "name": record.name,
        "addr": record.addr,
        "state": record.state.value,
        "generation": record.generation,
        "incarnation": record.incarnation,
    }
    if record.node_id == here:
        row["here"] = True
    if record.schedulable is not Schedulable.YES:
        row["schedulable"] = record.schedulable.value
    if record.udp_broken:
        row["udp_broken"] = True
    if record.error is not None:
        row["error"] = record.error
    capabilities = record.capabilities
    if capabilities is not None and labels is not False:
        found = capabilities.labels
        row["labels"] = dict(found) if labels is True else {key: found[key] for key in labels if key in found}
    if record.vitals is not None:
        row["vitals"] = _known(record.vitals, _VITALS)
        age = record.age(now)
        if age is not None:
            row["vitals_age_ms"] = int(age * 1000)
    return row


def whole_row(record: NodeRecord, *, now: float, here: str) -> dict[str, Any]:
    """One node with all that is known of it."""
    row = node_row(record, labels=True, now=now, here=here)
    row["weight"] = record.weight
    row["schedulable"] = record.schedulable.value
    row["udp_broken"] = record.udp_broken
    if record.capabilities is not None:
        row["devices"] = [_known(group, _DEVICE) for group in record.capabilities.devices]
    if record.runtimes:
        row["runtimes"] = list(record.runtimes)
    if record.engines is not None:
        row["engines"] = _engines(record.engines, now)
    return row


def _engines(engines: Engines, now: float) -> dict[str, Any]:
    models: list[dict[str, Any]] = []
    for model in engines.models:
        known = _known(model, ("name", "engine", "vram_mb"))
        if model.expires_at is not None:
            known["for_s"] = max(0, int(model.expires_at - now))
        models.append(known)
    return {**_known(engines, _ENGINES), "models": models}


def in_pages(rows: Iterator[dict[str, Any]], head: Answer, name: str = "nodes") -> Pages:
    """An answer with `head` in its first part and the rows as `name`, `PAGE_ROWS` a part."""
    return Pages(_parts(rows, head, name))


def _parts(rows: Iterator[dict[str, Any]], head: Answer, name: str) -> Iterator[Answer]:
    part: Answer = {**head, name: list(islice(rows, PAGE_ROWS))}
    while part[name]:
        following = list(islice(rows, PAGE_ROWS))
        if not following:
            break
        yield part
        part = {name: following}
    yield part


def by_name(records: Iterable[NodeRecord]) -> list[NodeRecord]:
    return sorted(records, key=lambda record: (record.name, record.node_id))


def resolve(view: View, wanted: str) -> NodeRecord:
    """The node with this id, this name, or an id that begins so; a living node wins over gone ones of its name.

    Raises:
        UnknownNode: there is none; the hint is the nearest name.
        UsageError: several live nodes match.
    """
    exact = view.get(wanted)
    if exact is not None:
        return exact
    records = view.records
    found = [record for record in records if record.name == wanted]
    if not found and len(wanted) >= _ID_PREFIX:
        found = [record for record in records if record.node_id.startswith(wanted.lower())]
    living = [record for record in found if record.state in (NodeState.ALIVE, NodeState.SUSPECT)]
    candidates = living or found
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        ids = ", ".join(record.node_id for record in by_name(candidates)[:5])
        raise UsageError(f"{len(candidates)} nodes are called {wanted!r}", hint=f"say which by its id: {ids}")
    close = nearest(wanted, [record.name for record in records])
    hint = f"did you mean {close}?" if close else None
    if hint is None and any(record.node_id.startswith(wanted.lower()) for record in records):
        hint = f"of an id give at least {_ID_PREFIX} characters"
    raise UnknownNode(f"no node is called {wanted!r}", hint=hint)


def _known(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found for name in names if (found := getattr(value, name)) is not None}

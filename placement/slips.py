"""Likely slips of a call, seen against a view: nodes that it does not hold, keys that no node has, other types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import attrs

from ..capabilities.labels import nearest
from ..capabilities.record import NodeCapabilities
from ..capabilities.requirement import PlacementRequirement
from ..capabilities.review import RequirementWarning, Slip, review
from .backends import BACKENDS
from .errors import UnknownNode
from .nodes import NodeState
from .options import NO_OPTIONS, Options
from .view import View


def slips(
    view: View,
    requirement: PlacementRequirement | None,
    options: Options = NO_OPTIONS,
    *,
    of_task: bool = False,
    most: int | None = None,
) -> tuple[str, ...]:
    """Each once, as text, of the requirement and of what the options would rather have, fall back to, or place by.

    `of_task`: a backend may have been meant, which a query knows nothing of. Of the records at most `most` are looked
    at.
    """
    wishes = [wish.requirement for wish in options.prefer]
    wanted = [one for one in (requirement, *options.fallbacks) if one is not None and not one.is_empty()]
    found = list(unknown_nodes(view, options))
    if wanted or wishes or options.labels_needed:
        records = _records(view, most)
        found += (str(slip) for one in wanted for slip in review(one, records))
        missed = [slip for one in wishes for slip in review(one, records)]
        found += (str(_or_backend(slip) if of_task else slip) for slip in missed)
        found += _unknown_labels(options, records)
    return tuple(dict.fromkeys(found))


def _or_backend(slip: RequirementWarning) -> RequirementWarning:
    """What a caller would rather have and no node has the key of may be a backend, which a task prefers elsewhere."""
    if slip.slip is not Slip.UNKNOWN_KEY or slip.nearest is not None:
        return slip
    backend = nearest(slip.key, BACKENDS)
    alone = ", without a weight" if backend == slip.key else ""
    return attrs.evolve(slip, nearest=backend and f"the backend {backend}{alone}")


def unknown_nodes(view: View, options: Options) -> Iterator[str]:
    """Named nodes may have gone since; but who misspells one would be silently disobeyed."""
    for node in options.nodes_named:
        try:
            view.named(node)
        except UnknownNode as error:
            yield str(error)


def _unknown_labels(options: Options, records: Sequence[NodeCapabilities]) -> Iterator[str]:
    for label in options.labels_needed:
        for slip in review(PlacementRequirement().has(label), records):
            if slip.slip in (Slip.UNKNOWN_KEY, Slip.NOT_A_LABEL):
                yield str(slip)


def _records(view: View, most: int | None) -> list[NodeCapabilities]:
    """Of nodes that are not gone."""
    there = (record for record in islice(view, most) if record.state not in (NodeState.DEAD, NodeState.LEFT))
    return [record.capabilities for record in there if record.capabilities is not None]

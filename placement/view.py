"""The picture of the cluster that queries read: immutable, replaced as a whole by one reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import attrs

from ..capabilities.record import NodeCapabilities
from .errors import UnknownNode
from .index import Index
from .nodes import NodeRecord


@attrs.frozen(eq=False)
class View:
    """Every known node, which of them decides (`here`, a node id), and whether it is cut off from most of the others.

    Each change gives a new view in time that does not depend on the number of nodes, as long as no node comes or goes;
    readers of the old one are not disturbed. Dead and left nodes may be in it: they are explained, never chosen.
    """

    index: Index
    here: str = ""
    isolated: bool = False
    _by_name: dict[str, list[NodeRecord]] = attrs.field(factory=dict[str, list[NodeRecord]], init=False, repr=False)
    """The nodes of each name, once somebody asked for a node by its name."""

    @classmethod
    def of(cls, records: Iterable[NodeRecord] = (), here: str = "", *, isolated: bool = False) -> View:
        """The view of these records; of two with the same node id the later one counts."""
        return cls(Index.of(records), here, isolated)

    def replace(self, record: NodeRecord) -> View:
        """A view with this record in place of the one with its node id, or added.

        Give the same `capabilities` object while the record has not changed: then only the orders move.
        """
        return View(self.index.replaced(record), self.here, self.isolated)

    def remove(self, node_id: str) -> View:
        """A view without the node; nothing changes when it does not hold it."""
        return View(self.index.removed(node_id), self.here, self.isolated)

    def with_isolated(self, *, isolated: bool) -> View:
        return View(self.index, self.here, isolated)

    def get(self, node_id: str) -> NodeRecord | None:
        return self.index.get(node_id)

    def named(self, node: str) -> NodeRecord:
        """The node with this id, or the only one with this name; raises `UnknownNode`."""
        held = self.index.get(node)
        if held is not None:
            return held
        names = self._names()
        matches = names.get(node, ())
        if len(matches) == 1:
            return matches[0]
        close = get_close_matches(node, names, n=1)
        raise UnknownNode(node, close[0] if close else None, len(matches))

    def _names(self) -> dict[str, list[NodeRecord]]:
        if not self._by_name:
            names: dict[str, list[NodeRecord]] = {}
            for record in self:
                names.setdefault(record.name, []).append(record)
            self._by_name.update(names)
        return self._by_name

    def capabilities_of(self, node: str) -> NodeCapabilities | None:
        """The capability record of a node by id or name; None when there is no such node or record."""
        try:
            return self.named(node).capabilities
        except UnknownNode:
            return None

    @property
    def records(self) -> tuple[NodeRecord, ...]:
        return tuple(self.index.records())

    def __iter__(self) -> Iterator[NodeRecord]:
        return self.index.records()

    def __len__(self) -> int:
        return len(self.index.slot_of)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self.index.slot_of

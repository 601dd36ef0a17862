"""The picture of the cluster that queries read: immutable, replaced as a whole by one reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from .nodes import NodeRecord


@attrs.frozen
class View:
    """Every known node by id, which of them decides (`here`), and whether it is cut off from most of the others."""

    _by_id: dict[str, NodeRecord] = attrs.field(alias="by_id")
    here: str = ""
    isolated: bool = False

    @classmethod
    def of(cls, records: Iterable[NodeRecord] = (), here: str = "", *, isolated: bool = False) -> View:
        return cls({record.node_id: record for record in records}, here, isolated)

    def replace(self, record: NodeRecord) -> View:
        """A view with this record in place of the one with its node id, or added."""
        return View({**self._by_id, record.node_id: record}, self.here, self.isolated)

    def remove(self, node_id: str) -> View:
        """A view without the node; the same view when it does not hold it."""
        if node_id not in self._by_id:
            return self
        return View({key: record for key, record in self._by_id.items() if key != node_id}, self.here, self.isolated)

    def with_isolated(self, *, isolated: bool) -> View:
        return attrs.evolve(self, isolated=isolated)

    def get(self, node_id: str) -> NodeRecord | None:
        return self._by_id.get(node_id)

    @property
    def records(self) -> tuple[NodeRecord, ...]:
        return tuple(self._by_id.values())

    def __iter__(self) -> Iterator[NodeRecord]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

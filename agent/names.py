"""Which live nodes are called what. Two of one name are both shown, but asking by the name is ambiguous."""

from ..placement.nodes import NodeRecord, NodeState

_LIVING = (NodeState.ALIVE, NodeState.SUSPECT)


class Names:
    """The holders of each name. Costs a look-up when nothing changed: nodes show new vitals all the time."""

    def __init__(self) -> None:
        self._name_of: dict[str, str] = {}
        self._holders: dict[str, dict[str, None]] = {}
        self._told: set[frozenset[str]] = set()

    def note(self, record: NodeRecord) -> str | None:
        """The id of a live node that this one shares its name with from now on; None also when it was told before."""
        node, name = record.node_id, record.name if record.state in _LIVING else ""
        if self._name_of.get(node, "") == name:
            return None
        self._let_go(node)
        if not name:
            return None
        self._name_of[node] = name
        holders = self._holders.setdefault(name, {})
        other = next(iter(holders), None)
        holders[node] = None
        if other is None or (pair := frozenset((node, other))) in self._told:
            return None
        self._told.add(pair)
        return other

    def forget(self, node: str) -> None:
        """The node is gone for good."""
        self._let_go(node)
        if self._told:
            self._told = {pair for pair in self._told if node not in pair}

    def _let_go(self, node: str) -> None:
        name = self._name_of.pop(node, None)
        if name is not None:
            holders = self._holders[name]
            del holders[node]
            if not holders:
                del self._holders[name]

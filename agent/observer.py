"""What the driver tells, and who has to know: the roster, the keys, the state directory, the log."""

from collections.abc import Callable

import structlog

from ..gossip.effects import Change, Changed, Conflict
from ..gossip.member import Identity, Member, SectionKind
from .errors import StateUnusable
from .keys import Keys
from .roster import Roster
from .state import StateDirectory, save_identity

log = structlog.get_logger("shoal.agent")

# The doctor tells of the latest.
CONFLICTS_KEPT = 8


class NodeObserver:
    """The `driver.Observer` of an agent.

    `current` is our identity, another one after a conflict; `conflicts` tells of the latest of those, for people.
    """

    def __init__(
        self,
        roster: Roster,
        keys: Keys | None,
        state: StateDirectory | None,
        current: Identity,
        member: Callable[[bytes], Member | None],
    ) -> None:
        self.current = current
        self.conflicts: tuple[str, ...] = ()
        self._roster = roster
        self._keys = keys
        self._state = state
        self._member = member

    def changed(self, change: Changed) -> None:
        self._roster.changed(change)
        if self._keys is not None and change.what is not Change.VITALS:
            self._changed_keys(self._keys, change)

    def _changed_keys(self, keys: Keys, change: Changed) -> None:
        if change.what is not Change.SECTION:
            keys.stir()
        elif change.section == SectionKind.KEYS and (member := self._member(change.node_id)) is not None:
            keys.heard(member)

    def isolation(self, *, isolated: bool) -> None:
        log.warning("agent.isolated" if isolated else "agent.connected")
        self._roster.isolation(isolated=isolated)

    def conflict(self, conflict: Conflict) -> None:
        old, new = conflict.old_node_id.hex(), (conflict.new_node_id or b"").hex()
        log.warning("node.id_conflict", old=old, new=new)
        outcome = f"this one took {new}" if new else "the other one had to take a new one"
        told = f"two processes had the node id {old}: {outcome}"
        self.conflicts = (*self.conflicts, told)[-CONFLICTS_KEPT:]
        self._roster.conflict()

    def identity(self, identity: Identity) -> None:
        try:
            save_identity(self._state, identity)
        except StateUnusable as error:
            # The next start takes the greater of what is stored and the clock: going on is safer than going away.
            log.warning("state.not_saved", error=error.message)
        self.current = identity
        self._roster.identity(identity.node_id)

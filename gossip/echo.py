"""Echoes: pings outside of any probe, of any size, to see whether datagrams reach a member and come back.

They accuse nobody; an operator's check asks for them.
"""

from __future__ import annotations

from . import items, wire
from .core import Core
from .frames import PAYLOAD_BYTES
from .messages import Ack

# More at once than a check sends; those of a check that never looked are dropped.
_MOST = 512


class Echoes:
    """The echoes under way."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._sent: dict[int, bool] = {}

    def send(self, node_id: bytes, now: float, *, full: bool) -> int | None:
        """Ping a member; a `full` datagram is as large as any of ours. The number to ask `take` with, if it is known.

        The answer may be shorter: it shows only that datagrams of that size get there.
        """
        core = self._core
        entry = core.table.get(node_id)
        if entry is None or entry is core.me or entry.claim.address is None:
            return None
        number, claim = core.request_id(), entry.claim
        opening = core.opening(wire.PING, number, now)
        aim = wire.aim(claim.node_id, claim.generation, claim.rank, claim.incarnation)
        ping = b"".join((opening, aim, core.me.vitals or b"", core.origin()))
        if full:
            ping += items.pack_padding(PAYLOAD_BYTES - len(ping))
        core.send(ping, entry.claim.address)
        self._sent[number] = False
        if len(self._sent) > _MOST:
            del self._sent[next(iter(self._sent))]
        return number

    def acked(self, ack: Ack) -> None:
        """An ack came, for an echo or for anything else."""
        if ack.request in self._sent:
            self._sent[ack.request] = True

    def take(self, number: int) -> bool:
        """Whether the answer came; once it did, it is forgotten."""
        return self._sent.get(number, False) and self._sent.pop(number)

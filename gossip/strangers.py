"""Strangers: whoever sends a datagram under an id that is not in the table.

Anybody can write any source address. What a stranger says is believed once it has answered an unpredictable number
that we sent to that address; until then it gets a plain ack or a ping, and never more bytes than it sent. Else one
forged packet would make the whole cluster probe its victim (memberlist#371). Members that joined since are no
strangers for long: their rows come by gossip, and a sync by TCP is proof of the address too.
"""

from __future__ import annotations

from . import wire
from .core import Core
from .limits import Allowance
from .member import Address, Rank
from .messages import ANYONE, Ack, Flag, Message, NotMe, PingRequest

# Pings of ours whose answers are still told from forgeries: more than are sent in the time that an answer may take.
_MOST_ASKED = 512
_KNOCKS_A_SECOND = 50


class Strangers:
    """Which addresses were asked, and who has answered."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._asked: dict[int, Address] = {}
        self._knocks = Allowance(_KNOCKS_A_SECOND)

    def expect(self, request: int, address: Address) -> None:
        """A ping with that number goes there: whoever answers it has received it."""
        self._asked[request] = address
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def believed(self, message: Message) -> bool:
        """Whether its sender is a member, or has shown that it can be reached somewhere."""
        return self._core.table.get(message.sender.node_id) is not None or self._answered(message) is not None

    def place(self, message: Message, source: Address) -> Address | None:
        """Where the sender of a datagram can be reached: as it says itself, else where it came from.

        A stranger's answer that comes from elsewhere, as from a machine with several addresses, proves one thing: that
        its sender is reached where it was asked. What else it claims, its own packets will tell.
        """
        if isinstance(message, PingRequest) or (isinstance(message, Ack) and message.flags & Flag.RELAYED):
            # The address in a ping request is its target's, and a relayed ack comes from the relay.
            return None
        claimed, asked = message.items.address or source, self._answered(message)
        if self._core.table.get(message.sender.node_id) is None and asked not in {None, source, claimed}:
            return asked
        return claimed

    def _answered(self, message: Message) -> Address | None:
        """Where the ping went that this message answers."""
        return self._asked.get(message.request) if isinstance(message, Ack | NotMe) else None

    def ping(self, address: Address, now: float) -> None:
        """Ping whoever lives there."""
        self._core.send(self.greeting(address, now), address)

    def greeting(self, address: Address, now: float) -> bytes:
        """A ping to an address of which only that is known, as short as a ping can be."""
        core = self._core
        number = core.request_id()
        self.expect(number, address)
        opening = wire.without_vitals(core.opening(wire.PING, number, now))
        return b"".join((opening, wire.aim(ANYONE, 0, Rank.ALIVE, 0), core.origin()))

    def knock(self, address: Address, room: int, now: float) -> None:
        """Ask a stranger to prove its address, in at most `room` bytes of payload."""
        self._core.count("packets of strangers")
        if room >= wire.PING_BYTES + len(self._core.origin()) and self._knocks.take(now):
            self.ping(address, now)

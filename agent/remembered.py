"""The addresses of the cluster, kept for the next start: one that went down as a whole finds itself without seeds."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import structlog
import trio

from ..gossip.member import Address
from .addresses import NoAddress, address_text, advertised_address
from .errors import StateUnusable
from .state import StateDirectory

log = structlog.get_logger("shoal.agent")

PEERS = "peers"
# Members come and go slowly, and any old address of a live one will do: a disk is not to notice.
SAVE_SECONDS = 60.0
# A first picture soon after the start, for those who stop again at once; the next ones later and later, because most
# members are met in the first moments, by whoever started first.
FIRST_SAVE_SECONDS = 2.0


def remembered(state: StateDirectory | None) -> tuple[Address, ...]:
    """The addresses kept by an earlier run; what is no address is passed over."""
    stored: Any = state.load(PEERS) if state is not None else None
    found: list[Address] = []
    for item in cast("list[object]", stored) if isinstance(stored, list) else ():
        try:
            address = advertised_address(item)
        except NoAddress:
            continue
        if address is not None:
            found.append(address)
    return tuple(found)


class PeerMemory:
    """Saves the members' addresses when they changed. To know of nobody is no news: then the old ones stay."""

    def __init__(self, state: StateDirectory, here: Address, snapshot: Callable[[], Iterable[Address]]) -> None:
        self._state = state
        self._here = here
        self._snapshot = snapshot
        self._saved: list[str] = []
        self._saving = False

    async def run(self) -> None:
        pause = FIRST_SAVE_SECONDS
        while True:
            await trio.sleep(pause)
            pause = min(2 * pause, SAVE_SECONDS)
            if addresses := self._news():
                self._saving = True
                await trio.to_thread.run_sync(self._save, addresses)
                self._saving = False

    def save(self) -> None:
        """Save at once, before leaving; unless that is being done."""
        if not self._saving and (addresses := self._news()):
            self._save(addresses)

    def _news(self) -> list[str]:
        addresses = sorted(address_text(address) for address in self._snapshot() if address != self._here)
        return addresses if addresses != self._saved else []

    def _save(self, addresses: list[str]) -> None:
        try:
            self._state.save(PEERS, addresses)
        except StateUnusable as error:
            log.warning("state.not_saved", error=error.message)
        else:
            self._saved = addresses

"""The address that others are told: configured, bound, or found by asking the routing table, and then now and again."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterable

import structlog
import trio

from ..gossip.member import Address
from .addresses import address_text
from .errors import BadConfiguration
from .udp import canonical

log = structlog.get_logger("shoal.agent")

# A lease that was not renewed, a laptop in another network: others show this node suspect after about as long.
LOOK_SECONDS = 5.0
# Documentation addresses (RFC 5737, RFC 3849): connecting a UDP socket sends nothing, it only looks up a route.
_ELSEWHERE = ("192.0.2.1", "2001:db8::1")


def advertised(configured: Address | None, bound: Address, seeds: Iterable[Address]) -> Address:
    """`configured` if there is one; for a socket bound to every address, the one on the way to the seeds.

    Raises:
        BadConfiguration: bound to every address, and no route tells which of them others could reach.
    """
    if not is_found(configured, bound):
        return configured or bound
    host, port = bound
    for target in (*(seed[0] for seed in seeds), *_ELSEWHERE):
        local = _source_towards(target)
        if local is not None:
            return local, port
    raise BadConfiguration(
        f"gossip is bound to {host}, and no route tells which address others reach", hint="set gossip.advertise"
    )


def is_found(configured: Address | None, bound: Address) -> bool:
    """Whether the routing table decides, which may say something else later."""
    return configured is None and ipaddress.ip_address(bound[0]).is_unspecified


class AddressWatch:
    """Tells gossip when this machine is reached elsewhere by now, where nobody configured an address."""

    def __init__(self, here: Address, find: Callable[[], Address], move: Callable[[Address], None]) -> None:
        """`find` raises BadConfiguration while there is no route: then the last address stays."""
        self._here = here
        self._find = find
        self._move = move

    async def run(self) -> None:
        while True:
            await trio.sleep(LOOK_SECONDS)
            with contextlib.suppress(BadConfiguration):
                found = self._find()
                if found != self._here:
                    log.info("agent.moved", before=address_text(self._here), after=address_text(found))
                    self._here = found
                    self._move(found)


def _source_towards(target: str) -> str | None:
    """The local address that packets to `target` would leave from; None for a name, or without a route."""
    with contextlib.suppress(ValueError, OSError):
        family = socket.AF_INET6 if ipaddress.ip_address(target).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((target, 9))
            return canonical(sock.getsockname())[0]
    return None

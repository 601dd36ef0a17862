"""The address that others are told: configured, bound, or found by asking the routing table."""

import contextlib
import ipaddress
import socket
from collections.abc import Iterable

from ..gossip.member import Address
from .errors import BadConfiguration
from .udp import canonical

# Documentation addresses (RFC 5737, RFC 3849): connecting a UDP socket sends nothing, it only looks up a route.
_ELSEWHERE = ("192.0.2.1", "2001:db8::1")


def advertised(configured: Address | None, bound: Address, seeds: Iterable[Address]) -> Address:
    """`configured` if there is one; for a socket bound to every address, the one on the way to the seeds.

    Raises:
        BadConfiguration: bound to every address, and no route tells which of them others could reach.
    """
    if configured is not None:
        return configured
    host, port = bound
    if not ipaddress.ip_address(host).is_unspecified:
        return bound
    for target in (*(seed[0] for seed in seeds), *_ELSEWHERE):
        local = _source_towards(target)
        if local is not None:
            return local, port
    raise BadConfiguration(
        f"gossip is bound to {host}, and no route tells which address others reach", hint="set gossip.advertise"
    )


def _source_towards(target: str) -> str | None:
    """The local address that packets to `target` would leave from; None for a name, or without a route."""
    with contextlib.suppress(ValueError, OSError):
        family = socket.AF_INET6 if ipaddress.ip_address(target).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((target, 9))
            return canonical(sock.getsockname())[0]
    return None

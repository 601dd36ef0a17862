"""Addresses as people write them: `host`, `host:port`, `[v6]:port` or a bare v6 address, and back to text."""

from __future__ import annotations

import ipaddress
import re

from ..gossip.member import Address

# Registered for nobody, above the well-known ports, below the ephemeral ones; HTTP is the next one.
GOSSIP_PORT = 7931
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")


class NoAddress(ValueError):
    """The text says what was expected instead."""


def bind_address(value: object) -> Address:
    """An address of this machine; port 0 takes any free one."""
    host, port = _split(value, lowest_port=0)
    return _literal(host), port


def advertised_address(value: object) -> Address | None:
    """The address that other nodes are told, None for the empty string: then it is the bound one."""
    if value == "":
        return None
    host, port = _split(value, lowest_port=1)
    return _literal(host), port


def seed(value: object) -> Address:
    """The host name or address of a node to join; a name is resolved again at every try."""
    host, port = _split(value, lowest_port=1)
    try:
        return _literal(host), port
    except NoAddress:
        if _HOST.fullmatch(host) and not _looks_numeric(host):
            return host, port
        raise NoAddress(f"expected a host name or an IP address with a port, not {value!r}") from None


def address_text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_elsewhere(host: str) -> bool:
    """Whether this is an address that loopback does not lead to; of a name nothing is known."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(value: object, lowest_port: int) -> tuple[str, int]:
    """Host and port; the port defaults to `GOSSIP_PORT`."""
    if not isinstance(value, str) or not value:
        raise NoAddress(f'expected an address such as "10.0.0.7:{GOSSIP_PORT}"')
    if value.startswith("["):
        host, bracket, port = value[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise NoAddress(f"expected [address]:port, not {value!r}")
        port = port[1:] if port else str(GOSSIP_PORT)
    elif value.count(":") > 1:
        host, port = value, str(GOSSIP_PORT)
    else:
        host, colon, port = value.partition(":")
        port = port if colon else str(GOSSIP_PORT)
    if not re.fullmatch(r"[0-9]{1,5}", port) or not lowest_port <= int(port) < 65536:
        raise NoAddress(f"expected a port between {lowest_port} and 65535, not {port!r}")
    return host, int(port)


def _literal(host: str) -> str:
    """Canonical IP text: a v4-mapped v6 address is written as v4, as gossip does."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise NoAddress(f"expected an IP address with a port, not {host!r}") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _looks_numeric(host: str) -> bool:
    """A mistyped IPv4 address must not become a name that never resolves."""
    return host.replace(".", "").isdigit()

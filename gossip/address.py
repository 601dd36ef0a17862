"""Addresses: canonical text, and their bytes. An address on the wire is checked to be one that a node can have."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from .errors import WireError
from .member import Address

# Families as the wire says them; also an index into sizes.
NONE, V4, V6 = 0, 1, 2
SIZES = (0, 6, 18)  # host and port
_CACHED = 1024  # the members of most clusters; an entry costs some hundred bytes


def canonical(host: str) -> str:
    """One text for one address: IPv6 compressed and without zone, v4-mapped as IPv4. Raises ValueError."""
    found = ip_address(host.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(found)


def text(address: Address) -> str:
    """For people."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@lru_cache(maxsize=_CACHED)
def pack(address: Address | None) -> tuple[int, bytes]:
    """Family and bytes."""
    if address is None:
        return NONE, b""
    host = ip_address(address[0])
    return (V4 if host.version == 4 else V6), host.packed + address[1].to_bytes(2, "big")


@lru_cache(maxsize=_CACHED)
def unpack(data: bytes) -> Address:
    """The address of 6 or 18 bytes. Raises WireError when no node can be there."""
    if len(data) == SIZES[V4]:
        host: IPv4Address | IPv6Address = IPv4Address(data[:4])
    elif len(data) == SIZES[V6]:
        host = IPv6Address(data[:16])
        host = host.ipv4_mapped or host
    else:
        raise WireError("address", "6 or 18 bytes", len(data))
    port = int.from_bytes(data[-2:], "big")
    if not port:
        raise WireError("address port", "between 1 and 65535", port)
    if host.is_unspecified or host.is_multicast or str(host) == "255.255.255.255":
        raise WireError("address host", "the address of one machine", str(host))
    return str(host), port

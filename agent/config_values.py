"""What one configuration value may be: each kind takes what TOML gives, or the text of a flag or the environment.

A kind is a function `(value) -> typed value` that raises `UnfitValue` with what it expected; the caller adds where the
value came from.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..capabilities.errors import ValueRefused
from ..capabilities.values import CapValue, check_key, check_value
from ..gossip.member import Address

# Registered for nobody, above the well-known ports, below the ephemeral ones; HTTP is the next one.
GOSSIP_PORT = 7931
# As long as the longest host name, and safe in file names, table columns and the requirement language.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class UnfitValue(ValueError):
    """The text says what was expected instead."""


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise UnfitValue("expected true or false")


def text(value: object) -> str:
    if isinstance(value, str) and "\0" not in value:
        return value
    raise UnfitValue("expected a string")


def path(value: object) -> str:
    """A path; a leading `~` is the home of the user who runs the agent."""
    given = text(value)
    try:
        return str(Path(given).expanduser()) if given.startswith("~") else given
    except RuntimeError:
        raise UnfitValue(f"expected a path; the home of {given!r} is not known") from None


def absolute_paths(value: Any) -> tuple[str, ...]:
    if not _is_list(value):
        raise UnfitValue('expected a list of paths, such as ["/srv/models"]')
    found = tuple(path(item) for item in value)
    for item in found:
        if not item.startswith("/"):
            raise UnfitValue(f"expected paths that begin with /, not {item!r}")
    return found


def name(value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise UnfitValue("expected a name that begins with a letter or digit, then also dots, underscores and hyphens")


def name_or_empty(value: object) -> str:
    return "" if value == "" else name(value)


def one_of(*choices: str) -> Callable[[object], str]:
    def choose(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise UnfitValue(f"expected one of {', '.join(choices)}")

    return choose


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


def seeds(value: Any) -> tuple[Address, ...]:
    """Host names or addresses of nodes to join; names are resolved again at every try."""
    if not _is_list(value):
        raise UnfitValue('expected a list of addresses, such as ["10.0.0.7:7931"]')
    return tuple(seed(item) for item in value)


def seed(value: object) -> Address:
    host, port = _split(value, lowest_port=1)
    try:
        return _literal(host), port
    except UnfitValue:
        if _HOST.fullmatch(host) and not _looks_numeric(host):
            return host, port
        raise UnfitValue(f"expected a host name or an IP address with a port, not {value!r}") from None


def label(key: str, value: object) -> CapValue:
    """An operator label, by the rules that every record follows."""
    try:
        check_key(key, "the key")
        return check_value(value, "the value")
    except ValueRefused as error:
        raise UnfitValue(f"expected {error.wanted.removeprefix('a key of ')}, for {error.path}") from None


def boolean_from_text(given: str) -> object:
    folded = given.strip().lower()
    return True if folded in _TRUE else False if folded in _FALSE else given


def list_from_text(given: str) -> object:
    return [part.strip() for part in given.split(",") if part.strip()]


def is_elsewhere(host: str) -> bool:
    """Whether this is an address that loopback does not lead to; of a name nothing is known."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split(value: object, lowest_port: int) -> tuple[str, int]:
    """`host`, `host:port`, `[v6]:port` or a bare v6 address; the port defaults to `GOSSIP_PORT`."""
    if not isinstance(value, str) or not value:
        raise UnfitValue(f'expected an address such as "10.0.0.7:{GOSSIP_PORT}"')
    if value.startswith("["):
        host, bracket, port = value[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise UnfitValue(f"expected [address]:port, not {value!r}")
        port = port[1:] if port else str(GOSSIP_PORT)
    elif value.count(":") > 1:
        host, port = value, str(GOSSIP_PORT)
    else:
        host, colon, port = value.partition(":")
        port = port if colon else str(GOSSIP_PORT)
    if not re.fullmatch(r"[0-9]{1,5}", port) or not lowest_port <= int(port) < 65536:
        raise UnfitValue(f"expected a port between {lowest_port} and 65535, not {port!r}")
    return host, int(port)


def _literal(host: str) -> str:
    """Canonical IP text: a v4-mapped v6 address is written as v4, as gossip does."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UnfitValue(f"expected an IP address with a port, not {host!r}") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _looks_numeric(host: str) -> bool:
    """A mistyped IPv4 address must not become a name that never resolves."""
    return host.replace(".", "").isdigit()


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))

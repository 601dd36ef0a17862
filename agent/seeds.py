"""Seeds: agents to join through, by address or by name. A name is looked up again at every try."""

import socket
from collections.abc import Iterable
from typing import Any

import trio

from ..gossip.member import Address
from .addresses import address_text
from .udp import canonical

# A resolver that does not answer must not hold up the seeds that need no resolver.
LOOKUP_SECONDS = 5.0


async def resolve(seeds: Iterable[Address]) -> tuple[list[Address], dict[str, str]]:
    """Every address of every seed, IPv4 and IPv6, without repeats; and for each seed that gave none, why."""
    found, failures = await resolve_each(seeds)
    return list(dict.fromkeys(address for addresses in found.values() for address in addresses)), failures


async def resolve_each(seeds: Iterable[Address]) -> tuple[dict[Address, tuple[Address, ...]], dict[str, str]]:
    """The addresses of each seed that has any; and for each that has none, why."""
    found: dict[Address, tuple[Address, ...]] = {}
    failures: dict[str, str] = {}

    async def look_up(seed: Address) -> None:
        try:
            with trio.fail_after(LOOKUP_SECONDS):
                rows: list[Any] = await trio.socket.getaddrinfo(*seed, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:
            failures[address_text(seed)] = str(error)
        except trio.TooSlowError:
            failures[address_text(seed)] = f"the resolver did not answer within {LOOKUP_SECONDS:.0f} s"
        else:
            found[seed] = tuple(canonical(row[4]) for row in rows)

    async with trio.open_nursery() as nursery:
        for seed in seeds:
            nursery.start_soon(look_up, seed)
    return found, failures

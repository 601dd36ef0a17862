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
    found: dict[Address, None] = {}
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
            found.update((canonical(row[4]), None) for row in rows)

    async with trio.open_nursery() as nursery:
        for seed in seeds:
            nursery.start_soon(look_up, seed)
    return list(found), failures

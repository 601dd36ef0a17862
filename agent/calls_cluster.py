"""Calls that change who belongs to the cluster: join, leave, forget."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from ..gossip.member import Address
from ..placement.nodes import NodeState
from .addresses import NoAddress, address_text, seed
from .api import Answer, Backend, Call, Command, Request
from .arguments import Argument, list_of, refuse
from .errors import Refused, TryAgain
from .rows import NODE, resolve
from .seeds import resolve as look_up

# An operator names a few nodes; the gossip tells of the others.
_ADDRESSES_MOST = 64
# To say why nobody answered; the name service was asked before, and has its answers at hand.
_LOOK_UP_SECONDS = 1.0


async def join(request: Request) -> Answer:
    """Ask nodes at these addresses; TryAgain when none answered."""
    addresses = request.arguments["addresses"]
    answered = await request.backend.join(addresses)
    if not answered:
        raise await _silence(addresses)
    return {"asked": len(addresses), "answered": answered}


async def _silence(addresses: Sequence[Address]) -> TryAgain:
    """Nobody answered; a name that does not resolve is why."""
    one = len(addresses) == 1
    said = f"{address_text(addresses[0])} did not answer" if one else f"none of {len(addresses)} addresses answered"
    unresolved: dict[str, str] = {}
    with trio.move_on_after(_LOOK_UP_SECONDS):
        _, unresolved = await look_up(addresses)
    if unresolved:
        reasons = "; ".join(f"{seed} does not resolve: {why}" for seed, why in unresolved.items())
        return TryAgain(f"{said}: {reasons}", hint="correct the name, or the name service")
    return TryAgain(said, hint="is an agent of the same cluster there, and do UDP and TCP reach it?")


async def leave(request: Request) -> Answer:
    """Answers when the cluster has been told; then the agent stops."""
    await request.backend.leave()
    return {}


def stop(backend: Backend) -> None:
    backend.stop()


async def forget(request: Request) -> Answer:
    record = resolve(request.backend.view, request.arguments["node"])
    if record.state in (NodeState.ALIVE, NodeState.SUSPECT):
        raise Refused(f"{record.name} is {record.state.value}", hint="only dead and left nodes can be forgotten")
    request.backend.forget(record.node_id)
    return {"node_id": record.node_id, "name": record.name}


def _address(value: object, path: str) -> Address:
    try:
        return seed(value)
    except NoAddress as error:
        raise refuse(path, str(error)) from None


_ADDRESSES = Argument("addresses", list_of(_address, most=_ADDRESSES_MOST, least=1))

CALLS: tuple[Call, ...] = (
    Command(name="join", run=join, arguments=(_ADDRESSES,)),
    Command(name="leave", run=leave, then=stop),
    Command(name="forget", run=forget, arguments=(Argument("node", NODE),)),
)

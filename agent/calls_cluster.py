"""Calls that change who belongs to the cluster: join, leave, forget."""

from __future__ import annotations

from ..gossip.member import Address
from ..placement.nodes import NodeState
from .addresses import NoAddress, seed
from .api import Answer, Backend, Call, Command, Request
from .arguments import Argument, list_of, refuse
from .errors import Refused, TryAgain
from .rows import NODE, resolve

# An operator names a few nodes; the gossip tells of the others.
_ADDRESSES_MOST = 64


async def join(request: Request) -> Answer:
    """Ask nodes at these addresses; TryAgain when none answered."""
    addresses = request.arguments["addresses"]
    answered = await request.backend.join(addresses)
    if not answered:
        raise TryAgain(
            f"none of the {len(addresses)} addresses answered" if len(addresses) > 1 else "the address did not answer",
            hint="is an agent of the same cluster there, and do UDP and TCP reach it?",
        )
    return {"asked": len(addresses), "answered": answered}


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
    Command(
        name="join", run=join, arguments=(Argument("addresses", list_of(_address, most=_ADDRESSES_MOST, least=1)),)
    ),
    Command(name="leave", run=leave, then=stop),
    Command(name="forget", run=forget, arguments=(Argument("node", NODE),)),
)

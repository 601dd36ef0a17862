"""Calls that say whether this node takes new work: cordon, uncordon, drain.

A node owns its schedule, so only its own agent can change it. The calls take a node all the same: who means another one
must be told, and not change this one.
"""

from __future__ import annotations

import functools

from ..placement.nodes import Schedulable
from .api import Answer, Call, Command, Request
from .arguments import Argument
from .errors import Refused
from .rows import NODE, resolve


async def change(request: Request, *, to: Schedulable) -> Answer:
    """Answers what is in force, and whether that is new."""
    backend = request.backend
    wanted = request.arguments["node"]
    if wanted is not None:
        node = resolve(backend.view, wanted)
        if node.node_id != backend.node_id:
            raise Refused(
                f"this is not the agent of {node.name or node.node_id}, and only its own agent changes its schedule",
                hint=f"run this on {node.name or 'that machine'}; a placement leaves it out with --avoid",
            )
    changed = backend.schedule.change(to)
    here = backend.view.get(backend.node_id)
    return {
        "node_id": backend.node_id,
        "name": "" if here is None else here.name,
        "schedulable": to.value,
        "changed": changed,
    }


_NODE = (Argument("node", NODE, default=None),)

CALLS: tuple[Call, ...] = (
    Command(name="cordon", run=functools.partial(change, to=Schedulable.CORDONED), arguments=_NODE),
    Command(name="uncordon", run=functools.partial(change, to=Schedulable.YES), arguments=_NODE),
    Command(name="drain", run=functools.partial(change, to=Schedulable.DRAINING), arguments=_NODE),
)

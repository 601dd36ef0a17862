"""Calls about the keys of the cluster: list, install, rotate, use, remove. Of keys only ids are answered."""

from __future__ import annotations

from collections.abc import Iterable

from ..placement.view import View
from .api import Answer, Backend, Call, Command, Query, Request
from .arguments import Argument, flag, text
from .errors import Refused
from .key_facts import RingFacts
from .keys import Keys
from .peer import Level

# base64 of 32 bytes has 44 characters; what is longer is another thing, and never repeated in a message.
_KEY_TEXT = 256
# Names of nodes that lack a key: enough to see what they have in common.
_NAMED = 20


def list_keys(request: Request) -> Answer:
    """Every key that any member is known to have, and who lacks it."""
    return ring_map(_keys(request).facts(), request.backend.view)


async def install(request: Request) -> Answer:
    """Also open frames of this key: on all nodes, or only `here`."""
    keys, here = _keys(request), request.arguments["here"]
    return {"id": keys.install(request.arguments["key"], everywhere=not here), "stored": keys.facts().stored}


async def rotate(request: Request) -> Answer:
    """Begin a rotation to a new `key`, or to an installed one by `id`; with neither, resume the one under way."""
    keys, arguments = _keys(request), request.arguments
    target = keys.rotate(arguments["key"], arguments["id"])
    return {**ring_map(keys.facts(), request.backend.view), "target": target}


async def use(request: Request) -> Answer:
    _keys(request).use(request.arguments["id"], force=request.arguments["force"])
    return {"id": request.arguments["id"]}


async def remove(request: Request) -> Answer:
    _keys(request).remove(request.arguments["id"], force=request.arguments["force"])
    return {"id": request.arguments["id"]}


def ring_map(facts: RingFacts, view: View) -> Answer:
    """The ring as plain values; nodes by name, or by id where the name is not known."""
    return {
        "in_use": facts.in_use,
        "target": facts.target or None,
        "members": facts.members,
        "dead": _names(facts.dead, view),
        "stored": facts.stored,
        "keys": [
            {
                "id": key.id,
                "in_use": key.in_use,
                "have": key.have,
                "using": key.using,
                "lacking": _names(key.lacking, view),
                "dead_lacking": _names(key.dead_lacking, view),
            }
            for key in facts.keys
        ],
    }


def _names(nodes: tuple[str, ...], view: View) -> list[str]:
    records = ((node, view.get(node)) for node in nodes[:_NAMED])
    named = [node if record is None or not record.name else record.name for node, record in records]
    return [*named, *_more(len(nodes) - len(named))]


def _more(count: int) -> Iterable[str]:
    return (f"{count} more",) if count > 0 else ()


def _keys(request: Request) -> Keys:
    return held(request.backend)


def held(backend: Backend) -> Keys:
    """The agent's keys. Raises Refused when it has none."""
    if backend.keys is None:
        raise Refused(
            "this agent gossips without a key",
            hint="set gossip.key_file on every node and restart them; shoal keys gen makes a key",
        )
    return backend.keys


def _secret(value: object, path: str) -> str:
    """Text whose refusal does not show it."""
    return text(_KEY_TEXT)(value if type(value) is str else "", path)


_KEY = Argument("key", _secret)
_ID = Argument("id", text(64))
_FORCE = Argument("force", flag, default=False)

CALLS: tuple[Call, ...] = (
    Query(name="keys_list", level=Level.ADMIN, answer=list_keys),
    Command(name="keys_install", run=install, arguments=(_KEY, Argument("here", flag, default=False))),
    Command(
        name="keys_rotate",
        run=rotate,
        arguments=(Argument("key", _secret, default=None), Argument("id", text(64), default=None)),
    ),
    Command(name="keys_use", run=use, arguments=(_ID, _FORCE)),
    Command(name="keys_remove", run=remove, arguments=(_ID, _FORCE)),
)

"""Calls about this node's operator labels: those that configuration and operators add to what was detected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..capabilities.errors import ValueRefused, shown
from ..capabilities.values import check_key, check_value
from .api import Answer, Call, Command, Query, Request
from .arguments import Argument, Check, list_of, map_of, refuse
from .peer import Level

# More labels than this is data, not description; the record has its own bound in bytes.
_LABELS_MOST = 256


def labels_list(request: Request) -> Answer:
    return {"labels": dict(request.backend.operator_labels)}


async def labels_set(request: Request) -> Answer:
    """Set them all, or none when one is refused."""
    request.backend.set_labels(request.arguments["labels"])
    return {"labels": dict(request.backend.operator_labels)}


async def labels_unset(request: Request) -> Answer:
    """Answers which of the keys were set until now."""
    unset = request.backend.unset_labels(request.arguments["keys"])
    return {"unset": list(unset), "labels": dict(request.backend.operator_labels)}


def _by(checker: Callable[[object, str], Any]) -> Check:
    def check(value: object, path: str) -> Any:
        try:
            return checker(value, path)
        except ValueRefused as error:
            raise refuse(error.path, f"expected {error.wanted}, got {shown(error.got)}") from None

    return check


_KEY = _by(check_key)

CALLS: tuple[Call, ...] = (
    Query(name="labels_list", answer=labels_list),
    Command(
        name="labels_set",
        level=Level.WRITE,
        run=labels_set,
        arguments=(Argument("labels", map_of(_KEY, _by(check_value), most=_LABELS_MOST, least=1)),),
    ),
    Command(
        name="labels_unset",
        level=Level.WRITE,
        run=labels_unset,
        arguments=(Argument("keys", list_of(_KEY, most=_LABELS_MOST, least=1)),),
    ),
)

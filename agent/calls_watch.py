"""The watch stream: a snapshot, then every change; a reader that falls behind gets one fresh snapshot instead."""

from __future__ import annotations

from typing import Any

from .api import Answer, Call, Outlet, Request, Stream
from .arguments import Argument, flag
from .rows import LABELS, by_name, in_pages, node_row
from .watchers import Missed, NodeEvent


async def watch(request: Request, outlet: Outlet) -> None:
    """Never ends by itself. The parts of a snapshot but the last carry `partial`."""
    with request.backend.watchers.subscribe(vitals=request.arguments["vitals"]) as subscription:
        await _snapshot("snapshot", request, outlet)
        while True:
            change = await subscription.next_change()
            if isinstance(change, Missed):
                request.api.count("resync")
                await _snapshot("resync", request, outlet)
            else:
                await outlet.send(_delta(change, request))


async def _snapshot(event: str, request: Request, outlet: Outlet) -> None:
    view, labels, now = request.backend.view, request.arguments["labels"], request.backend.now()
    rows = (node_row(record, labels=labels, now=now, here=view.here) for record in by_name(view))
    pages = in_pages(rows, {"isolated": view.isolated})
    waiting: Answer | None = None
    for part in pages.parts:
        if waiting is not None:
            await outlet.send({"event": event, "partial": True, **waiting})
        waiting = part
    if waiting is not None:
        await outlet.send({"event": event, **waiting})


def _delta(change: NodeEvent, request: Request) -> dict[str, Any]:
    labels, now, here = request.arguments["labels"], request.backend.now(), request.backend.view.here
    delta: dict[str, Any] = {"event": change.kind, "node_id": change.node_id, "at": change.at}
    if change.record is not None:
        delta["node"] = node_row(change.record, labels=labels, now=now, here=here)
    if change.other is not None:
        delta["other"] = node_row(change.other, labels=labels, now=now, here=here)
    return delta


CALLS: tuple[Call, ...] = (
    Stream(name="watch", run=watch, arguments=(LABELS, Argument("vitals", flag, default=False))),
)

"""The call that looks at this machine and its configuration again."""

from __future__ import annotations

from .api import Answer, Call, Command, Request


async def reload(request: Request) -> Answer:
    """Answers what became different, and all warnings. Takes seconds where hooks or broken hardware are slow."""
    changes = await request.backend.reload()
    return {
        "added": dict(changes.added),
        "removed": dict(changes.removed),
        "changed": {key: list(pair) for key, pair in changes.changed.items()},
        "devices_changed": changes.devices_changed,
        "needs_restart": list(changes.needs_restart),
        "warnings": list(request.backend.warnings),
    }


CALLS: tuple[Call, ...] = (Command(name="reload", run=reload),)

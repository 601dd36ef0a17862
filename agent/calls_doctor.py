"""The call that looks for what is wrong with this node and its cluster."""

from __future__ import annotations

import attrs

from .api import Answer, Call, Command, Request
from .doctor import OK, diagnose
from .peer import Level


async def doctor(request: Request) -> Answer:
    """All findings; `well` says whether there is nothing to do. Takes seconds where peers do not answer."""
    findings = diagnose(await request.backend.examine())
    return {
        "well": all(finding.level == OK for finding in findings),
        "findings": [attrs.asdict(finding) for finding in findings],
    }


# It sends packets to many nodes: not for everybody.
CALLS: tuple[Call, ...] = (Command(name="doctor", level=Level.WRITE, run=doctor),)

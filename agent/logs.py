"""Logging of the agent's process: structured events to standard error, for people or as JSON lines.

Only `main` of the daemon calls `configure`; an agent embedded in another program logs as that program says, and where
it says nothing, as the agent's own configuration does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(
    level: str,
    style: str,
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
    for_good: bool = True,
) -> None:
    """Send every event of `level` and above to `stream`.

    `style` json writes one object a line; human and auto write for people: in colour on a terminal unless NO_COLOR is
    set. Under the journal, which stamps every line itself, auto leaves the time out. Not `for_good`, loggers in use
    follow a later configuration.
    """
    out = sys.stderr if stream is None else stream
    variables = os.environ if environ is None else environ
    stamped = style != "auto" or "JOURNAL_STREAM" not in variables
    processors: list[Processor] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    if stamped:
        processors.append(structlog.processors.TimeStamper(fmt="iso", utc=True))
    if style == "json":
        processors += [
            _named_event,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    else:
        colors = out.isatty() and not variables.get("NO_COLOR")
        processors.append(
            structlog.dev.ConsoleRenderer(
                colors=colors, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            )
        )
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_names: LineLogger(out),
        cache_logger_on_first_use=for_good,
    )


def configure_unless_host_did(level: str, style: str) -> None:
    """For an agent in another program, whose standard output is its own: structlog's default would write there."""
    if not structlog.is_configured():
        configure(level, style, for_good=False)


def _named_event(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Time, level and event first, so that a line can be read by eye too."""
    first = {key: fields.pop(key) for key in ("timestamp", "level", "event") if key in fields}
    return {**first, **fields}


class LineLogger:
    """Writes lines and survives whatever happens to the stream: a full disk must not end an agent."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(message + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg

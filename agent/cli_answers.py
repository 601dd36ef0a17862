"""What each call of an agent answers, as far as commands read it.

The socket may be anybody's: a command reads an answer only after it was checked here, and then as it stands.
"""

from __future__ import annotations

from .client import Client
from .errors import BadFrame
from .shapes import (
    COUNT,
    FLAG,
    INT,
    NOTHING,
    NUMBER,
    PLAIN,
    SCALAR,
    TEXT,
    Either,
    Fields,
    ListOf,
    MapOf,
    NoFit,
    Where,
    one_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from .shapes import Shape

_TEXTS = ListOf(TEXT)
_AGE = Either(NOTHING, NUMBER)
# Printed within a line of ours.
_WORD = Where(TEXT, str.isprintable, "printable text")
# Unix time of some thousand years, so that a calendar has a date for it.
_MOMENT = Where(NUMBER, lambda value: 0 <= value < 1 << 36, "a Unix time")

_NAMED = Fields({"node_id": TEXT, "name": TEXT}, {"addr": TEXT, "state": TEXT})
_ROW = Fields(
    {"node_id": TEXT, "name": TEXT, "addr": TEXT, "state": TEXT, "generation": INT, "incarnation": INT},
    {
        "here": FLAG,
        "schedulable": TEXT,
        "udp_broken": FLAG,
        "error": TEXT,
        "labels": MapOf(SCALAR),
        "vitals": MapOf(SCALAR),
        "vitals_age_ms": INT,
        "devices": ListOf(MapOf(PLAIN)),
        "engines": Fields({}, {"models": ListOf(MapOf(PLAIN))}),
        "warnings": _TEXTS,
    },
)
_VIEW = Where(
    Fields({"known": INT, "isolated": FLAG, "youngest_s": _AGE, "oldest_s": _AGE, "stale": INT, "unknown": INT}),
    lambda view: (view["youngest_s"] is None) == (view["oldest_s"] is None),
    "the ages of the youngest and the oldest, or of neither",
)
_TOLD = ListOf(Fields({"text": TEXT}))
_EXPLANATION = Fields(
    {
        "verdict": TEXT,
        "chosen": ListOf(_NAMED),
        "lines": ListOf(Fields({"kind": TEXT, "text": TEXT})),
        "eligible": ListOf(_NAMED.also({"fit_score": Either(NOTHING, INT), "is_local": FLAG, "tier": TEXT})),
        "eligible_count": INT,
        "excluded": ListOf(_NAMED.also({"reasons": _TOLD})),
        "excluded_count": INT,
        "totals": ListOf(Fields({"text": TEXT, "count": INT, "names": _TEXTS})),
        "near_misses": ListOf(_NAMED.also({"kind": TEXT, "text": TEXT})),
        "would_fit": ListOf(_NAMED),
        "places": MapOf(ListOf(Fields({"value": SCALAR, "nodes": INT}))),
        "relax": _TOLD,
        "hints": _TEXTS,
        "node": Either(NOTHING, _NAMED.also({"rank": Either(NOTHING, INT), "reasons": _TOLD})),
    }
)
_FOUND = Fields(
    {"nodes": ListOf(_ROW), "view": _VIEW, "fallback": Either(NOTHING, COUNT)},
    {"warnings": _TEXTS, "explanation": _EXPLANATION},
)
_TASK = Fields(
    {},
    {
        "workload_class": TEXT,
        "required_tools": _TEXTS,
        "min_free_ram_mb": INT,
        "memory_request_mb": INT,
        "context_tokens": INT,
        "preferred_backends": _TEXTS,
        "requirement": TEXT,
    },
)
_PLACED = Fields(
    {
        "ok": FLAG,
        "nodes": ListOf(_NAMED.also({"fit_score": INT, "is_local": FLAG}, {"tier": TEXT, "age_s": _AGE})),
        "eligible": INT,
        "seed": INT,
        "fallback": Either(NOTHING, COUNT),
        "task": _TASK,
        "view": _VIEW,
    },
    {"warnings": _TEXTS, "explanation": _EXPLANATION},
)
_CHOSEN = _PLACED.also(
    {
        "ok": Where(FLAG, bool, "true"),
        "decided_by": Either(NOTHING, _WORD),
        "runner_up": Either(NOTHING, _NAMED.also({"fit_score": INT})),
    }
)
_EXPLAINED = {"explanation": _EXPLANATION}
_RUN = Fields(
    {
        "node": TEXT,
        "name": TEXT,
        "workload_class": TEXT,
        "tool": TEXT,
        "backend": TEXT,
        "model_name": TEXT,
        "success": FLAG,
        "wall_ms": INT,
        "peak_ram_mb": INT,
        "peak_vram_mb": INT,
        "samples": INT,
        "age_s": INT,
    }
)
_FAILURE = Fields(
    {
        "node": TEXT,
        "name": TEXT,
        "workload_class": TEXT,
        "tool": TEXT,
        "backend": TEXT,
        "surface": TEXT,
        "failure_class": TEXT,
        "count": INT,
        "blocking": FLAG,
        "active": FLAG,
        "for_s": INT,
    }
)
_KEY = Fields({"id": _WORD, "in_use": FLAG, "have": INT, "using": INT, "lacking": _TEXTS})
_RING = Fields(
    {"target": Either(NOTHING, _WORD), "members": INT, "dead": _TEXTS, "stored": FLAG, "keys": ListOf(_KEY)},
)
_SCHEDULED = Fields({"node_id": TEXT, "name": TEXT, "changed": FLAG})
_LABELS = Fields({"labels": MapOf(SCALAR)})
_EVENT = Either(
    Fields({"event": TEXT, "nodes": ListOf(_ROW)}),
    Fields({"event": TEXT, "node_id": TEXT, "at": _MOMENT}, {"node": _ROW, "other": _ROW}),
)


def _find(args: Mapping[str, Any]) -> Shape:
    """Why there is none must be there when there is none, and it was asked for."""
    if not args.get("explain"):
        return _FOUND
    return Either(_FOUND.also({"nodes": Where(ListOf(_ROW), bool, "nodes")}), _FOUND.also(_EXPLAINED))


def _place(args: Mapping[str, Any]) -> Shape:
    why = args.get("explain")
    chosen = _CHOSEN.also(_EXPLAINED) if why == "always" else _CHOSEN
    return Either(chosen, _PLACED.also({"ok": Where(FLAG, lambda ok: not ok, "false"), **_EXPLAINED}))


_ANSWERS: dict[str, Shape | Callable[[Mapping[str, Any]], Shape]] = {
    "status": Fields(
        {"name": TEXT, "node_id": TEXT, "members": MapOf(INT)},
        {"isolated": FLAG, "joined": FLAG, "seeds": _TEXTS, "warnings": _TEXTS},
    ),
    "members": Fields({"nodes": ListOf(_ROW)}, {"isolated": FLAG}),
    "show": Fields({"node": _ROW}),
    "find": _find,
    "place": _place,
    "explain": Fields({"explanation": _EXPLANATION, "view": _VIEW}, {"warnings": _TEXTS}),
    "observe": Fields({"observation": _RUN}),
    "fail": Fields({"failure": Either(NOTHING, _FAILURE)}),
    "override": Fields({"lifted": ListOf(_FAILURE)}),
    "history": Fields(
        {
            "history": ListOf(
                Either(_RUN.also({"what": one_of("run")}), _FAILURE.also({"what": one_of("failure")}, {"age_s": INT}))
            )
        }
    ),
    "watch": _EVENT,
    "wait": Fields({"alive": INT}),
    "join": Fields({"asked": INT, "answered": INT}),
    "forget": Fields({"node_id": TEXT, "name": TEXT}),
    "cordon": _SCHEDULED,
    "uncordon": _SCHEDULED,
    "drain": _SCHEDULED,
    "labels_list": _LABELS,
    "labels_unset": Fields({"unset": _TEXTS}),
    "reload": Fields(
        {
            "added": MapOf(SCALAR),
            "removed": MapOf(SCALAR),
            "changed": MapOf(Where(ListOf(SCALAR), lambda pair: len(pair) == 2, "the value before and after")),
            "devices_changed": FLAG,
            "needs_restart": ListOf(_WORD),
            "warnings": _TEXTS,
        }
    ),
    "doctor": Fields(
        {"well": FLAG, "findings": ListOf(Fields({"check": TEXT, "level": TEXT, "what": TEXT, "todo": TEXT}))}
    ),
    "keys_list": _RING,
    "keys_install": Fields({"id": _WORD, "stored": FLAG}),
    "keys_rotate": _RING.also({"target": _WORD}),
}


class CheckedClient(Client):
    """A client whose answers are what the agent's calls answer, or BadFrame."""

    def call(self, call: str, args: Mapping[str, Any] | None = None, timeout: float | None = None) -> dict[str, Any]:
        answer = super().call(call, args, timeout)
        self._check(call, args or {}, answer)
        return answer

    def watch(self, *, labels: bool | Iterable[str] = True, vitals: bool = False) -> Iterator[dict[str, Any]]:
        for event in super().watch(labels=labels, vitals=vitals):
            self._check("watch", {}, event)
            yield event

    def _check(self, call: str, args: Mapping[str, Any], answer: object) -> None:
        known = _ANSWERS.get(call, PLAIN)
        shape: Shape = known(args) if callable(known) else known
        try:
            shape.check(answer)
        except NoFit as error:
            where = f" at {error.path}" if error.path.isprintable() else ""
            raise BadFrame(
                f"what answers on {self.socket_path} is no agent of this version: its answer to {call} holds "
                f"{error.got}{where}, where {error.wanted} is expected",
                hint="another program may listen there, or an agent of another version",
            ) from None

"""An explanation for people: the verdict, what was asked, what excludes whom, what is nearly there, what would help."""

from __future__ import annotations

from .cli_output import aligned, amount, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    Plain = Mapping[str, Any]

_VERDICTS = {
    "infeasible": "nothing fits, and nothing that is known ever could: ask for less, or add a node",
    "busy": "nothing fits right now; what is known could, once what is in the way is gone",
    "unknown": "nothing fits as far as is known: of some nodes the facts are missing or old",
}
_ASK_LESS = "ask for less"
_WAIT = "wait for memory to be freed there, or ask for less"
# What to do about a node that lacks nothing else.
_ADVICE = {
    "cordoned": "shoal uncordon, there",
    "draining": "shoal uncordon, there",
    "suspect": "it may be back soon; or leave out --strict",
    "avoided": "leave out --avoid {name}",
    "failure_memory": "if that is mended: shoal override {name}",
    "status": "shoal show {name} says what is missing",
    "missing_tools": "install it there",
    "label_needed": "shoal labels set, there",
    "min_free_ram": _WAIT,
    "memory_request": _WAIT,
    "empirical_peak_ram": _WAIT,
    "battery_low": "connect it to mains",
}
# Rows of each list of a short explanation; `explain` shows all that the agent sent.
_SHORT = 5
_RANKS = {
    "fit_score": "the fit score",
    "allocatable_ram": "free memory",
    "hash": "chance",
    "tier": "how well it is known",
}


def explanation_lines(answer: Plain, asked: Plain, *, whole: bool) -> Iterator[str]:
    """Of an answer that holds an `explanation`; `asked` are the options that were sent. Without `whole` in short."""
    told: Plain = answer["explanation"]
    yield _verdict(told, asked)
    if task := task_text(answer.get("task") or {}):
        yield f"asked for {task}"
    yield view_text(answer["view"])
    yield from (f"hint: {plain(hint)}" for hint in told["hints"])
    yield from reason_lines(answer, whole=whole)


def reason_lines(answer: Plain, *, whole: bool) -> Iterator[str]:
    """The same without the outcome."""
    told: Plain = answer["explanation"]
    most = None if whole else _SHORT
    fits = told["verdict"] == "fits"
    if told["node"] is not None:
        yield from _one_node(told)
    if whole and fits:
        yield from _section("fit, best first", _eligible(told))
        yield from _section("why the first", [[plain(line["text"])] for line in told["lines"]])
    for label, found in told["places"].items():
        rows = [[plain(place["value"]), str(place["nodes"])] for place in found[:most]]
        yield from _section(f"nodes that fit by {plain(label)}", rows)
    yield from _section("excluded by", _totals(told, most))
    yield from _section("nearest", _near_misses(told, most))
    if not fits:
        gone = [[plain(node["name"]), "would fit, and is dead"] for node in told["would_fit"][:most]]
        yield from _section("gone", gone)
        yield from _section("would help", [[plain(hint["text"])] for hint in told["relax"][:most]])
    yield from _section("hints", [[plain(line["text"])] for line in told["lines"] if line["kind"].startswith("hint")])
    if whole and told["node"] is None:
        yield from _section("against each", _excluded(told))


def view_text(view: Plain) -> str:
    """How many nodes the answer knew of, and how old what it knew was."""
    text = f"{_nodes(view['known'])} known"
    if view["oldest_s"] is not None:
        youngest, oldest = _seconds(view["youngest_s"]), _seconds(view["oldest_s"])
        text += f", seen {oldest} s ago" if youngest == oldest else f", seen {youngest} to {oldest} s ago"
    if view["stale"]:
        text += f", {view['stale']} of them stale"
    if view["unknown"]:
        text += f", {view['unknown']} never heard of"
    return text


def task_text(task: Plain) -> str:
    """What a task asks for, whoever said it: the words were read by rules that an operator should see at work."""
    parts = [f"{task['workload_class']}" if "workload_class" in task else ""]
    if tools := task.get("required_tools"):
        parts.append(f"tools {', '.join(tools)}")
    for key, what in (("min_free_ram_mb", "free memory"), ("memory_request_mb", "memory of its own")):
        if key in task:
            parts.append(f"{amount(task[key])} of {what}")
    if "context_tokens" in task:
        parts.append(f"a context of {task['context_tokens']} tokens")
    if backends := task.get("preferred_backends"):
        parts.append(f"rather with {', '.join(backends)}")
    if "requirement" in task:
        parts.append(task["requirement"])
    return plain("; ".join(part for part in parts if part and part != "unknown"))


def ranked_by(key: str) -> str:
    return _RANKS.get(key, key.replace("_", " "))


def _verdict(told: Plain, asked: Plain) -> str:
    names = ", ".join(plain(node["name"]) for node in told["chosen"])
    fit, chosen = told["eligible_count"], len(told["chosen"])
    if told["verdict"] == "fits":
        return f"{names}: the best of {fit} that fit" if fit > chosen else f"{_nodes(fit)} {_fit(fit)}: {names}"
    if not fit:
        return _VERDICTS.get(told["verdict"], _VERDICTS["unknown"])
    wanted, spread, apart = asked.get("count", 1), asked.get("spread"), asked.get("anti_affinity")
    ways: list[str] = []
    if apart:
        ways.append(f"no two with the same {plain(apart['label'])}")
    if spread:
        ways.append(f"spread evenly over {plain(spread['label'])}, give or take {spread['max_skew']}")
    how = f", {' and '.join(ways)}" if ways else ""
    late = "; once what is in the way of others is gone, there may be" if told["verdict"] == "busy" else ""
    return f"{_nodes(fit)} {_fit(fit)}, but there are not {wanted} together{how}{late}"


def _fit(count: int) -> str:
    return "fits" if count == 1 else "fit"


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _one_node(told: Plain) -> Iterator[str]:
    node = told["node"]
    name = plain(node["name"])
    if node["rank"] is not None:
        yield f"\n{name} fits, in place {node['rank']} of {told['eligible_count']}"
    elif not node["reasons"]:
        yield f"\n{name} fits"
    else:
        yield from _section(f"{name} does not fit", [[plain(reason["text"])] for reason in node["reasons"]])


def _totals(told: Plain, most: int | None) -> list[list[str]]:
    rows: list[list[str]] = []
    for total in told["totals"][:most]:
        more = total["count"] - len(total["names"])
        names = ", ".join(map(plain, total["names"])) + (f" and {more} more" if more else "")
        rows.append([plain(total["text"]), str(total["count"]), names])
    return rows


def _near_misses(told: Plain, most: int | None) -> list[list[str]]:
    never = told["verdict"] == "infeasible"
    rows: list[list[str]] = []
    for miss in told["near_misses"][:most]:
        advice = _ADVICE.get(miss["kind"], "").format(name=plain(miss["name"]))
        # What nobody has is not worth waiting for.
        advice = _ASK_LESS if never and advice == _WAIT else advice
        rows.append([plain(miss["name"]), plain(miss["text"]) + (f" ({advice})" if advice else "")])
    return rows


def _eligible(told: Plain) -> list[list[str]]:
    rows: list[list[str]] = []
    scored = any(node["fit_score"] is not None for node in told["eligible"])
    for place, node in enumerate(told["eligible"], 1):
        notes = [node["tier"]] if node["tier"] != "fresh" else []
        notes += ["here"] if node["is_local"] else []
        score = [f"score {node['fit_score']}"] if scored else []
        rows.append([str(place), plain(node["name"]), *score, plain(", ".join(notes))])
    more = told["eligible_count"] - len(rows)
    return [*rows, ["", f"and {more} more", *[""] * (len(rows[0]) - 2)]] if more > 0 and rows else rows


def _excluded(told: Plain) -> list[list[str]]:
    rows = [[plain(node["name"]), plain(reason["text"])] for node in told["excluded"] for reason in node["reasons"]]
    more = told["excluded_count"] - len(told["excluded"])
    return [*rows, ["", f"and {more} more, or gone"]] if more > 0 and rows else rows


def _section(title: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"\n{title}"
        yield from (f"  {line}" for line in aligned(rows))


def _seconds(age: float) -> str:
    return f"{age:.1f}" if age < 10 else f"{age:.0f}"

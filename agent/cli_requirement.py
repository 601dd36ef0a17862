"""A requirement that does not parse, shown with a mark under the place."""

from __future__ import annotations

from .errors import BadRequirement

# Longer requirements are cut around the column of an error.
_SHOWN_CHARACTERS = 100


def pointed(error: BadRequirement, text: str) -> BadRequirement:
    """The error with the text and a caret under the column."""
    column = error.details.get("column")
    if not isinstance(column, int):
        return error
    place = min(max(column - 1, 0), len(text))
    start = max(0, min(place - _SHOWN_CHARACTERS // 2, len(text) - _SHOWN_CHARACTERS))
    line = "".join(c if c.isprintable() else " " for c in text[start : start + _SHOWN_CHARACTERS])
    message = f"column {column}: {error.message}\n  {line}\n  {' ' * (place - start)}^"
    return BadRequirement(message, hint=error.hint, column=column)

"""The nearest right name for a mistyped one: for keys, commands, calls and nodes alike."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Two typing mistakes in a short word still find it; an unrelated word does not.
_SIMILARITY = 0.6


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of `names`, or None when none is close. Imports late: only mistakes pay for it."""
    import difflib

    folded = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=_SIMILARITY)
    return folded[found[0]] if found else None

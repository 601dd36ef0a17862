"""What can go wrong in placement: always the caller's input, never a node's state."""

from __future__ import annotations

from ..capabilities.errors import shown


class PlacementError(ValueError):
    """The base of every error of this package; its text is what an operator reads."""


class TaskRefused(PlacementError):
    """A task, or a file or map that describes one, is not well formed.

    Args:
        field: The path of the offending field, such as `required_tools[2]`.
        wanted: What would have been right.
        got: What was there.
    """

    def __init__(self, field: str, wanted: str, got: object) -> None:
        super().__init__(f"{field}: wanted {wanted}, got {shown(got)}")
        self.field = field
        self.wanted = wanted
        self.got = got


class OptionRefused(TaskRefused):
    """An option of a call (count, spread, prefer, seed, ...) is out of range or contradicts another."""


class UnknownNode(PlacementError):
    """A call named a node that the view does not hold, or a name that several nodes share."""

    def __init__(self, wanted: str, nearest: str | None = None, matches: int = 0) -> None:
        if matches > 1:
            message = f"{matches} nodes are called {wanted!r}: give the node id"
        else:
            message = f"no node {wanted!r} in the view"
            if nearest is not None:
                message += f" (did you mean {nearest!r}?)"
        super().__init__(message)
        self.wanted = wanted
        self.nearest = nearest

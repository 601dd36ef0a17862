"""Taking one exception out of the groups that nurseries wrap it in."""

from typing import NoReturn, cast


def lone(error: BaseException) -> BaseException:
    """What groups of one hold at the end; a group of several stays."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        if len(group.exceptions) == 1:
            return lone(group.exceptions[0])
        return group
    return error


def raise_as_it_was(error: BaseException) -> NoReturn:
    """Raise, inside an `except` block, without a trace of the block in the error's context."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context

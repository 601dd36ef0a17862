"""A task as a file or standard input has it: a map of values that can be sent, or a refusal that names the place."""

from __future__ import annotations

from .cli_options import read_input
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# A file is small; more is a mistake, such as a model.
_FILE_BYTES = 1 << 20
# What frames carry; the agent knows closer bounds of each field.
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
_DATES = ("date", "datetime", "time")


def task_from(given: str) -> dict[str, Any]:
    """The fields of the task: a description alone, unless the word is `-` or names a file.

    Raises:
        UsageError: there is no such file, it is neither TOML nor JSON, or it holds what no field can be.
    """
    if not given.strip():
        # As of a variable that is not set: it must not mean all work, or none in particular.
        raise UsageError("the task is empty", hint="say what to run, or leave it out")
    if given == "-":
        return _parsed(read_input(_FILE_BYTES + 1), "standard input")
    if not given.endswith((".toml", ".json")):
        return {"description": given}
    try:
        with open(given, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs every command its import
            return _parsed(file.read(_FILE_BYTES + 1), given)
    except OSError as error:
        raise UsageError(f"the task file {given} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the task file {given} is no text") from None


def _parsed(text: str, where: str) -> dict[str, Any]:
    """JSON by its name, or when it begins as a map of JSON does, for no TOML does; else TOML."""
    if len(text) > _FILE_BYTES:
        raise UsageError(f"{where} is no task: it is longer than {_FILE_BYTES >> 20} MiB")
    is_json = where.endswith(".json") or text.lstrip()[:1] == "{"
    try:
        if is_json:
            import json

            task = json.loads(text)
        else:
            import tomllib

            task = tomllib.loads(text)
        unfit = next(_unfit(task, ""), None)
    except ValueError as error:
        raise UsageError(f"{where} is no {'JSON' if is_json else 'TOML'}: {error}") from None
    except RecursionError:
        raise UsageError(f"{where} is no task: its values are nested too deep") from None
    if not hasattr(task, "keys"):
        raise UsageError(f"{where} is no task: expected a map of fields")
    if not task:
        raise UsageError(f"{where} is no task: it is empty")
    if unfit is not None:
        raise UsageError(f"{where}: {unfit}")
    return task


def _unfit(value: Any, path: str) -> Iterator[str]:
    """What of a parsed value no message carries, each as its path and why."""
    kind = type(value).__name__
    if kind == "dict":
        for key, item in value.items():
            yield from _unfit_text(key, path)
            yield from _unfit(item, f"{path}.{key}" if path else key)
    elif kind == "list":
        for place, item in enumerate(value):
            yield from _unfit(item, f"{path}[{place}]")
    elif kind == "str":
        yield from _unfit_text(value, path)
    elif kind == "int" and not _INT_MIN <= value <= _INT_MAX:
        yield f"{path}: a number of more than 64 bits"
    elif kind in _DATES:
        yield f"{path}: a date or time, which no field takes; quote it to make it text"


def _unfit_text(text: str, path: str) -> Iterator[str]:
    """JSON has escapes for halves of characters."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        yield f"{path or 'a key'}: text that is not valid Unicode"

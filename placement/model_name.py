"""The model that a task description names, if it names one: flags first, then ollama commands, then tagged words.

Word characters and letters are ASCII here; white space is tab, line feed, form feed, carriage return and space.
"""

from __future__ import annotations

import re

from .text import trimmed

_FLAGS = re.ASCII | re.IGNORECASE
_SPACES = r"[\t\n\f\r ]+"
_NAME = r"(\w[\w.\-/:]*)\b"

_FLAG_VALUE = re.compile(rf"(?:--model|-m)(?:=|{_SPACES}){_NAME}", _FLAGS)
_OLLAMA_COMMAND = re.compile(rf"\bollama{_SPACES}(?:run|pull){_SPACES}{_NAME}", _FLAGS)
_TAGGED = re.compile(r"\b\w[\w.\-/]+(?::[^\t\n\f\r ]+)?\b", _FLAGS)
_LETTER = re.compile(r"[A-Za-z]")

_NEVER_A_MODEL = frozenset(
    ("true", "false", "null", "none", "cpu", "gpu", "cuda", "metal", "vulkan", "localhost", "127.0.0.1")
)

# Three slashes and more are a path or an address, not a model.
_MAX_SLASHES = 2


def extract_model_name(description: str) -> str:
    """The model name as it is written in the description, or "" when there is none.

    Of a flag and of an ollama command only the first hit counts; if that is no plausible name, the next rule is
    tried. Prose such as `and/or` or `host:8080` is returned: the caller only uses the name as part of a scope.
    """
    if not trimmed(description):
        return ""
    for pattern in (_FLAG_VALUE, _OLLAMA_COMMAND):
        hit = pattern.search(description)
        if hit is not None and _is_plausible(hit.group(1)):
            return hit.group(1)
    tokens = (hit.group(0) for hit in _TAGGED.finditer(description))
    return next((token for token in tokens if (":" in token or "/" in token) and _is_plausible(token)), "")


def _is_plausible(name: str) -> bool:
    return name.lower() not in _NEVER_A_MODEL and name.count("/") <= _MAX_SLASHES and _LETTER.search(name) is not None

"""How placement compares text: trimming and folding that do not depend on a locale or a Python version."""

from __future__ import annotations

import unicodedata

# White space as Unicode defines it. Python's own strip() also eats the four ASCII separators 1C-1F.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def trimmed(text: str) -> str:
    return text.strip(_SPACE)


def folded(text: str) -> str:
    """A scope field for comparison: trimmed and lower-cased."""
    return trimmed(text).lower()


def canonical(text: str) -> str:
    """Words of lower-case letters and digits, one space between them; everything else separates.

    Each character is lower-cased on its own, so the result has no context rules (a final sigma stays a sigma).
    """
    if text.isascii():
        characters = [character if character.isalnum() else " " for character in text.lower()]
    else:
        characters = [_simple(character) for character in text]
    return " ".join("".join(characters).split())


def _simple(character: str) -> str:
    lower = character.lower()[0]
    category = unicodedata.category(lower)
    return lower if category[0] == "L" or category == "Nd" else " "

"""Text that cannot move the cursor: names, labels and messages come from other machines."""

from __future__ import annotations


def printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)

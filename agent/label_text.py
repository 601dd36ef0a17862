"""The value of a label as people write it in a flag, a variable or an argument."""

from __future__ import annotations


def label_from_text(given: str) -> bool | int | str:
    """`true` and `false` are Bool, a decimal number is Int, anything else Str; quotes make a Str of any of them."""
    if given in ("true", "false"):
        return given == "true"
    digits = given[1:] if given[:1] in ("-", "+") else given
    if digits.isascii() and digits.isdigit() and len(digits) <= 19:
        return int(given)
    if len(given) >= 2 and given[0] == given[-1] == '"':
        return given[1:-1]
    return given

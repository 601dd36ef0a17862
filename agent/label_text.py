"""The value of a label as people write it in a flag, a variable or an argument.

It is what the requirement language takes the same text for (`capabilities.scanner` and `capabilities.amounts`), so that
what was set is found again; the rules stand here a second time because a client command must not pay for importing
that package. Where a bare word of that language would have to be quoted, as with a blank in it, this is a Str too.
"""

from __future__ import annotations

import re

_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
# An Int of 64 bits has 19 digits and a sign; longer ones are refused before they are converted.
_INT_CHARACTERS = 20
_PIECE = re.compile(r"[^\\]+|\\(?:([\"'\\nrt])|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_LAST_CHARACTER = 0x10FFFF
_QUOTES = ('"', "'")


class NoLabelText(ValueError):
    """The text says why it is no value of a label."""


def label_from_text(given: str) -> bool | int | str:
    """`true` and `false` are Bool, a whole number without leading zeros is Int, all else Str; quotes make any a Str.

    Raises:
        NoLabelText: a number of more than 64 bits, or a quoted text that does not end or has an unknown escape.
    """
    if given in ("true", "false"):
        return given == "true"
    if _INT.fullmatch(given):
        if len(given) > _INT_CHARACTERS or not _INT_MIN <= int(given) <= _INT_MAX:
            raise NoLabelText("a number of more than 64 bits; quote it to make it a Str")
        return int(given)
    return _unquoted(given) if given.startswith(_QUOTES) else given


def _unquoted(given: str) -> str:
    mark, parts, at = given[0], list[str](), 1
    end = len(given) - 1
    while at <= end and given[at] != mark:
        piece = _PIECE.match(given, at)
        if piece is None:
            raise NoLabelText('unknown escape; escapes are \\" \\\\ \\n \\r \\t \\u0000 \\U00000000')
        if piece[0][0] == "\\":
            parts.append(_escaped(piece))
            at = piece.end()
        else:
            text = piece[0].partition(mark)[0]
            parts.append(text)
            at += len(text)
    if at != end:
        raise NoLabelText("a quoted text without its end" if at > end else "more text after the closing quote")
    return "".join(parts)


def _escaped(piece: re.Match[str]) -> str:
    if piece[1]:
        return _ESCAPED.get(piece[1], piece[1])
    number = int(piece[2] or piece[3], 16)
    if number > _LAST_CHARACTER:
        raise NoLabelText("an escape beyond the last character of Unicode")
    return chr(number)

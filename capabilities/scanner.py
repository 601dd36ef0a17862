"""The words, values and marks of the written form, and the errors that point at a column of it."""

import re
from typing import NoReturn

from .amounts import UNITS
from .errors import RequirementSyntaxError, shown

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]*")
_OPERATOR = re.compile(r"[<>=!~:≥≤≠&]+")
_BARE = re.compile(r"[^\s,()\[\]|\"'<>=!*&][^\s,()\[\]|\"<>=!*&]*")
_PLAIN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_ESCAPE = re.compile(r"\\(?:([\"'\\nrt])|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
_LAST_CHARACTER = 0x10FFFF
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}

_OPERATORS = ("=", "!=", ">=", "<=")
_MEANT = {
    "==": "=", "===": "=", ":": "=", ":=": "=", "~": "=", "=~": "=", "~=": "=",
    ">": ">=", "=>": ">=", ">>": ">=", "≥": ">=", ">==": ">=",
    "<": "<=", "=<": "<=", "<<": "<=", "≤": "<=", "<==": "<=",
    "!": "!=", "<>": "!=", "=!": "!=", "!==": "!=", "≠": "!=",
}  # fmt: skip
_IN = re.compile(r"in[ \t\r\n]*\(")
_JOINED = "terms are joined by ','"


class Scanner:
    """A text and the place of the next character in it; every failure is a `RequirementSyntaxError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def quoted(self) -> str:
        start = self.at
        mark = self.text[start]
        parts: list[str] = []
        self.at += 1
        plain = _PLAIN[mark]
        while True:
            found = plain.match(self.text, self.at)
            if found is not None:
                parts.append(found[0])
                self.at = found.end()
            if self.at >= len(self.text):
                self.fail("a quoted text without its end", at=start)
            if self.text[self.at] == mark:
                self.at += 1
                return "".join(parts)
            parts.append(self.escape())

    def escape(self) -> str:
        found = _ESCAPE.match(self.text, self.at)
        number = int(found[2] or found[3], 16) if found is not None and not found[1] else 0
        if found is None or number > _LAST_CHARACTER:
            self.fail("unknown escape", hint='escapes are \\" \\\\ \\n \\r \\t \\u0000 \\U00000000')
        self.at = found.end()
        return _ESCAPED.get(found[1], found[1]) if found[1] else chr(number)

    def operator(self) -> str:
        """The operator that comes next, or "" when none does."""
        found = _OPERATOR.match(self.text, self.skip())
        if found is None:
            return ""
        if found[0] not in _OPERATORS:
            meant = _MEANT.get(found[0])
            hint = f"did you mean {meant!r}?" if meant else _JOINED if "&" in found[0] else "operators are = != >= <="
            self.fail(f"unknown operator {found[0][:8]!r}", hint=hint)
        self.at = found.end()
        return found[0]

    def take_in(self) -> bool:
        found = _IN.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found is not None

    def word(self, wanted: str) -> str:
        found = _WORD.match(self.text, self.skip())
        if found is None:
            self.unexpected(wanted)
        self.at = found.end()
        return found[0]

    def bare(self, wanted: str) -> str:
        found = _BARE.match(self.text, self.skip())
        if found is None:
            self.unexpected(wanted)
        self.at = found.end()
        return found[0]

    def skip(self) -> int:
        """Pass over blanks; the place of the next character."""
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1
        return self.at

    def peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        at = self.skip()
        return self.text[at : at + 1]

    def take(self, character: str) -> bool:
        if self.peek() != character:
            return False
        self.at += 1
        return True

    def expect(self, character: str, wanted: str) -> None:
        if not self.take(character):
            self.unexpected(wanted)

    def unexpected(self, wanted: str) -> NoReturn:
        found = self.peek()
        if not found:
            self.fail(f"wanted {wanted}, but the text ends")
        word = _WORD.match(self.text, self.at)
        what = word[0] if word is not None else found
        self.fail(f"wanted {wanted}, found {shown(what)}", hint=self._list_hint(what) or _hint(what))

    def _list_hint(self, found: str) -> str:
        """For a misspelt or incomplete `key in (a, b)`; the key stands before the place."""
        after = self.text[self.at + len(found) :].lstrip()
        if found == "in":
            return "a list stands in parentheses: in (a, b)"
        return "did you mean 'in'?" if found[0].isalpha() and after.startswith("(") else ""

    def fail(self, problem: str, *, at: int | None = None, hint: str = "") -> NoReturn:
        column = (self.at if at is None else at) + 1
        raise RequirementSyntaxError(text=self.text, column=column, problem=problem, hint=hint)


def _hint(found: str) -> str:
    """What was probably meant by something that cannot stand here."""
    if found == "|" or found.lower() == "or":
        return "put alternatives in parentheses: (a | b)"
    if found in UNITS:
        return "write the unit without a blank: 24GB"
    if found == "*":
        return "a count follows brackets: gpu[]*2"
    if found == ",":
        return "a ',' too many"
    if found == "&" or found[0].isalpha():
        return _JOINED
    return "a key begins with a letter" if found.isdigit() else ""

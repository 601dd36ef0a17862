"""The written form of a requirement, for the command line and the socket.

    requirement = [term *("," term)]
    term        = key | "!" key | "has(" key ")" | "lacks(" key ")" | key operator value
                | key "in" "(" value *("," value) ")"
                | "(" requirement *("|" requirement) ")"
                | kind "[" requirement ["," "same(" field ")"] "]" ["*" count]
    operator    = "=" | "!=" | ">=" | "<="
    value       = "true" | "false" | number | bare word | quoted text | "int(" number ")"

A bare key is `IsTrue`, because `gpu_nvidia=false` has the label but no GPU. What a number means depends on the label:
`24GB` for keys that end in `_mb`, `12.4` as 1204 for `cuda`, a Str for labels known as Str. Quoted text is always a
Str, `v5.15` after `>=` always a version. Time and memory are linear in the text.
"""

import re
from collections.abc import Callable

from .amounts import AmountError, read_bound, read_int, read_value
from .constraints import (
    MAX_DEPTH,
    AnyOf,
    Constraint,
    Devices,
    Equals,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
)
from .devices import DEVICE_FIELDS, MAX_COUNT
from .errors import RequirementError, RequirementSyntaxError, ValueRefused, shown
from .labels import Form, nearest
from .requirement import PlacementRequirement
from .scanner import Scanner
from .values import CapValue

# What a requirement of the greatest weight can need when every character is written as an escape; also the bound of a
# request on the socket.
MAX_TEXT = 1 << 20

_SAME = re.compile(r"same[ \t\r\n]*\(")
_COUNT = re.compile(r"[0-9]+")
_COUNT_DIGITS = len(str(MAX_COUNT))
_FUNCTIONS = {"has": HasLabel, "lacks": LacksLabel}


def parse_requirement(text: str) -> PlacementRequirement:
    """The requirement that the text says. Raises `RequirementSyntaxError`, which knows the column."""
    if type(text) is not str or len(text) > MAX_TEXT:
        raise RequirementSyntaxError("", 1, f"wanted a text of at most {MAX_TEXT} characters")
    return _Parser(text).requirement()


class _Parser(Scanner):
    """Recursive descent over the text."""

    def requirement(self) -> PlacementRequirement:
        terms: list[Constraint] = []
        if self.peek():
            terms = self.terms(depth=0, in_device=False)
        if self.peek():
            self.unexpected("',' or the end")
        try:
            return PlacementRequirement(terms)
        except RequirementError as error:
            self.fail(str(error), at=0)

    def terms(self, *, depth: int, in_device: bool) -> list[Constraint]:
        found = [self.term(depth=depth, in_device=in_device)]
        while self.take(","):
            found.append(self.term(depth=depth, in_device=in_device))
        return found

    def term(self, *, depth: int, in_device: bool) -> Constraint:
        first = self.peek()
        start = self.at
        if first == "(":
            return self.any_of(depth=depth + 1, in_device=in_device)
        if first == "!":
            return self.negated(in_device=in_device)
        word = self.word("a term")
        following = self.peek()
        if following == "(":
            return self.function(word, start, in_device=in_device)
        if following == "[":
            return self.devices(word, start, depth=depth, in_device=in_device)
        self.check_field(word, start, in_device=in_device)
        operator = self.operator()
        if operator:
            return self.compared(word, operator, start, in_device=in_device)
        if self.take_in():
            return self.one_of(word, start, in_device=in_device)
        return self.build(start, lambda: IsTrue(word))

    def negated(self, *, in_device: bool) -> Constraint:
        start = self.at
        self.at += 1
        word_at = self.skip()
        word = self.word("a key after '!'")
        if self.peek() == "(":
            hint = "write lacks(key)" if word == "has" else "write has(key)" if word == "lacks" else ""
            self.fail("'!' stands before a key only", at=start, hint=hint)
        self.check_field(word, word_at, in_device=in_device)
        return self.build(word_at, lambda: IsFalse(word))

    def any_of(self, *, depth: int, in_device: bool) -> Constraint:
        start = self.at
        if depth > MAX_DEPTH:
            self.fail(f"parentheses nest deeper than {MAX_DEPTH}")
        self.at += 1
        alternatives = [self.terms(depth=depth, in_device=in_device)]
        while self.take("|"):
            alternatives.append(self.terms(depth=depth, in_device=in_device))
        self.expect(")", "',', '|' or ')'")
        return self.build(start, lambda: AnyOf(alternatives))

    def function(self, name: str, start: int, *, in_device: bool) -> Constraint:
        maker = _FUNCTIONS.get(name)
        if maker is None:
            meant = nearest(name, [*_FUNCTIONS, "same"] if in_device else _FUNCTIONS)
            hint = f"did you mean {meant}(...)?" if meant else f"for a list of values write {name} in (a, b)"
            self.fail(f"unknown function {name}", at=start, hint=hint)
        self.at += 1
        key_at = self.skip()
        key = self.word("a key")
        self.check_field(key, key_at, in_device=in_device)
        self.expect(")", "')'")
        return self.build(key_at, lambda: maker(key))

    def devices(self, kind: str, start: int, *, depth: int, in_device: bool) -> Constraint:
        if in_device:
            self.fail("a device term cannot stand inside another one", at=start)
        self.at += 1
        where: list[Constraint] = []
        same: str | None = None
        while self.peek() != "]":
            together = self.same_field()
            if together is None:
                where.append(self.term(depth=depth, in_device=True))
            elif same is None:
                same = together
            else:
                self.fail("same(...) stands once")
            if not self.take(","):
                break
            if self.peek() == "]":
                self.unexpected("a term")
        self.expect("]", "',' or ']'")
        count = self.count()
        return self.build(start, lambda: Devices(kind, count, where, same))

    def same_field(self) -> str | None:
        """The field of `same(field)` when that comes next."""
        found = _SAME.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        field_at = self.skip()
        field = self.word("a field")
        self.check_field(field, field_at, in_device=True)
        self.expect(")", "')'")
        return field

    def count(self) -> int:
        if not self.take("*"):
            return 1
        self.skip()
        found = _COUNT.match(self.text, self.at)
        if found is None:
            self.unexpected("a number of devices")
        if len(found[0]) > _COUNT_DIGITS or not 1 <= int(found[0]) <= MAX_COUNT:
            self.fail(f"a number of devices is from 1 to {MAX_COUNT}")
        self.at = found.end()
        return int(found[0])

    def compared(self, key: str, operator: str, start: int, *, in_device: bool) -> Constraint:
        if operator in ("=", "!="):
            maker = Equals if operator == "=" else NotEquals
            value = self.value(key, in_device=in_device)
            return self.build(start, lambda: maker(key, value))
        bound = self.bound(key, operator, in_device=in_device)
        if type(bound) is str:
            return self.build(start, lambda: MinVersion(key, bound))
        limit = MinInt if operator == ">=" else MaxInt
        return self.build(start, lambda: limit(key, int(bound)))

    def one_of(self, key: str, start: int, *, in_device: bool) -> Constraint:
        values = [self.value(key, in_device=in_device)]
        while self.take(","):
            values.append(self.value(key, in_device=in_device))
        self.expect(")", "',' or ')'")
        return self.build(start, lambda: OneOf(key, values))

    def value(self, key: str, *, in_device: bool) -> CapValue:
        if self.peek() in ('"', "'"):
            return self.quoted()
        start = self.at
        raw = self.bare("a value")
        if raw == "int" and self.take("("):
            return self.plain_int()
        try:
            return read_value(key, raw, in_device=in_device)
        except AmountError as error:
            self.fail(error.problem, at=start, hint=error.hint)

    def bound(self, key: str, operator: str, *, in_device: bool) -> int | str:
        if self.peek() in ('"', "'"):
            self.fail(f"{key}{operator} wants a number, not quoted text", hint="leave the quotes out")
        start = self.at
        raw = self.bare("a number")
        if raw == "int" and self.take("("):
            return self.plain_int()
        try:
            return read_bound(key, raw, operator, in_device=in_device)
        except AmountError as error:
            self.fail(error.problem, at=start, hint=error.hint)

    def plain_int(self) -> int:
        start = self.skip()
        raw = self.bare("a number")
        try:
            number = read_int("int", raw, Form.PLAIN)
        except AmountError as error:
            self.fail(error.problem, at=start)
        if number is None:
            self.fail("wanted a whole number", at=start)
        self.expect(")", "')'")
        return number

    def check_field(self, key: str, at: int, *, in_device: bool) -> None:
        if in_device and key not in DEVICE_FIELDS:
            meant = nearest(key, DEVICE_FIELDS)
            hint = f"did you mean {meant}?" if meant else "fields are " + ", ".join(DEVICE_FIELDS)
            self.fail(f"a device has no field {shown(key)}", at=at, hint=hint)

    def build(self, at: int, make: Callable[[], Constraint]) -> Constraint:
        """The term, with a refused value or structure told at its column."""
        try:
            return make()
        except (ValueRefused, RequirementError) as error:
            self.fail(str(error), at=at)

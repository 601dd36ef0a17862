"""Shapes of plain values: what an answer must look like before anybody reads it.

Whatever fits a shape has in each place a value that the shape names. What no shape describes must still be plain:
text, numbers, booleans, null, lists and maps by text, within `DEPTH`; then it can be shown and written as JSON.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    class Shape(Protocol):
        """What a value may be."""

        def check(self, value: Any) -> None:
            """Raises NoFit."""
            ...


# Far more than any answer nests; JSON and recursion stay far below their limits.
DEPTH = 24
_SCALARS = (str, int, bool, type(None))


class NoFit(ValueError):
    """A value is not what was expected; `path` leads to it and `wanted` says what was."""

    def __init__(self, wanted: str, got: object) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.got = "nothing" if got is ABSENT else "null" if got is None else type(got).__name__
        self.path = ""

    def within(self, step: str) -> NoFit:
        self.path = f"{step}{'.' if self.path and self.path[0] != '[' else ''}{self.path}"
        return self


ABSENT = object()


class OfType:
    """A value of one of the types, and of none that is derived from them: a boolean is no number."""

    def __init__(self, wanted: str, *kinds: type) -> None:
        self._wanted = wanted
        self._kinds = kinds

    def check(self, value: Any) -> None:
        if type(value) not in self._kinds:
            raise NoFit(self._wanted, value)


class Where:
    """What fits the shape, and for which `holds`."""

    def __init__(self, shape: Shape, holds: Callable[[Any], object], wanted: str) -> None:
        self._shape = shape
        self._holds = holds
        self._wanted = wanted

    def check(self, value: Any) -> None:
        self._shape.check(value)
        if not self._holds(value):
            raise NoFit(self._wanted, value)


class Either:
    """What fits one of the shapes; of values that fit none the last one says why."""

    def __init__(self, *shapes: Shape) -> None:
        self._others = shapes[:-1]
        self._last = shapes[-1]

    def check(self, value: Any) -> None:
        for shape in self._others:
            try:
                return shape.check(value)
            except NoFit:
                continue
        return self._last.check(value)


class ListOf:
    """A list of what fits the shape."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def check(self, value: Any) -> None:
        if not _is(value, list):
            raise NoFit("a list", value)
        for place, item in enumerate(value):
            try:
                self._shape.check(item)
            except NoFit as error:
                raise error.within(f"[{place}]") from None


class MapOf:
    """A map from any text."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def check(self, value: Any) -> None:
        for key, item in _items(value):
            try:
                self._shape.check(item)
            except NoFit as error:
                raise error.within(key) from None


class Fields:
    """A map that has the fields of `must`, and perhaps those of `may`; the shape of others is not known here."""

    def __init__(self, must: Mapping[str, Shape], may: Mapping[str, Shape] | None = None) -> None:
        self.must = dict(must)
        self.may = dict(may or {})

    def also(self, must: Mapping[str, Shape] | None = None, may: Mapping[str, Shape] | None = None) -> Fields:
        return Fields({**self.must, **(must or {})}, {**self.may, **(may or {})})

    def check(self, value: Any) -> None:
        for key, item in _items(value):
            try:
                (self.must.get(key) or self.may.get(key) or PLAIN).check(item)
            except NoFit as error:
                raise error.within(key) from None
        for key in self.must:
            if key not in value:
                raise NoFit("something", ABSENT).within(key)


class Plain:
    """Anything that no shape describes."""

    def check(self, value: Any) -> None:
        self._look(value, DEPTH)

    def _look(self, value: Any, depth: int) -> None:
        if type(value) in _SCALARS:
            return
        if _is(value, float):
            NUMBER.check(value)
        elif depth == 0:
            raise NoFit(f"at most {DEPTH} levels", value)
        elif _is(value, list):
            for item in value:
                self._look(item, depth - 1)
        else:
            for _, item in _items(value):
                self._look(item, depth - 1)


def _is(value: Any, kind: type) -> bool:
    return type(value) is kind


def _items(value: Any) -> Any:
    if not _is(value, dict):
        raise NoFit("a map", value)
    for key in value:
        if type(key) is not str:
            raise NoFit("a map by text", key)
    return value.items()


def one_of(*texts: str) -> Where:
    return Where(TEXT, texts.__contains__, f"one of {', '.join(texts)}")


TEXT = OfType("text", str)
FLAG = OfType("true or false", bool)
INT = OfType("a whole number", int)
COUNT = Where(INT, lambda value: value >= 0, "a whole number from 0")
NOTHING = OfType("null", type(None))
# Infinity and what is no number have no form in JSON.
NUMBER = Where(OfType("a number", int, float), lambda value: value - value == 0, "a finite number")
SCALAR = OfType("text, a whole number, true or false", str, int, bool)
PLAIN = Plain()

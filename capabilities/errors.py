"""Every error of this package: one base, typed children, each naming the place and the nearest right thing."""

import reprlib

import attrs

# A refused value is shown so that its owner recognises it, never echoed whole into a log.
SHOWN_CHARACTERS = 80
# More terms than these tell nobody more about why they clash.
SHOWN_TERMS = 6
# Longer numbers are told by their length: Python refuses to write them in decimal.
_SHOWN_BITS = 256
# A value may be nested deeper than Python's own `repr` can go.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = SHOWN_CHARACTERS


def shown(value: object) -> str:
    """The value as it is written in Python, cut to a length that a log line bears."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    text = repr(value[: SHOWN_CHARACTERS + 1]) if isinstance(value, (str, bytes)) else _REPR.repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


class CapabilityError(Exception):
    """Base of everything that this package raises for bad input; never raised itself."""


@attrs.define
class ValueRefused(CapabilityError):
    """A key, label value or device field that is not one; nothing was made or changed."""

    path: str
    wanted: str
    got: object

    def __str__(self) -> str:
        return f"{self.path}: wanted {self.wanted}, got {shown(self.got)}"


@attrs.define
class RecordError(CapabilityError):
    """Bytes that are no record, or a record too big to send; `path` is the place inside the record."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class RequirementError(CapabilityError):
    """A requirement that cannot be built, decoded or meant; the message says which term."""


@attrs.define
class RequirementWireError(RequirementError):
    """A requirement's list form that is not one; `path` is the place inside it."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@attrs.define
class ContradictionError(RequirementError):
    """Terms that no record can ever satisfy together; `terms` are their text forms."""

    terms: tuple[str, ...]

    def __str__(self) -> str:
        more = len(self.terms) - SHOWN_TERMS
        named = " and ".join(self.terms[:SHOWN_TERMS]) + (f" and {more} more terms" if more > 0 else "")
        return f"nothing can satisfy {named} together"


@attrs.define
class RequirementSyntaxError(RequirementError):
    """Text that is no requirement. `column` counts characters from 1; `hint` is "" or the nearest right thing."""

    text: str
    column: int
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        return f"column {self.column}: {self.problem}" + (f"; {self.hint}" if self.hint else "")

import enum

import pytest
from shoal.capabilities.errors import CapabilityError, ValueRefused, shown
from shoal.capabilities.values import (
    INT_MAX,
    INT_MIN,
    KEY_CHARACTERS,
    STR_BYTES,
    Kind,
    check_key,
    check_value,
    kind_of,
    same,
    typed,
)


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize("value", [True, False, 0, 1, -1, INT_MIN, INT_MAX, "", "x", "é" * (STR_BYTES // 2)])
def test_a_legal_value_is_returned_as_it_is(value):
    assert check_value(value) is value


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.0,
        b"x",
        [],
        INT_MAX + 1,
        INT_MIN - 1,
        "x" * (STR_BYTES + 1),
        "é" * (STR_BYTES // 2 + 1),
        "\ud800",
        Colour.RED,
    ],
)
def test_anything_else_is_refused_with_its_place(value):
    with pytest.raises(ValueRefused) as refused:
        check_value(value, "labels.x")
    assert refused.value.path == "labels.x"
    assert str(refused.value).startswith("labels.x: wanted ")


@pytest.mark.parametrize("key", ["a", "A", "cpu_count", "feature.node/x-y.Z", "a" * KEY_CHARACTERS])
def test_keys(key):
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "1a", "_a", "a b", "a=b", "ä", "a\n", "a" * (KEY_CHARACTERS + 1), 5, None, True])
def test_what_is_no_key(key):
    with pytest.raises(CapabilityError):
        check_key(key)


def test_true_and_one_and_its_text_are_three_values():
    values = [True, 1, "1"]
    assert [[same(left, right) for left in values] for right in values] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
    assert len({typed(value) for value in values}) == 3
    assert [kind_of(value) for value in values] == [Kind.BOOL, Kind.INT, Kind.STR]


def test_a_refused_value_is_shown_short():
    assert len(shown("x" * 10**6)) < 100
    assert len(shown(list(range(10**4)))) < 100


def test_any_value_can_be_shown():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert len(shown(deep)) < 100
    assert shown(10**5000) == "a number of 16610 bits"
    assert len(shown("x" * 10**6)) < 100

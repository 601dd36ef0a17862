import pytest
from shoal.agent.shapes import (
    COUNT,
    DEPTH,
    FLAG,
    INT,
    NOTHING,
    NUMBER,
    PLAIN,
    SCALAR,
    TEXT,
    Either,
    Fields,
    ListOf,
    MapOf,
    NoFit,
    Where,
    one_of,
)

NESTED = Fields({"nodes": ListOf(Fields({"name": TEXT}, {"labels": MapOf(SCALAR)}))})


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("shape", "fits", "others"),
    [
        (TEXT, ["", "x"], [5, b"x", None]),
        (INT, [0, -(2**63)], [True, 1.0, "1"]),
        (COUNT, [0], [-1, True]),
        (FLAG, [True], [1, None]),
        (NUMBER, [1, 1.5], [True, float("nan"), float("inf"), "1"]),
        (SCALAR, ["x", 1, False], [1.5, None, []]),
        (Either(NOTHING, INT), [None, 1], ["x"]),
        (ListOf(INT), [[], [1, 2]], [{}, "ab", [1, "x"], None]),
        (MapOf(INT), [{}, {"a": 1}], [[], {"a": "x"}, {b"a": 1}]),
        (one_of("run", "failure"), ["run"], ["runs", 5, []]),
        (Where(ListOf(INT), len, "some"), [[1]], [[], ["x"]]),
        (
            NESTED,
            [{"nodes": []}, {"nodes": [{"name": "n", "labels": {"a": 1}, "new": [None]}], "more": {"x": 1.5}}],
            [{}, 5],
        ),
        (
            PLAIN,
            [None, {"a": [1, "x", None, {"b": 0.5}]}, nested(DEPTH - 1)],
            [b"x", [b"x"], {1: 2}, nested(DEPTH + 1), [float("nan")]],
        ),
    ],
)
def test_what_fits_and_what_does_not(shape, fits, others):
    for value in fits:
        shape.check(value)
    for value in others:
        with pytest.raises(NoFit):
            shape.check(value)


@pytest.mark.parametrize(
    ("value", "path", "wanted", "got"),
    [
        (5, "", "a map", "int"),
        ({}, "nodes", "something", "nothing"),
        ({"nodes": None}, "nodes", "a list", "null"),
        ({"nodes": [{"name": "a"}, {"name": 5}]}, "nodes[1].name", "text", "int"),
        (
            {"nodes": [{"name": "a", "labels": {"x": []}}]},
            "nodes[0].labels.x",
            "text, a whole number, true or false",
            "list",
        ),
        ({"nodes": [5]}, "nodes[0]", "a map", "int"),
    ],
)
def test_the_refusal_leads_to_the_place(value, path, wanted, got):
    with pytest.raises(NoFit) as caught:
        NESTED.check(value)
    assert (caught.value.path, caught.value.wanted, caught.value.got) == (path, wanted, got)

import pytest
from shoal.capabilities.constraints import (
    MAX_DEPTH,
    AnyOf,
    Devices,
    Equals,
    FailKind,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NotEquals,
    OneOf,
    device_terms,
    parse_version,
    weight,
)
from shoal.capabilities.errors import RequirementError, ValueRefused

FACTS = {
    "yes": True,
    "no": False,
    "zero": 0,
    "one": 1,
    "many": 8000,
    "text": "db",
    "empty": "",
    "version": "v1.21.5-rc1",
}


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (Equals("text", "db"), None),
        (Equals("text", "web"), "value"),
        (Equals("text", 1), "type"),
        (Equals("one", True), "type"),
        (Equals("one", "1"), "type"),
        (Equals("yes", 1), "type"),
        (Equals("none", 1), "missing"),
        (NotEquals("text", "web"), None),
        (NotEquals("text", "db"), "value"),
        (NotEquals("text", 1), "type"),
        (NotEquals("yes", 0), "type"),
        (NotEquals("none", "db"), "missing"),
        (MinInt("many", 8000), None),
        (MinInt("many", 8001), "value"),
        (MinInt("yes", 0), "type"),
        (MinInt("text", 0), "type"),
        (MinInt("none", 0), "missing"),
        (MaxInt("many", 8000), None),
        (MaxInt("many", 7999), "value"),
        (MaxInt("no", 5), "type"),
        (MaxInt("none", 5), "missing"),
        (HasLabel("no"), None),
        (HasLabel("empty"), None),
        (HasLabel("none"), "missing"),
        (LacksLabel("none"), None),
        (LacksLabel("no"), "value"),
        (IsTrue("yes"), None),
        (IsTrue("one"), None),
        (IsTrue("text"), None),
        (IsTrue("no"), "false"),
        (IsTrue("zero"), "false"),
        (IsTrue("empty"), "false"),
        (IsTrue("none"), "missing"),
        (IsFalse("no"), None),
        (IsFalse("zero"), None),
        (IsFalse("empty"), None),
        (IsFalse("none"), None),
        (IsFalse("yes"), "value"),
        (IsFalse("text"), "value"),
        (OneOf("text", ["web", "db"]), None),
        (OneOf("text", ["web", 1]), "value"),
        (OneOf("one", [True, "1"]), "type"),
        (OneOf("none", ["db"]), "missing"),
        (MinVersion("version", "1.21"), None),
        (MinVersion("version", "1.21.5.0"), None),
        (MinVersion("version", "1.21.6"), "version"),
        (MinVersion("version", "1.3"), None),
        (MinVersion("text", "1"), "version"),
        (MinVersion("one", "1"), "type"),
        (MinVersion("none", "1"), "missing"),
        (AnyOf([[Equals("text", "web")], [IsTrue("yes"), MinInt("many", 1)]]), None),
        (AnyOf([[Equals("text", "web")], [IsTrue("yes"), MinInt("many", 9000)]]), "alternatives"),
    ],
)
def test_each_term_tells_whether_it_holds_and_why_not(term, kind):
    assert term.fault(FACTS) == kind


def test_is_false_is_the_exact_negation_of_is_true():
    for key in [*FACTS, "none"]:
        assert (IsTrue(key).fault(FACTS) is None) is not (IsFalse(key).fault(FACTS) is None)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.21", (1, 21)),
        ("v5.15.0", (5, 15)),
        ("5.15.153.1-microsoft-standard-WSL2", (5, 15, 153, 1)),
        ("6.12.13_1", (6, 12, 13)),
        ("0", (0,)),
        ("0.0", (0,)),
        ("1.", (1,)),
        ("24H2", (24,)),
        ("x1", None),
        ("", None),
        ("٣.٤", None),
    ],
)
def test_versions(text, numbers):
    assert parse_version(text) == numbers


def test_terms_that_differ_in_type_only_are_not_equal():
    assert Equals("a", 1) != Equals("a", True)
    assert NotEquals("a", 1) != NotEquals("a", "1")
    assert OneOf("a", [1, 2]) != OneOf("a", [True, 2])
    assert len({Equals("a", 1), Equals("a", True), Equals("a", 1)}) == 2


def test_repeated_values_stand_once():
    assert OneOf("a", ["x", "y", "x", 1, True]).values == ("x", "y", 1, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Equals("1a", 1),
        lambda: Equals("a", 1.5),
        lambda: MinInt("a", True),
        lambda: MinInt("a", "5"),
        lambda: MaxInt("a", 2**63),
        lambda: MinVersion("a", "1.x"),
        lambda: MinVersion("a", ""),
        lambda: MinVersion("a", 1),
        lambda: OneOf("a", "text"),
        lambda: OneOf("a", [None]),
        lambda: Devices("Gpu"),
        lambda: Devices("gpu", 0),
        lambda: Devices("gpu", True),
        lambda: Devices("gpu", same="count"),
        lambda: Devices("gpu", same=5),
    ],
)
def test_illegal_arguments_are_refused(make):
    with pytest.raises(ValueRefused):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneOf("a", []), "at least one value"),
        (lambda: AnyOf([]), "at least one alternative"),
        (lambda: AnyOf([[IsTrue("a")], []]), "each at least one term"),
        (lambda: Devices("gpu", where=[Devices("gpu")]), "inside another"),
        (lambda: Devices("gpu", where=[AnyOf([[Devices("gpu")]])]), "inside another"),
        (lambda: Devices("gpu", where=[MinInt("vram", 1)]), "did you mean vram_mb?"),
        (lambda: Devices("gpu", where=[AnyOf([[IsTrue("region")]])]), "a device has vendor, model"),
    ],
)
def test_illegal_structure_is_refused(make, message):
    with pytest.raises(RequirementError, match=message.replace("?", r"\?")):
        make()


def test_alternatives_nest_only_so_deep():
    term = IsTrue("a")
    for _ in range(MAX_DEPTH):
        term = AnyOf([[term]])
    with pytest.raises(RequirementError, match="deeper"):
        AnyOf([[term]])


def test_weight_and_device_terms_count_what_is_inside():
    gpu = Devices("gpu", 2, [MinInt("vram_mb", 1), OneOf("numa", [0, 1])])
    term = AnyOf([[gpu, IsTrue("a")], [AnyOf([[gpu]])]])
    assert weight(gpu) == 5
    assert weight(term) == 1 + 5 + 1 + 1 + 5
    assert [device_terms(one) for one in (gpu, term, IsTrue("a"))] == [1, 2, 0]


def test_kinds_are_plain_text_for_json():
    assert f"{FailKind.DEVICE_COUNT}" == "device_count"

import pytest
from shoal.capabilities import DeviceGroup, NodeCapabilities, PlacementRequirement, review
from shoal.capabilities.constraints import AnyOf, IsTrue, NotEquals
from shoal.capabilities.errors import ContradictionError, RequirementError
from shoal.capabilities.matching import MAX_DEVICE_TERMS
from shoal.capabilities.requirement import MAX_WEIGHT
from shoal.capabilities.review import Slip
from shoal.capabilities.text import parse_requirement

NOTHING = PlacementRequirement()
GPU_BOX = NodeCapabilities(
    {"arch": "amd64", "gpu_nvidia": True, "gpu_vram_mb": 24564, "region": "us-east", "kernel": "6.8.0-45-generic"},
    [DeviceGroup(kind="gpu", vendor="nvidia", vram_mb=24564, count=2)],
)
PLAIN_BOX = NodeCapabilities({"arch": "arm64", "gpu_nvidia": False, "region": "eu"})


def failing(requirement, record):
    return [(one.term, one.key, one.op, one.wanted, one.actual, one.kind.value) for one in requirement.check(record)]


def test_satisfies_equals():
    assert GPU_BOX.satisfies(NOTHING.equals("region", "us-east"))
    assert not GPU_BOX.satisfies(NOTHING.equals("region", "eu"))
    assert not GPU_BOX.satisfies(NOTHING.equals("gpu_nvidia", 1))
    assert failing(NOTHING.equals("region", "eu"), GPU_BOX) == [(0, "region", "equals", "eu", "us-east", "value")]


def test_satisfies_min_int():
    assert GPU_BOX.satisfies(NOTHING.min_int("gpu_vram_mb", 24564))
    assert not GPU_BOX.satisfies(NOTHING.min_int("gpu_vram_mb", 24565))
    assert not GPU_BOX.satisfies(NOTHING.min_int("gpu_nvidia", 1))
    assert not PLAIN_BOX.satisfies(NOTHING.min_int("gpu_vram_mb", 0))


def test_satisfies_has_label():
    assert PLAIN_BOX.satisfies(NOTHING.has("gpu_nvidia"))
    assert not PLAIN_BOX.satisfies(NOTHING.has("gpu_vram_mb"))
    assert not PLAIN_BOX.satisfies(NOTHING.is_true("gpu_nvidia"))


def test_empty_requirement():
    assert NOTHING.is_empty()
    assert not NOTHING.has("a").is_empty()
    for record in (GPU_BOX, PLAIN_BOX, NodeCapabilities()):
        assert record.satisfies(NOTHING)
    assert NOTHING.satisfied_by(None)
    assert NOTHING.check(None) == ()
    assert str(NOTHING) == ""


def test_a_node_without_a_record_matches_nothing_else():
    requirement = NOTHING.lacks("rack").is_false("gpu_nvidia").any_of(NOTHING.has("a"))
    assert not requirement.satisfied_by(None)
    assert [kind for *_, kind in failing(requirement, None)] == ["missing"] * 3


def test_combined_constraints():
    requirement = NOTHING.is_true("gpu_nvidia").min_int("gpu_vram_mb", 8000).equals("region", "us-east")
    assert GPU_BOX.satisfies(requirement)
    assert not PLAIN_BOX.satisfies(requirement)
    assert not GPU_BOX.satisfies(requirement.equals("arch", "arm64"))


def test_all_failing_terms_are_told_in_order():
    requirement = (
        NOTHING.is_true("gpu_nvidia")
        .equals("arch", "arm64")
        .min_int("gpu_vram_mb", 8000)
        .max_int("region", 5)
        .min_version("kernel", "5.15")
        .one_of("region", ["us", "us-east"])
        .not_equals("region", "eu")
        .is_false("arch")
        .lacks("arch")
    )
    assert failing(requirement, PLAIN_BOX) == [
        (0, "gpu_nvidia", "is_true", None, False, "false"),
        (2, "gpu_vram_mb", "min_int", 8000, None, "missing"),
        (3, "region", "max_int", 5, "eu", "type"),
        (4, "kernel", "min_version", "5.15", None, "missing"),
        (5, "region", "one_of", ("us", "us-east"), "eu", "value"),
        (6, "region", "not_equals", "eu", "eu", "value"),
        (7, "arch", "is_false", None, "arm64", "value"),
        (8, "arch", "lacks", None, "arm64", "value"),
    ]


def test_failing_terms_as_a_map_for_the_socket():
    requirement = NOTHING.min_int("gpu_vram_mb", 30000).any_of(NOTHING.one_of("region", ["a", "b"]), NOTHING.has("x"))
    first, second = (one.as_map() for one in requirement.check(GPU_BOX))
    assert first == {
        "term": 0, "key": "gpu_vram_mb", "op": "min_int", "wanted": 30000, "actual": 24564, "kind": "value",
        "text": "gpu_vram_mb>=30000",
    }  # fmt: skip
    assert (second["op"], second["kind"], second["text"]) == ("any_of", "alternatives", "(region in (a, b) | has(x))")
    assert second["alternatives"][0][0]["wanted"] == ["a", "b"]
    assert second["alternatives"][1][0]["kind"] == "missing"


def test_building_leaves_the_old_requirement_alone():
    first = NOTHING.has("a")
    second = first.devices("gpu", 2, where=NOTHING.min_int("vram_mb", 100), same="model")
    assert (str(first), str(second)) == ("has(a)", "has(a), gpu[vram_mb>=100, same(model)]*2")
    assert NOTHING.has("a") == first
    assert hash(NOTHING.has("a")) == hash(first)


def test_there_are_limits():
    with pytest.raises(RequirementError, match=str(MAX_WEIGHT)):
        PlacementRequirement([IsTrue("a")] * (MAX_WEIGHT + 1))
    with pytest.raises(RequirementError, match="device terms"):
        PlacementRequirement([AnyOf([parse_requirement("gpu[]").constraints])] * (MAX_DEVICE_TERMS + 1))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a>=8, a<=4", ["a>=8", "a<=4"]),
        ("x, a>=8, y=1, a<=9, a<=4", ["a>=8", "a<=4"]),
        ("a=1, a=2", ["a=1", "a=2"]),
        ("a=1, a=true", ["a=1", "a=true"]),
        ("a=1, a!=1", ["a=1", "a!=1"]),
        ("a>=5, a=us", ["a>=5", "a=us"]),
        ("a>=5, a=4", ["a>=5", "a=4"]),
        ("a in (1, 2), a in (3, 4)", ["a in (1, 2)", "a in (3, 4)"]),
        ("a in (1, 2), a!=1, a!=2", ["a in (1, 2)", "a!=1", "a!=2"]),
        ("a, !a", ["a", "!a"]),
        ("has(a), lacks(a)", ["has(a)", "lacks(a)"]),
        ("a>=0, lacks(a)", ["a>=0", "lacks(a)"]),
        ("!a, a>=1", ["!a", "a>=1"]),
        ("a!=true, a!=false", ["a!=true", "a!=false"]),
        ("a>=v2.0, a=1.9", ["a>=v2.0", 'a="1.9"']),
        ("a>=1, a>=v1.0", ["a>=1", "a>=v1.0"]),
        ("a>=9223372036854775807, a!=9223372036854775807", ["a>=9223372036854775807", "a!=9223372036854775807"]),
        ("a>=3, a<=4, a!=3, a!=4", ["a>=3", "a<=4", "a!=3", "a!=4"]),
        ("cuda>=12.4, cuda<=11.8", ["cuda>=12.4", "cuda<=11.8"]),
        ("gpu[vram_mb>=24GB, vram_mb<=8GB]", ["vram_mb>=22888", "vram_mb<=7629"]),
        ("(b | a>=8, a<=4)", ["a>=8", "a<=4"]),
        ("((c | gpu[mig, !mig]) | d)", ["mig", "!mig"]),
        ("region=us, x, (region=eu | region=fr, y)", ["region=us", "(region=eu | region=fr, y)"]),
    ],
)
def test_contradictions_are_refused_with_the_terms_that_clash(text, terms):
    with pytest.raises(ContradictionError) as refused:
        parse_requirement(text).validate()
    assert list(refused.value.terms) == terms
    assert all(term in str(refused.value) for term in terms)


def test_a_long_contradiction_is_told_in_short():
    requirement = NOTHING.min_int("a", 1).max_int("a", 50).with_terms(*(NotEquals("a", one) for one in range(1, 51)))
    with pytest.raises(ContradictionError) as refused:
        requirement.validate()
    assert len(refused.value.terms) == 52
    assert "and 46 more terms" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a>=4, a<=4", "a>=4, a<=5, a!=4", "a, a!=1, a!=2", "!a, lacks(a)", "!a, a<=0", "!a, has(a)",
        "a in (1, 2), a!=1", "a!=x, a!=y", 'a>=v1, a!="1.0", a!="2"',
        "a<=-9223372036854775807, a!=-9223372036854775807",
        "region=us, (region=eu | zone=b)", "(a | !a)", "gpu[vram_mb>=1]*2, gpu[vram_mb<=5]", "a, a!=false",
        "a!=false, !b",
    ],
)  # fmt: skip
def test_what_some_record_could_satisfy_is_accepted(text):
    parse_requirement(text).validate()


def slips(text, *records):
    return [(one.slip, one.key, one.nearest) for one in review(parse_requirement(text), records)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu_nvidia, region=eu, gpu_vram_mb>=1", []),
        ("regoin=eu", [(Slip.UNKNOWN_KEY, "regoin", "region")]),
        ("!regoin", [(Slip.UNKNOWN_KEY, "regoin", "region")]),
        ("gpu_vram=1", [(Slip.UNKNOWN_KEY, "gpu_vram", "gpu_vram_mb")]),
        ("(zzz | region=eu)", [(Slip.UNKNOWN_KEY, "zzz", None)]),
        ("ram_available_mb>=1", [(Slip.NOT_A_LABEL, "ram_available_mb", None)]),
        ("region>=5", [(Slip.OTHER_TYPE, "region", None)]),
        ("region in (1, eu)", []),
        ("gpu_nvidia=yes", [(Slip.OTHER_TYPE, "gpu_nvidia", None)]),
        ("has(gpu_nvidia)", [(Slip.ALSO_FALSE, "gpu_nvidia", None)]),
        ("has(spot)", [(Slip.ALSO_FALSE, "spot", None)]),
        ("has(region), has(tool_git)", []),
        ("gpuu[]", [(Slip.UNKNOWN_DEVICE, "gpuu", "gpu")]),
        ("gpu[vram_mb=big, vendor=nvidia]", [(Slip.OTHER_TYPE, "gpu.vram_mb", None)]),
        ("regoin=eu, regoin=us", [(Slip.UNKNOWN_KEY, "regoin", "region")]),
    ],
)
def test_slips_are_warned_of(text, expected):
    other = NodeCapabilities({"spot": False, "tool_git": True})
    assert slips(text, GPU_BOX, PLAIN_BOX, other) == expected


def test_without_records_only_what_is_always_wrong_is_warned_of():
    assert slips("regoin=eu, gpu[]") == []
    assert slips("has(gpu_nvidia), load1_centi<=100") == [
        (Slip.ALSO_FALSE, "gpu_nvidia", None),
        (Slip.NOT_A_LABEL, "load1_centi", None),
    ]


def test_warnings_read_well():
    texts = [str(one) for one in review(parse_requirement("regoin=eu, region>=5"), [PLAIN_BOX])]
    assert texts == [
        "no known node has regoin; did you mean region?",
        "region is Str on every node that has it; region>=5 asks for Int",
    ]

"""Laws of requirements: the text and list forms round-trip, junk is a typed error, a term more never helps."""

import itertools

import msgpack
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shoal.capabilities import (
    AnyOf,
    CapabilityError,
    ContradictionError,
    DeviceGroup,
    Devices,
    Equals,
    HasLabel,
    IsFalse,
    IsTrue,
    LacksLabel,
    MaxInt,
    MinInt,
    MinVersion,
    NodeCapabilities,
    NotEquals,
    OneOf,
    PlacementRequirement,
    RequirementError,
    RequirementSyntaxError,
    parse_requirement,
    review,
)
from shoal.capabilities.devices import DEVICE_FIELDS
from shoal.capabilities.matching import serves

# Names of every written form, names that are words of the grammar, and one that nobody knows.
KEYS = st.sampled_from(
    ["a", "region", "cuda", "ram_mb", "rack_mb", "kernel", "gpu_nvidia", "cpu_count", "has", "in", "int", "x/y.z-1"]
) | st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-/]{0,20}", fullmatch=True)
INTS = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["true", "false", "1", "-1", "1.5", "v1.2", "24GB", "int", "int(5)", "us-east", "", " ", '"', "\\", "'", "a b", "é"]
)
VALUES = st.booleans() | INTS | TEXTS
VERSIONS = st.from_regex(r"v?[0-9]{1,4}(\.[0-9]{1,4}){0,4}", fullmatch=True)


def scalars(keys):
    return st.one_of(
        st.builds(Equals, keys, VALUES),
        st.builds(NotEquals, keys, VALUES),
        st.builds(MinInt, keys, INTS),
        st.builds(MaxInt, keys, INTS),
        st.builds(HasLabel, keys),
        st.builds(LacksLabel, keys),
        st.builds(IsTrue, keys),
        st.builds(IsFalse, keys),
        st.builds(OneOf, keys, st.lists(VALUES, min_size=1, max_size=4)),
        st.builds(MinVersion, keys, VERSIONS),
    )


def alternatives(terms):
    return st.builds(AnyOf, st.lists(st.lists(terms, min_size=1, max_size=3), min_size=1, max_size=3))


FIELDS = st.sampled_from(sorted(DEVICE_FIELDS))
WHERE = st.recursive(scalars(FIELDS), alternatives, max_leaves=4)
DEVICES = st.builds(
    Devices,
    st.sampled_from(["gpu", "npu", "has", "in"]),
    st.integers(1, 4),
    st.lists(WHERE, max_size=3),
    st.none() | FIELDS,
)
TERMS = st.recursive(scalars(KEYS) | DEVICES, alternatives, max_leaves=6)


@st.composite
def requirements(draw, terms=TERMS, max_size=5):
    try:
        return PlacementRequirement(draw(st.lists(terms, max_size=max_size)))
    except RequirementError:  # more device terms than a requirement may hold
        assume(False)


# A small world, so that requirements are met often enough.
NEAR_KEYS = st.sampled_from(["a", "b", "c"])
NEAR_VALUES = st.booleans() | st.integers(0, 2) | st.sampled_from(["", "1", "1.2", "x"])
NEAR_SCALARS = st.one_of(
    st.builds(Equals, NEAR_KEYS, NEAR_VALUES),
    st.builds(NotEquals, NEAR_KEYS, NEAR_VALUES),
    st.builds(MinInt, NEAR_KEYS, st.integers(0, 2)),
    st.builds(MaxInt, NEAR_KEYS, st.integers(0, 2)),
    st.builds(HasLabel, NEAR_KEYS),
    st.builds(LacksLabel, NEAR_KEYS),
    st.builds(IsTrue, NEAR_KEYS),
    st.builds(IsFalse, NEAR_KEYS),
    st.builds(OneOf, NEAR_KEYS, st.lists(NEAR_VALUES, min_size=1, max_size=3)),
    st.builds(MinVersion, NEAR_KEYS, st.sampled_from(["1", "1.2", "2"])),
)
NEAR_WHERE = st.sampled_from([MinInt("vram_mb", 1), MinInt("vram_mb", 2), Equals("model", "x"), HasLabel("numa")])
NEAR_DEVICES = st.builds(
    Devices,
    st.just("gpu"),
    st.integers(1, 3),
    st.lists(NEAR_WHERE, max_size=2),
    st.none() | st.sampled_from(["model", "numa", "vram_mb"]),
)
NEAR_TERMS = st.recursive(NEAR_SCALARS | NEAR_DEVICES, alternatives, max_leaves=4)
GROUPS = st.builds(
    DeviceGroup,
    kind=st.just("gpu"),
    model=st.none() | st.sampled_from(["x", "y"]),
    vram_mb=st.none() | st.integers(0, 2),
    numa=st.none() | st.integers(0, 1),
    count=st.integers(1, 3),
)
RECORDS = st.builds(NodeCapabilities, st.dictionaries(NEAR_KEYS, NEAR_VALUES), st.lists(GROUPS, max_size=4))


def attempt(make, refused):
    """What `make` gives, or None and the error of the one kind that it may raise."""
    try:
        return make(), None
    except refused as error:
        return None, error


@given(requirements())
def test_the_text_form_round_trips(requirement):
    assert parse_requirement(str(requirement)) == requirement


@given(requirements())
def test_the_list_form_round_trips_through_msgpack(requirement):
    assert PlacementRequirement.from_wire(msgpack.unpackb(msgpack.packb(requirement.to_wire()))) == requirement


TOKENS = st.sampled_from(
    [*",()[]|!*=<>\"'\\ ", ">=", "<=", "!=", "has", "lacks", "in", "same", "int", "gpu", "gpu[", "]*", "a", "cuda",
     "ram_mb", "vram_mb", "24GB", "1.5", "v5", "true", "9" * 30, "\\u12", "\n", "é", "\0"]
)  # fmt: skip


@given(st.text(max_size=60) | st.lists(TOKENS, max_size=25).map("".join))
def test_junk_text_is_a_requirement_or_a_syntax_error_inside_the_text(text):
    requirement, error = attempt(lambda: parse_requirement(text), RequirementSyntaxError)
    if error is not None:
        assert 1 <= error.column <= len(text) + 1
        assert str(error)
    else:
        assert parse_requirement(str(requirement)) == requirement


@given(requirements(), st.data())
def test_a_damaged_text_is_a_requirement_or_a_syntax_error(requirement, data):
    text = str(requirement)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(TOKENS) + text[at + data.draw(st.integers(0, 2)) :]
    _, error = attempt(lambda: parse_requirement(damaged), RequirementSyntaxError)
    assert error is None or 1 <= error.column <= len(damaged) + 1


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | INTS
    | st.floats()
    | TEXTS
    | st.binary(max_size=4)
    | st.sampled_from(["equals", "min_int", "one_of", "any_of", "devices", "has", "gpu", "a", "vram_mb"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=20,
)


@given(PLAIN)
def test_junk_lists_are_a_requirement_or_a_typed_error(value):
    requirement, error = attempt(lambda: PlacementRequirement.from_wire(value), RequirementError)
    assert str(error)
    assert error or PlacementRequirement.from_wire(requirement.to_wire()) == requirement


@given(requirements(NEAR_TERMS, 3), NEAR_TERMS, RECORDS)
def test_a_term_more_never_makes_a_failing_record_satisfy(requirement, term, record):
    try:
        more = requirement.with_terms(term)
    except RequirementError:
        assume(False)
    if not record.satisfies(requirement):
        assert not record.satisfies(more)


@given(requirements(NEAR_TERMS, 4), RECORDS)
def test_satisfies_is_that_the_list_of_failing_terms_is_empty(requirement, record):
    failing = requirement.check(record)
    assert record.satisfies(requirement) is (failing == ())
    for one in failing:
        assert one.constraint is requirement.constraints[one.term]
        assert one.as_map()["kind"] == one.kind
        assert all(one.alternatives)


@given(requirements(NEAR_TERMS, 4), RECORDS)
def test_what_a_record_satisfies_is_no_contradiction(requirement, record):
    if record.satisfies(requirement) and all(
        not isinstance(term, (AnyOf, Devices)) for term in requirement.constraints
    ):
        requirement.validate()


@given(st.lists(NEAR_SCALARS, max_size=5))
def test_a_contradiction_is_what_no_small_record_satisfies(terms):
    requirement = PlacementRequirement(terms)
    _, error = attempt(requirement.validate, ContradictionError)
    if error is None:
        return
    core = parse_requirement(", ".join(error.terms))
    for value in [None, False, True, *range(-1, 8), "", "x", "1", "1.2", "2", "2.5", "zz"]:
        for key in "abc":
            record = NodeCapabilities() if value is None else NodeCapabilities({key: value})
            assert not record.satisfies(core)


@given(requirements(), RECORDS)
def test_nothing_that_is_asked_of_a_requirement_raises_another_error(requirement, record):
    requirement.check(record)
    assert all(str(one) for one in review(requirement, [record]))
    _, error = attempt(requirement.validate, CapabilityError)
    assert str(error)


def assignable(demands, groups):
    """Every way of giving each demand its devices, one by one: slow and plainly right."""
    if not demands:
        return True
    first, *rest = demands
    free = [at for at, group in enumerate(groups) for _ in range(group.count)]
    for chosen in set(itertools.combinations(free, first.count)):
        picked = [groups[at] for at in chosen]
        good = all(
            group.kind == first.kind and all(term.fault(group.facts) is None for term in first.where)
            for group in picked
        )
        if first.same is not None:
            values = {group.facts.get(first.same) for group in picked}
            good = good and len(values) == 1 and None not in values
        if good and assignable(rest, _without(groups, chosen)):
            return True
    return False


def _without(groups, chosen):
    left = [group.count - chosen.count(at) for at, group in enumerate(groups)]
    return [
        DeviceGroup(kind=group.kind, model=group.model, vram_mb=group.vram_mb, numa=group.numa, count=count)
        for group, count in zip(groups, left, strict=True)
        if count
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(NEAR_DEVICES, min_size=1, max_size=3), st.lists(GROUPS, max_size=3))
def test_the_matching_agrees_with_trying_everything(demands, groups):
    assert serves(demands, groups) is assignable(demands, groups)


@pytest.mark.parametrize("name", sorted(DEVICE_FIELDS))
def test_every_device_field_can_be_asked_for(name):
    assert str(parse_requirement(f"gpu[{name}]")) == f"gpu[{name}]"

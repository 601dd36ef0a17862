import attrs
import pytest
from shoal.capabilities.devices import DeviceGroup, group_devices
from shoal.capabilities.errors import ValueRefused
from shoal.capabilities.matching import serves
from shoal.capabilities.record import NodeCapabilities
from shoal.capabilities.text import parse_requirement

T4 = DeviceGroup(kind="gpu", vendor="nvidia", model="t4", vram_mb=15360, compute=705)
A100 = DeviceGroup(kind="gpu", vendor="nvidia", model="a100-sxm4-80gb", vram_mb=81920, compute=800)
MIXED = NodeCapabilities(devices=[T4, A100, A100])


def matches(text, record=MIXED):
    return record.satisfies(parse_requirement(text))


def numa_box(*counts):
    return NodeCapabilities(devices=[attrs.evolve(A100, count=count, numa=node) for node, count in enumerate(counts)])


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "GPU"}, {"kind": ""}, {"kind": 5}, {"kind": "gpu", "count": 0}, {"kind": "gpu", "count": True},
        {"kind": "gpu", "vram_mb": -1}, {"kind": "gpu", "vram_mb": 1.5}, {"kind": "gpu", "mig": 1},
        {"kind": "gpu", "vendor": 7}, {"kind": "gpu", "model": "x" * 257}, {"kind": "gpu", "numa": "0"},
        {"kind": "gpu", "count": 65536},
    ],
)  # fmt: skip
def test_fields_are_typed(fields):
    with pytest.raises(ValueRefused):
        DeviceGroup(**fields)


def test_equal_devices_are_one_group_in_an_order_of_their_own():
    unknown = DeviceGroup(kind="gpu")
    npu = DeviceGroup(kind="npu")
    groups = group_devices([A100, npu, T4, unknown, A100])
    assert groups == group_devices([unknown, T4, attrs.evolve(A100, count=2), npu])
    assert [group.count for group in groups] == [1, 2, 1, 1]
    assert groups[0] == unknown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu[vram_mb>=24GB]*2", True),
        ("gpu[vram_mb>=24GB]*3", False),
        ("gpu[vram_mb>=80GB], gpu[vram_mb>=16GiB]*2", False),
        ("gpu[vram_mb>=80GB], gpu[vram_mb>=15GiB]*2", True),
        ("gpu[vram_mb>=80GB]*2, gpu[vram_mb>=15GiB]", True),
        ("gpu[vram_mb>=80GB]*2, gpu[vram_mb>=15GiB]*2", False),
        ("gpu[vram_mb>=15GiB]*2, gpu[vram_mb>=80GB]", True),
        ("gpu[]*3", True),
        ("gpu[]*4", False),
        ("gpu[], gpu[], gpu[]", True),
        ("gpu[], gpu[], gpu[], gpu[]", False),
        ("npu[]", False),
        ("gpu[model=t4], gpu[compute>=8.0]*2", True),
        ("gpu[compute>=8.0]*3", False),
        ("gpu[(model=t4 | model=a100-sxm4-80gb)]*3", True),
        ("gpu[has(numa)]", False),
        ("gpu[lacks(numa), !mig]*3", True),
        ("gpu[same(model)]*2", True),
        ("gpu[same(model)]*3", False),
        ("gpu[same(vendor)]*3", True),
        ("gpu[same(numa)]", False),
    ],
)
def test_devices_are_not_shared_between_terms(text, expected):
    requirement = parse_requirement(text)
    assert MIXED.satisfies(requirement) is expected
    assert (requirement.check(MIXED) == ()) is expected


def test_a_16_gb_card_is_smaller_than_16_gib():
    # The card of the contract's example has 15 GiB, which is a little more than 16 * 10^9 bytes.
    assert matches("gpu[vram_mb>=16GB]*3")
    assert not matches("gpu[vram_mb>=16GiB]*3")


def test_contract_example():
    assert matches("gpu[vram_mb>=24GB]*2")
    assert not matches("gpu[vram_mb>=24GB]*3")
    assert matches("gpu[vram_mb>=80GB], gpu[vram_mb>=16GB]*2")
    assert not matches("gpu[vram_mb>=80GB]*2, gpu[vram_mb>=16GB]*2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu[same(numa)]*4", True),
        ("gpu[same(numa)]*5", False),
        ("gpu[same(numa)]*4, gpu[same(numa)]*4", True),
        ("gpu[same(numa)]*4, gpu[same(numa)]*3, gpu[]", True),
        ("gpu[same(numa)]*3, gpu[same(numa)]*3, gpu[]*2", True),
        ("gpu[same(numa)]*3, gpu[same(numa)]*3, gpu[same(numa)]*2", False),
        ("gpu[]*5, gpu[same(numa)]*3", True),
        ("gpu[]*5, gpu[same(numa)]*4", False),
    ],
)
def test_same_takes_all_devices_of_a_term_from_one_class(text, expected):
    assert matches(text, numa_box(4, 4)) is expected


def test_alternatives_choose_so_that_everything_fits():
    # Taking the first alternative would leave no A100 for the last term.
    assert matches("(gpu[vram_mb>=80GB]*2 | gpu[model=t4]), gpu[vram_mb>=80GB]*2")
    assert not matches("(gpu[vram_mb>=80GB]*2 | gpu[model=t4]*2), gpu[vram_mb>=80GB]*2")
    # An alternative that needs no device is free.
    assert matches("(gpu[]*3 | lacks(rack)), gpu[]*3")
    # Nested alternatives choose too.
    assert matches("((gpu[]*9 | gpu[model=t4]) | npu[]), gpu[vram_mb>=80GB]*2")
    assert not matches("((gpu[]*9 | gpu[model=t4]), has(rack) | npu[]), gpu[]")


def failing(text, record=MIXED):
    return [
        (one.term, one.key, one.wanted, one.actual, one.kind.value) for one in parse_requirement(text).check(record)
    ]


def test_what_is_short_is_told_with_what_can_be_had():
    assert failing("gpu[vram_mb>=24GB]*3") == [(0, "gpu", 3, 2, "device_count")]
    assert failing("gpu[model=h100]*2") == [(0, "gpu", 2, 0, "device_count")]
    assert failing("npu[]*2") == [(0, "npu", 2, None, "missing")]
    # Either alone would do: the later one is told what the earlier one leaves.
    assert failing("gpu[vram_mb>=80GB]*2, has(rack), gpu[]*2") == [
        (1, "rack", None, None, "missing"),
        (2, "gpu", 2, 1, "device_count"),
    ]
    assert failing("gpu[same(numa)]*5", numa_box(3, 4)) == [(0, "gpu", 5, 4, "device_count")]
    assert failing("gpu[]*65535") == [(0, "gpu", 65535, 3, "device_count")]


def test_alternatives_tell_what_fails_in_each():
    found = parse_requirement("gpu[]*2, (gpu[]*2 | npu[] | region=us)").check(MIXED)
    assert [one.kind.value for one in found] == ["alternatives"]
    inside = found[0].alternatives
    assert [[(one.kind.value, one.actual) for one in terms] for terms in inside] == [
        [("device_count", 1)],
        [("missing", None)],
        [("missing", None)],
    ]


def test_the_search_is_bounded_and_never_promises_too_much():
    # Every class serves every term, but only one; the fields differ, so no symmetry helps.
    fields = ["numa", "model", "vram_mb", "compute"] * 2
    text = ", ".join(f"gpu[same({field})]*3" for field in fields)
    box = [
        DeviceGroup(kind="gpu", model=f"m{number}", vram_mb=number, compute=number, numa=number, count=5)
        for number in range(7)
    ]
    demands = parse_requirement(text).constraints
    assert not serves(demands, box)
    assert serves(demands, [*box, attrs.evolve(box[0], model="m8", vram_mb=8, compute=8, numa=8)])

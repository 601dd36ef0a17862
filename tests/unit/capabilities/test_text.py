import pytest
from shoal.capabilities.constraints import (
    MAX_DEPTH,
    AnyOf,
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
from shoal.capabilities.errors import RequirementSyntaxError
from shoal.capabilities.requirement import PlacementRequirement
from shoal.capabilities.text import MAX_TEXT, parse_requirement


@pytest.mark.parametrize(
    ("text", "terms", "printed"),
    [
        ("", [], ""),
        (" \t\r\n", [], ""),
        ("gpu_nvidia", [IsTrue("gpu_nvidia")], None),
        ("!gpu_nvidia", [IsFalse("gpu_nvidia")], None),
        ("! gpu_nvidia", [IsFalse("gpu_nvidia")], "!gpu_nvidia"),
        ("has(rack)", [HasLabel("rack")], None),
        ("lacks ( rack )", [LacksLabel("rack")], "lacks(rack)"),
        ("has, in, lacks=5", [IsTrue("has"), IsTrue("in"), Equals("lacks", 5)], None),
        ("gpu_vram_mb>=8000", [MinInt("gpu_vram_mb", 8000)], None),
        ("ram_mb <= 65536", [MaxInt("ram_mb", 65536)], "ram_mb<=65536"),
        ("region=us-east", [Equals("region", "us-east")], None),
        ('region="us east"', [Equals("region", "us east")], None),
        ("region='us \"east\"'", [Equals("region", 'us "east"')], 'region="us \\"east\\""'),
        ("zone in (a, b)", [OneOf("zone", ["a", "b"])], None),
        ('zone in(a,1 , true,"1")', [OneOf("zone", ["a", 1, True, "1"])], 'zone in (a, 1, true, "1")'),
        ("role!=db", [NotEquals("role", "db")], None),
        ("kernel>=v5.15", [MinVersion("kernel", "5.15")], None),
        ("kernel>=5.15", [MinVersion("kernel", "5.15")], "kernel>=v5.15"),
        ("kernel>=6", [MinVersion("kernel", "6")], "kernel>=v6"),
        ("kernel>=int(6)", [MinInt("kernel", 6)], None),
        ("tool_go_version>=1.21", [MinVersion("tool_go_version", "1.21")], "tool_go_version>=v1.21"),
        ("custom>=1.21.3", [MinVersion("custom", "1.21.3")], "custom>=v1.21.3"),
        ("a=true, b=false", [Equals("a", True), Equals("b", False)], None),
        ('a="true", b="1", c=""', [Equals("a", "true"), Equals("b", "1"), Equals("c", "")], None),
        ("a=1, b=-1, c=007, d=1.5", [Equals("a", 1), Equals("b", -1), Equals("c", "007"), Equals("d", "1.5")],
         'a=1, b=-1, c="007", d="1.5"'),
        ("distro_version=12", [Equals("distro_version", "12")], 'distro_version="12"'),
        ("distro_version=int(12)", [Equals("distro_version", 12)], None),
        ("region=int, zone=v5", [Equals("region", "int"), Equals("zone", "v5")], None),
        ("mac=00:1a, path=/dev/sda", [Equals("mac", "00:1a"), Equals("path", "/dev/sda")],
         'mac="00:1a", path="/dev/sda"'),
        ("a.b/c-d>=1", [MinInt("a.b/c-d", 1)], None),
        ('a="\\u00e9\\n\\t\\\\\\U0001f600"', [Equals("a", "é\n\t\\😀")], 'a="é\\n\\t\\\\😀"'),
        ('a="\\u0000"', [Equals("a", "\0")], None),
        ("a=münchen", [Equals("a", "münchen")], 'a="münchen"'),
        ("gpu[vram_mb>=24GB]*2", [Devices("gpu", 2, [MinInt("vram_mb", 22888)])], "gpu[vram_mb>=22888]*2"),
        ("gpu[ ] * 2", [Devices("gpu", 2)], "gpu[]*2"),
        ("npu[]", [Devices("npu")], None),
        ("gpu[same(model), compute>=8.9, !mig]*2",
         [Devices("gpu", 2, [MinInt("compute", 809), IsFalse("mig")], "model")],
         "gpu[compute>=8.9, !mig, same(model)]*2"),
        ("gpu[(model=t4 | model=4090)]",
         [Devices("gpu", 1, [AnyOf([[Equals("model", "t4")], [Equals("model", "4090")]])])],
         'gpu[(model=t4 | model="4090")]'),
        ("(region=us | region=eu)", [AnyOf([[Equals("region", "us")], [Equals("region", "eu")]])], None),
        ("(a, b | (c | d), e)",
         [AnyOf([[IsTrue("a"), IsTrue("b")], [AnyOf([[IsTrue("c")], [IsTrue("d")]]), IsTrue("e")]])], None),
        ("(a)", [AnyOf([[IsTrue("a")]])], None),
        ("(gpu[] | npu[]*2)", [AnyOf([[Devices("gpu")], [Devices("npu", 2)]])], None),
    ],
)  # fmt: skip
def test_what_a_text_means_and_how_it_is_printed(text, terms, printed):
    requirement = parse_requirement(text)
    assert requirement == PlacementRequirement(terms)
    assert str(requirement) == (text if printed is None else printed)
    assert parse_requirement(str(requirement)) == requirement


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("ram_mb>=24GB", 22888),
        ("ram_mb>=24GiB", 24576),
        ("ram_mb>=1.5GiB", 1536),
        ("ram_mb>=0.5GB", 476),
        ("ram_mb>=512MiB", 512),
        ("ram_mb>=1TB", 953674),
        ("ram_mb>=1KiB", 0),
        ("custom_mb>=2GiB", 2048),
        ("ram_mb>=-1", -1),
        ("cuda>=12.4", 1204),
        ("cuda>=12.10", 1210),
        ("cuda>=12", 1200),
        ("cuda>=1204", 1204),
        ("cuda>=0.7", 7),
        ("gpu_compute_capability>=8.9", 809),
        ("cuda>=-7", -7),
        ("cpu_count>=9223372036854775807", 2**63 - 1),
        ("cuda>=92233720368547758.7", 2**63 - 1),
    ],
)
def test_numbers_in_the_form_of_their_label(text, bound):
    (term,) = parse_requirement(text).constraints
    assert isinstance(term, MinInt)
    assert term.bound == bound
    assert parse_requirement(str(parse_requirement(text))).constraints == (term,)


def test_24_gb_is_met_by_a_card_of_24564_mib():
    from shoal.capabilities import DeviceGroup, NodeCapabilities

    card = NodeCapabilities({"gpu_vram_mb": 24564}, [DeviceGroup(kind="gpu", vram_mb=24564)])
    assert card.satisfies(parse_requirement("gpu_vram_mb>=24GB, gpu[vram_mb>=24GB]"))
    assert not card.satisfies(parse_requirement("gpu_vram_mb>=24GiB"))


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("gpu_vram_mb>8000", 12, "did you mean '>='?"),
        ("a, b<3", 5, "did you mean '<='?"),
        ("region==us", 7, "did you mean '='?"),
        ("a=>5", 2, "did you mean '>='?"),
        ("a=<5", 2, "did you mean '<='?"),
        ("a<>5", 2, "did you mean '!='?"),
        ("a:5", 2, "did you mean '='?"),
        ("a≥5", 2, "did you mean '>='?"),
        ("a && b", 3, "joined by ','"),
        ("a and b", 3, "joined by ','"),
        ("a b", 3, "joined by ','"),
        ("a | b", 3, "parentheses"),
        ("a or b", 3, "parentheses"),
        ("a,", 3, ""),
        (",a", 1, "too many"),
        ("a,,b", 3, "too many"),
        ("(a", 3, ""),
        ("(a | )", 6, ""),
        ("()", 2, ""),
        ("a)", 2, ""),
        ("1abc", 1, "begins with a letter"),
        ("_a", 1, ""),
        ("!", 2, ""),
        ("!has(x)", 1, "lacks(key)"),
        ("!(a | b)", 2, ""),
        ("hass(x)", 1, "did you mean has(...)?"),
        ("has(x", 6, ""),
        ("has()", 5, ""),
        ("zone in ()", 10, ""),
        ("zone in us", 6, "in parentheses"),
        ("zone on (a, b)", 6, "did you mean 'in'?"),
        ("zone in (a b)", 12, "joined by ','"),
        ("a=", 3, ""),
        ("a>=", 4, ""),
        ("a>=x", 4, "a=x for equality"),
        ('a>="5"', 4, "leave the quotes out"),
        ("a<=1.5", 4, "lower bound"),
        ('a="x', 3, ""),
        ('a="\\q"', 4, "escapes"),
        ('a="\\ud800"', 1, ""),
        ('a="\\UFFFFFFFF"', 4, "escapes"),
        ("ram_mb>=24 GB", 12, "without a blank"),
        ("ram_mb>=24G", 9, "GB (powers of ten) or GiB"),
        ("ram_mb>=24gb", 9, "did you mean GB"),
        ("ram_mb>=24x", 9, "powers of two"),
        ("ram_mb=1.5", 8, "24GB"),
        ("gpu_vram>=24GB", 11, "did you mean gpu_vram_mb?"),
        ("cpu_count>=24GB", 12, "keys that end in _mb"),
        ("cpu_count>=1.5", 12, ""),
        ("cuda>=12.4.1", 7, "cuda>=12.4"),
        ("a>=9223372036854775808", 1, ""),
        ("a=99999999999999999999999", 3, ""),
        ("ram_mb>=99999999999PB", 1, ""),
        ("gpu[vram>=24GB]", 5, "did you mean vram_mb?"),
        ("gpu[region=us]", 5, "fields are vendor"),
        ("gpu[gpu[]]", 5, ""),
        ("gpu[vram_mb>=1", 15, ""),
        ("gpu[mig,]", 9, ""),
        ("gpu[same(model), same(numa)]", 28, ""),
        ("gpu[same(count)]", 10, ""),
        ("gpu[]*", 7, ""),
        ("gpu[]*0", 7, ""),
        ("gpu[]*99999999", 7, ""),
        ("gpu*2", 4, "gpu[]*2"),
        ("Gpu[]", 1, ""),
        ("a, " + "k" * 129, 4, ""),
        ("(" * (MAX_DEPTH + 1) + "a", MAX_DEPTH + 1, ""),
        ("((" * 100_000, MAX_DEPTH + 1, ""),
        ("a=" + "9" * 100_000, 3, ""),
        ("a>=v" + "9" * 1000, 1, ""),
        ("a\0b", 2, ""),
    ],
)
def test_an_error_points_at_the_column_and_at_the_nearest_right_thing(text, column, hint):
    with pytest.raises(RequirementSyntaxError) as refused:
        parse_requirement(text)
    error = refused.value
    assert (error.column, error.text) == (column, text)
    assert hint in error.hint
    assert str(error).startswith(f"column {column}: ")
    assert len(str(error)) < 400


def test_a_text_can_be_too_long_or_no_text():
    for bad in ["a," * MAX_TEXT, None, b"a", 5]:
        with pytest.raises(RequirementSyntaxError):
            parse_requirement(bad)


def test_too_many_terms_are_a_syntax_error_too():
    with pytest.raises(RequirementSyntaxError):
        parse_requirement(", ".join(["a"] * 600))
    with pytest.raises(RequirementSyntaxError):
        parse_requirement(", ".join(["gpu[]"] * 9))

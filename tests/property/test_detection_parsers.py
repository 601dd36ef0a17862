"""The parsers of detection take any text: a value or nothing, never an exception."""

from hypothesis import example, given
from hypothesis import strategies as st
from shoal.capabilities.probes.engines import address_of, model_name
from shoal.capabilities.probes.findings import Findings, model_slug, readable
from shoal.capabilities.probes.label_files import feature_labels, toml_labels, typed
from shoal.capabilities.probes.pci import listed_name, normal_address
from shoal.capabilities.probes.reader import integer, members
from shoal.capabilities.probes.smi import import_query
from shoal.capabilities.probes.system import architecture, shell_fields
from shoal.capabilities.probes.tools import TOOLS, version_in
from shoal.capabilities.probes.visible import visible_count
from shoal.capabilities.probes.vitals import averages, parse_load
from shoal.capabilities.values import check_key, check_value

# Text as a lenient decoder gives it, lone surrogates included, with the letters that formats use made likely.
TEXT = st.text(max_size=200) | st.text(alphabet="0123456789-,.:=#+\"'[]{}\n\t\0 /\\xGPUMIG\ud800", max_size=200)


@given(TEXT)
@example("9" * 5000)
@example("0-65535," * 100)
def test_numbers_and_lists(text):
    number = integer(text)
    assert number is None or type(number) is int
    found = members(text)
    assert found is None or all(0 <= member < 65536 for member in found)


@given(TEXT)
def test_labels_of_files_are_always_legal(text):
    findings = Findings("fuzz")
    for labels in (feature_labels(text, "f", findings, 0.0), toml_labels(text, "f", findings)):
        for key, value in labels.items():
            check_key(key)
            check_value(value)
    check_value(typed("1"))


@given(TEXT)
def test_texts(text):
    assert parse_load(text) is None or parse_load(text) >= 0
    assert all(0 <= value <= 10_000 for value in averages(text).values())
    assert isinstance(shell_fields(text), dict)
    assert architecture(text)
    assert address_of(text).startswith("http://")
    assert isinstance(normal_address(text), str)
    assert listed_name(text, 0x1002, 0x744C) is None or text
    assert model_name(text.split("\0"), {}) is None or text
    slug = model_slug(text)
    assert slug == model_slug(slug)
    assert readable(text) is None or readable(readable(text)) == readable(text)
    for tool in TOOLS:
        version = version_in(text, tool.says)
        assert version is None or version[0].isdigit()


@given(TEXT, st.integers(0, 16), st.lists(st.none() | TEXT, max_size=4))
def test_visible_devices_are_never_more_than_there_are_entries(text, count, ids):
    assert 0 <= visible_count(text, count, ids) <= text.count(",") + 1


@given(TEXT)
def test_imported_csv(text):
    findings = import_query(text)
    assert findings.labels["gpu_count"] >= 0

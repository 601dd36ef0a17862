import pytest
from shoal.capabilities.labels import (
    BY_CODE,
    ENGINES,
    LABELS,
    MAX_CODE,
    VITALS,
    Form,
    Role,
    lookup,
    nearest,
    tool_label,
    tool_version_label,
)
from shoal.capabilities.values import Kind, check_key

# What other nodes already mean by a number. A row may be added; none may ever change.
FROZEN = {
    0: "arch", 1: "os", 2: "hostname", 3: "kernel", 8: "cpu_count", 9: "cpu_usable_milli", 22: "ram_mb",
    23: "ram_limit_mb", 29: "gpu_nvidia", 30: "gpu_count", 31: "gpu_name", 33: "gpu_vram_mb",
    36: "gpu_compute_capability", 52: "cuda", 62: "net_max_mbps", 74: "psi_available", 76: "cpu_feature_avx",
    82: "cpu_feature_neon", 111: "cpu_feature_svm", 112: "tool_docker", 113: "tool_docker_version",
    122: "tool_ollama", 125: "tool_llama_server_version", 211: "tool_helm_version", 256: "accelerator_google",
    278: "accelerator_rockchip",
}  # fmt: skip


def test_codes_never_change_their_meaning():
    assert {code: BY_CODE[code].name for code in FROZEN} == FROZEN


def test_every_code_names_one_label_and_every_label_has_one():
    assert len(BY_CODE) == len(LABELS)
    assert all(0 <= code <= MAX_CODE for code in BY_CODE)
    assert all(BY_CODE[label.code] is label for label in LABELS.values())


def test_names_are_legal_keys_with_a_meaning_and_disjoint():
    tables = [LABELS, VITALS, ENGINES]
    for table in tables:
        for name, label in table.items():
            assert check_key(name) == label.name == name.lower()
            assert label.meaning
    assert len({name for table in tables for name in table}) == sum(map(len, tables))


@pytest.mark.parametrize(
    ("name", "kind", "form"),
    [
        ("arch", Kind.STR, Form.PLAIN),
        ("gpu_nvidia", Kind.BOOL, Form.PLAIN),
        ("cpu_usable_milli", Kind.INT, Form.PLAIN),
        ("gpu_vram_mb", Kind.INT, Form.MEBIBYTES),
        ("disk_root_mb", Kind.INT, Form.MEBIBYTES),
        ("cuda", Kind.INT, Form.HUNDREDS),
        ("gpu_compute_capability", Kind.INT, Form.HUNDREDS),
        ("cpu_feature_anything", Kind.BOOL, Form.PLAIN),
        ("tool_anything", Kind.BOOL, Form.PLAIN),
        ("tool_anything_version", Kind.STR, Form.PLAIN),
        ("accelerator_acme", Kind.INT, Form.PLAIN),
        ("ram_available_mb", Kind.INT, Form.MEBIBYTES),
        ("ollama_running", Kind.BOOL, Form.PLAIN),
    ],
)
def test_lookup_knows_kind_and_form_of_labels_vitals_engines_and_families(name, kind, form):
    label = lookup(name)
    assert label is not None
    assert (label.name, label.kind, label.form) == (name, kind, form)


@pytest.mark.parametrize("name", ["region", "tool_", "accelerator_", "gpu", "cpu", "rack_mb"])
def test_lookup_of_what_nobody_knows(name):
    assert lookup(name) is None


def test_vitals_and_engine_facts_have_their_role():
    assert VITALS["ram_available_mb"].role is Role.VITAL
    assert ENGINES["models_resident"].role is Role.ENGINE
    assert LABELS["ram_mb"].role is Role.LABEL


def test_tool_labels_come_from_commands():
    assert tool_label("llama-server") == "tool_llama_server"
    assert tool_version_label("Docker") == "tool_docker_version"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gpu_vram", "gpu_vram_mb"),
        ("gpu_nvida", "gpu_nvidia"),
        ("GPU_NVIDIA", "gpu_nvidia"),
        ("cpus", "cpu_count"),
        ("memory_mb", "ram_mb"),
        ("zzzzqqq", None),
    ],
)
def test_nearest_name(typed, meant):
    assert nearest(typed) == meant


def test_nearest_among_given_names():
    assert nearest("vram", ["vram_mb", "vendor"]) == "vram_mb"
    assert nearest("regoin", ["region", "zone"]) == "region"
    assert nearest("x", []) is None

import re

import pytest
from shoal.capabilities import DeviceGroup, NodeCapabilities
from shoal.capabilities.exports import FEATURE_FILE_BYTES, FORMS, export, kubernetes_name, kubernetes_value

RECORD = NodeCapabilities(
    labels={
        "arch": "amd64",
        "hostname": "node7",
        "cpu_count": 64,
        "cpu_physical": 32,
        "cpu_sockets": 2,
        "ram_mb": 515000,
        "gpu_nvidia": True,
        "infiniband": False,
        "cpu_model": "AMD EPYC 7543 (Milan)",
        "vendor.example.com/x": "a,b",
        "note": 'say "hi" \\ ${x}\n',
        "long": "x" * 200,
    },
    devices=(DeviceGroup(kind="gpu", vendor="nvidia", model="a100-sxm4-80gb", vram_mb=81920, count=8),),
)
LABEL = re.compile(
    r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?=(([A-Za-z0-9][A-Za-z0-9_.-]{0,61})?[A-Za-z0-9])?"
)


@pytest.mark.parametrize("form", ["nfd", "k8s-labels"])
def test_every_line_is_a_label_that_kubernetes_takes(form):
    exported = export(RECORD, form)
    lines = [line for line in exported.text.splitlines() if not line.startswith("#")]
    assert all(LABEL.fullmatch(line) for line in lines)
    assert "shoal/cpu_count=64" in lines
    assert "vendor.example.com/x=a-b" in lines
    assert {"cpu_model", "note", "long", "vendor.example.com/x"} <= set(exported.lossy)
    assert "arch" not in exported.lossy


def test_a_feature_file_is_never_longer_than_is_read():
    many = NodeCapabilities(labels={f"label_{number:04}": "v" * 60 for number in range(2000)})
    exported = export(many, "nfd")
    assert len(exported.text.encode()) <= FEATURE_FILE_BYTES
    assert len(exported.lossy) + exported.text.count("shoal/") == 2000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("a b", "a-b"),
        ("-x-", "x"),
        ("é", ""),
        ("x" * 70, "x" * 63),
        ("a" * 62 + "-b", "a" * 62),
        ("1.5", "1.5"),
    ],
)
def test_values_of_kubernetes(text, value):
    assert kubernetes_value(text) == value


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("rack", "shoal/rack"),
        ("a.example/b", "a.example/b"),
        ("A/b", "shoal/A-b"),
        ("x/y/z", "shoal/x-y-z"),
        ("a-", "shoal/a"),
    ],
)
def test_names_of_kubernetes(key, name):
    assert kubernetes_name(key) == name


def test_ray_takes_one_line_of_pairs():
    text = export(RECORD, "ray-labels").text.strip()
    assert all(LABEL.fullmatch(pair) for pair in text.split(","))
    assert "\n" not in text


def test_nomad_takes_strings_in_hcl():
    exported = export(RECORD, "nomad-meta")
    assert '    shoal_cpu_count = "64"\n' in exported.text
    assert '    shoal_gpu_nvidia = "true"\n' in exported.text
    assert "${" not in exported.text
    assert exported.text.count("{") == exported.text.count("}") == 2
    assert "note" in exported.lossy


def test_slurm_gets_its_own_fields():
    text = export(RECORD, "slurm").text
    assert text.startswith("NodeName=node7 CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=515000 ")
    assert " Gres=gpu:a100-sxm4-80gb:8 " in text
    assert "gpu_nvidia" in text
    assert "infiniband" not in text
    assert len(text.splitlines()) == 1


def test_htcondor_gets_typed_attributes():
    lines = export(RECORD, "htcondor").text.splitlines()
    assert "Shoal_cpu_count = 64" in lines
    assert "Shoal_gpu_nvidia = true" in lines
    assert 'Shoal_note = "say \\"hi\\" \\\\ ${x} "' in lines
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]* = .+", line) for line in lines)
    twice = export(NodeCapabilities(labels={"A": 1, "a": 2}), "htcondor")
    assert (twice.text, twice.lossy) == ("Shoal_A = 1\n", ("a",))


def test_prometheus_text():
    text = export(RECORD, "prometheus", {"ram_available_mb": 5, "battery": False, "power_source": "ac"}).text
    assert 'shoal_capability{label="gpu_nvidia"} 1\n' in text
    assert 'shoal_capability_info{label="arch",value="amd64"} 1\n' in text
    assert 'value="say \\"hi\\" \\\\ ${x}\\n"' in text
    assert 'shoal_devices{kind="gpu",vendor="nvidia",model="a100-sxm4-80gb",vram_mb="81920"} 8\n' in text
    assert 'shoal_vital{vital="ram_available_mb"} 5\n' in text
    assert 'shoal_vital{vital="battery"} 0\n' in text
    sample = re.compile(r'[a-z_]+\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\} -?[0-9]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in text.splitlines())


@pytest.mark.parametrize("form", sorted(FORMS))
def test_an_empty_record_exports(form):
    assert export(NodeCapabilities(), form).lossy == ()


def test_an_unknown_form_is_refused():
    with pytest.raises(KeyError):
        export(RECORD, "xml")


@pytest.mark.parametrize("form", FORMS)
def test_devices_are_told_of_or_told_to_be_left_out(form):
    exported = export(RECORD, form)
    assert ("devices" in exported.lossy) is ("a100-sxm4-80gb" not in exported.text)
    assert "devices" not in export(NodeCapabilities(labels={"arch": "amd64"}), form).lossy


@pytest.mark.parametrize("form", ["nfd", "k8s-labels", "ray-labels", "nomad-meta"])
def test_of_two_keys_that_become_one_the_second_is_told(form):
    exported = export(NodeCapabilities(labels={"a_": 1, "a__": 2, "x.y": 1, "x_y": 2}), form)
    assert "a__" in exported.lossy or "x_y" in exported.lossy


def test_slurm_adds_up_gpus_that_differ_only_in_their_node():
    groups = tuple(DeviceGroup(kind="gpu", vendor="nvidia", model="a100", count=4, numa=numa) for numa in (0, 1))
    assert " Gres=gpu:a100:8 " in export(NodeCapabilities(labels={"arch": "amd64"}, devices=groups), "slurm").text

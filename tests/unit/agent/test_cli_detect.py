"""`shoal detect` in this process, over a pretended machine."""

import json

import pytest
from shoal.agent import cli, cli_detect
from shoal.capabilities import DeviceGroup, NodeCapabilities, exports, labels, survey
from shoal.capabilities.probes.findings import DetectWarning, ResidentModel
from shoal.capabilities.survey import Detection, Directories

FOUND = Detection(
    record=NodeCapabilities(
        {"arch": "amd64", "os": "linux", "cpu_count": 4, "cpu_model": "Some CPU (R)", "gpu_count": 1, "odd/label": "x"},
        (DeviceGroup(kind="gpu", vendor="nvidia", model="a100", vram_mb=40960),),
    ),
    vitals={"load1_centi": 5},
    warnings=(DetectWarning("network", "/sys/class/net/eth0/speed", "EACCES: Permission denied"),),
    sources={"arch": "uname", "cpu_count": "/sys/devices/system/cpu/online", "odd/label": "/etc/shoal/labels.d/a"},
    engines={"ollama_running": True},
    models=(ResidentModel(name="llama3:8b", engine="ollama", vram_mb=5000),),
    seconds={"cpu": 0.00123},
)


@pytest.fixture
def asked(monkeypatch):
    directories = []

    def detect(*, directories):
        asked.append(directories)
        return FOUND

    asked = directories
    monkeypatch.setattr(survey, "detect", detect)
    return asked


@pytest.fixture
def configuration(tmp_path):
    (tmp_path / "shoal.toml").write_text('[labels]\nrack = 7\ncpu_count = 2\n[detect]\nlabels_dir = "/srv/l"\n')
    return str(tmp_path)


@pytest.fixture
def shoal(asked, configuration, capsys):
    def shoal(*arguments):
        code = cli.main(["detect", "--config", configuration, *arguments])
        return code, *capsys.readouterr()

    return shoal


def test_the_table_is_grouped_and_warnings_go_to_standard_error(shoal, asked):
    code, out, err = shoal()
    blocks = {block.splitlines()[0]: block.splitlines()[1:] for block in out.split("\n\n")}
    assert code == 0
    assert list(blocks) == [
        "system", "processor", "accelerators", "operator", "other", "devices", "vitals", "engines",
    ]  # fmt: skip
    assert [line.split()[0] for line in blocks["operator"]] == ["cpu_count", "rack"]
    assert blocks["devices"][0].split(None, 2)[2] == "vendor=nvidia, model=a100, vram_mb=40960, count=1"
    assert "ollama, 4.9G of GPU memory" in out
    assert err == "warning: network: /sys/class/net/eth0/speed: EACCES: Permission denied\n"
    assert asked == [Directories("/srv/l", "/etc/shoal/probes.d")]


def test_explain_says_where_each_fact_comes_from(shoal, configuration):
    out = shoal("--explain")[1]
    lines = {line.split()[0]: line.split()[-1] for line in out.splitlines() if line.startswith("  ")}
    assert lines["arch"] == "uname"
    assert lines["odd/label"] == "/etc/shoal/labels.d/a"
    assert lines["rack"] == f"{configuration}/shoal.toml:2"


def test_json_is_the_whole_record(shoal, configuration):
    whole = json.loads(shoal("-o", "json")[1])
    assert whole["labels"] == dict(FOUND.record.labels) | {"rack": 7, "cpu_count": 2}
    assert whole["devices"] == [{"kind": "gpu", "vendor": "nvidia", "model": "a100", "vram_mb": 40960, "count": 1}]
    assert whole["models"] == [{"name": "llama3:8b", "engine": "ollama", "vram_mb": 5000, "expires": None}]
    assert whole["warnings"] == [str(FOUND.warnings[0])]
    assert "sources" not in whole
    more = json.loads(shoal("-o", "json", "--explain")[1])
    assert more["sources"]["cpu_count"] == f"{configuration}/shoal.toml:3"
    assert more["seconds"] == {"cpu": 0.0012}


def test_lines_and_names(shoal):
    assert json.loads(shoal("-o", "jsonl")[1].splitlines()[0]) == {"name": "arch", "value": "amd64"}
    assert shoal("-o", "name")[1].splitlines()[:2] == ["arch", "os"]


@pytest.mark.parametrize("form", cli_detect.EXPORTS)
def test_every_export_is_written_and_what_it_loses_is_told(shoal, form):
    code, out, err = shoal("--as", form)
    record = FOUND.record.with_labels({"rack": 7, "cpu_count": 2})
    exported = exports.export(record, form, FOUND.vitals)
    assert (code, out) == (0, exported.text)
    told = [line for line in err.splitlines() if line.startswith(f"warning: {form} does not carry")]
    assert bool(told) == bool(exported.lossy)
    assert all(key in told[0] for key in exported.lossy)


@pytest.mark.parametrize("option", [("-o", "table"), ("-o", "json"), ("--output=name",), ("--explain",)])
def test_an_export_has_no_other_form(shoal, asked, option):
    code, out, err = shoal("--as", "nfd", *option)
    assert (code, out) == (2, "")
    assert (
        err == f"shoal: {'--explain' if option[0] == '--explain' else '-o'} says nothing with --as: its form is fixed\n"
    )
    assert asked == [], "it is refused before anything is looked for"


def test_the_forms_offered_are_those_that_exist():
    assert set(cli_detect.EXPORTS) == set(exports.FORMS)


def test_every_well_known_label_has_a_group():
    homeless = [key for key in labels.LABELS if cli_detect._group(key) == "other"]
    assert homeless == []


def test_a_bad_configuration_is_an_error_only_when_it_was_named(asked, tmp_path, monkeypatch, capsys):
    (tmp_path / "shoal.toml").write_text("[detcet]\nenabled = true\n")
    assert cli.main(["detect", "--config", str(tmp_path)]) == 78
    monkeypatch.setattr("shoal.agent.config_files.DEFAULT_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("SHOAL_CONFIG", raising=False)
    capsys.readouterr()
    assert cli.main(["detect"]) == 0
    out, err = capsys.readouterr()
    assert "cpu_count" in out
    assert "configuration not used" in err

import os
import tempfile
from pathlib import Path

import pytest
from shoal.capabilities.probes.findings import Findings
from shoal.capabilities.probes.hooks import run_directory
from shoal.capabilities.probes.label_files import feature_labels, read_directory, toml_labels
from shoal.capabilities.survey import Directories, detect

DIR = "/etc/shoal/labels.d"
HOOKS = "/etc/shoal/probes.d"
OPEN_HOOK = {"uid": 0, "mode": 0o100755}


def read(pretend, given):
    machine = pretend(given)
    return read_directory(machine.reader, machine.facades, DIR)


def test_toml_is_typed_as_written(pretend):
    text = 'rack = "b12"\nslots = 4\nfast = true\nnumber = "4"\n"vendor.example.com/x" = false\n'
    assert read(pretend, {f"{DIR}/10-rack.toml": text}).labels == {
        "rack": "b12", "slots": 4, "fast": True, "number": "4", "vendor.example.com/x": False,
    }  # fmt: skip


def test_toml_may_have_one_table(pretend):
    assert read(pretend, {f"{DIR}/a.toml": '[labels]\nzone = "b"\n'}).labels == {"zone": "b"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = ", "no TOML"), ("x = " + "1" * 5000, "no TOML"), ("x = " + "[" * 9000, "no TOML"),
        ("x = 1.5\ny = 1\n", "key x"), ("x = [1]\ny = 1\n", "key x"),
        ("9a = 1\ny = 1\n", "key 9a"),
        ("a.b = 1\ny = 1\n", "needs quotes"), ("x = 99999999999999999999\ny = 1\n", "64 bits"), ("\x00", "no TOML"),
        (f"x = \"{'a' * 300}\"\ny = 1\n", "256"),
    ],
)  # fmt: skip
def test_a_bad_key_is_a_warning_and_the_others_count(text, words):
    findings = Findings("labels.d")
    labels = toml_labels(text, "f.toml", findings)
    assert words in str(findings.warnings[0])
    assert labels == ({"y": 1} if "y = 1" in text else {})


def test_features_of_node_feature_discovery():
    text = (
        '# a comment\nplain\nversion=1.2\ncount=42\nquoted="42"\noff=false\nempty=\n'
        "vendor.example.com/feature=on\n  spaced = x  \n# +no-label\nhidden=1\nshown=1\n"
    )
    assert feature_labels(text, "f", Findings("labels.d"), 0.0) == {
        "plain": True, "version": "1.2", "count": 42, "quoted": "42", "off": False, "empty": "",
        "vendor.example.com/feature": "on", "spaced": "x", "shown": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("7", 7), ("-7", -7), ("0", 0), ("007", "007"), ("+7", "+7"), ("00", "00"), ("1e3", "1e3"), ("true", True),
        ("True", "True"), ("9223372036854775807", 2**63 - 1), ("99999999999999999999", "99999999999999999999"),
    ],
)  # fmt: skip
def test_a_value_is_typed_as_on_the_command_line(written, value):
    labels = feature_labels(f"x={written}\n", "f", Findings("x"), 0.0)
    assert [(type(found), found) for found in labels.values()] == [(type(value), value)]


def test_features_expire():
    text = "a=1\n# +expiry-time=2020-01-01T00:00:00Z\nb=1\n# +expiry-time=2040-01-01T00:00:00Z\nc=1\n"
    assert feature_labels(text, "f", Findings("x"), 1_760_000_000.0) == {"a": 1, "c": 1}
    findings = Findings("x")
    assert feature_labels("# +expiry-time=tomorrow\nb=1\n", "f", findings, 0.0) == {"b": 1}
    assert "f:1" in str(findings.warnings[0])


def test_features_that_are_no_labels_are_named_by_line():
    findings = Findings("x")
    assert feature_labels("-bad=1\n=x\nok=1\nlong=" + "y" * 300, "f", findings, 0.0) == {"ok": 1}
    assert ["line 1" in str(w) or "line 2" in str(w) or "line 4" in str(w) for w in findings.warnings] == [True] * 3


def test_an_export_is_never_read_back():
    findings = Findings("x")
    assert feature_labels("shoal/cpu_count=4\nrack=1\n", "f", findings, 0.0) == {"rack": 1}
    assert "never read back" in str(findings.warnings[0])


def test_later_files_override_earlier_and_left_overs_are_not_read(pretend):
    given = {
        f"{DIR}/{name}": f"x={number}\n" for number, name in enumerate((".hidden", "10-a", "20-b", "30-c~", "z.bak"))
    }
    findings = read(pretend, given)
    assert findings.labels == {"x": 2}
    assert findings.sources == {"x": f"{DIR}/20-b"}


@pytest.mark.parametrize(
    "status", [{"uid": 4242, "mode": 0o100644}, {"uid": 0, "mode": 0o100666}, {"uid": 0, "mode": 0o100664}]
)
def test_a_file_that_others_may_write_is_not_read(pretend, status):
    findings = read(pretend, {f"{DIR}/a": "x=1\n", f"call:os.stat({DIR}/a)": status})
    assert findings.labels == {}
    assert "not read" in str(findings.warnings[0])


def test_nothing_of_a_directory_that_others_may_write_is_read(pretend):
    findings = read(pretend, {f"{DIR}/a": "x=1\n", f"call:os.stat({DIR})": {"uid": 0, "mode": 0o040777}})
    assert findings.labels == {}
    assert DIR in str(findings.warnings[0])


def test_a_file_that_is_too_long_is_not_read(pretend):
    findings = read(pretend, {f"{DIR}/a": "x=1\n" * 20_000, f"{DIR}/b": "y=1\n"})
    assert findings.labels == {"y": 1}


@pytest.mark.parametrize("content", [{"errno": "EACCES"}, {"errno": "EIO"}, {"dir": []}])
def test_a_file_that_cannot_be_read_hides_no_other(pretend, content):
    assert read(pretend, {f"{DIR}/a": content, f"{DIR}/b": "y=1\n"}).labels == {"y": 1}


def test_operator_labels_override_what_was_detected(pretend):
    machine = pretend(
        {
            "/proc/sys/kernel/hostname": "old\n",
            f"{HOOKS}/a": "",
            f"call:os.stat({HOOKS}/a)": OPEN_HOOK,
            "cmd:a": "hostname=hook\nfrom=hook\n",
            f"{DIR}/a.toml": 'hostname = "new"\n',
        }
    )
    found = detect(machine.reader, machine.facades)
    assert found.record.get("hostname") == "new"
    assert found.sources["hostname"] == f"{DIR}/a.toml"
    assert (found.record.get("from"), found.sources["from"]) == ("hook", f"{HOOKS}/a")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"code": 3, "output": "x=1\n", "stderr": "no such device\nmore\n"}, "status 3: no such device"),
        ({"code": -9, "output": "x=1\n"}, "signal 9"),
        ({"timeout": True}, "did not end in time"),
        ({"errno": "ENOEXEC"}, "ENOEXEC"),
    ],
)
def test_a_hook_that_fails_adds_nothing_and_says_so(pretend, answer, words):
    given = {f"{HOOKS}/a": "", f"{HOOKS}/b": "", "cmd:a": answer, "cmd:b": "y=1\n"}
    machine = pretend(given | {f"call:os.stat({HOOKS}/{name})": OPEN_HOOK for name in "ab"})
    findings = run_directory(machine.reader, machine.facades, HOOKS)
    assert findings.labels == {"y": 1}
    assert words in str(findings.warnings[0])


def test_a_hook_that_is_not_executable_is_not_run(pretend):
    machine = pretend({f"{HOOKS}/a": "", "cmd:a": "x=1\n"})
    findings = run_directory(machine.reader, machine.facades, HOOKS)
    assert findings.labels == {}
    assert "not executable" in str(findings.warnings[0])


def test_a_hook_of_someone_else_is_not_run(pretend):
    machine = pretend({f"{HOOKS}/a": "", "cmd:a": "x=1\n", f"call:os.stat({HOOKS}/a)": {"uid": 4242, "mode": 0o100755}})
    findings = run_directory(machine.reader, machine.facades, HOOKS)
    assert findings.labels == {}
    assert "owned by user 4242" in str(findings.warnings[0])


def test_the_limits_of_a_hook_are_passed_on(pretend):
    import attrs

    seen = {}

    def run(argv, **limits):
        seen.update(limits, argv=argv)
        from shoal.capabilities.probes.programs import ProgramAnswer

        return ProgramAnswer(code=0, output="x=1\n")

    machine = pretend({f"{HOOKS}/a": "", f"call:os.stat({HOOKS}/a)": OPEN_HOOK})
    facades = attrs.evolve(machine.facades, run=run)
    assert run_directory(machine.reader, facades, HOOKS).labels == {"x": 1}
    assert seen == {"argv": (f"{HOOKS}/a",), "seconds": 5.0, "limit": 65536, "unprivileged": True}


def test_too_many_labels_do_not_take_the_record_along(pretend):
    text = "".join(f"label_{number}={'x' * 200}\n" for number in range(280))
    machine = pretend({f"{DIR}/a": text, "/proc/sys/kernel/hostname": "node7\n"})
    found = detect(machine.reader, machine.facades)
    assert found.record.get("hostname") == "node7"
    assert found.record.get("label_1") is None
    assert any("too big" in str(warning) for warning in found.warnings)
    found.record.to_wire()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="hooks are run on POSIX systems only")
def test_real_files_and_hooks():
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        root = Path(place)
        root.chmod(0o755)
        for name in ("labels", "probes"):
            (root / name).mkdir(mode=0o755)
        (root / "labels/10.toml").write_text('rack = "b12"\n')
        (root / "probes/20-user").write_text("#!/bin/sh\necho hook_user=$(id -u)\necho hook_input=$(wc -c)\n")
        (root / "probes/30-open").write_text("#!/bin/sh\necho never=1\n")
        for path, mode in (("labels/10.toml", 0o644), ("probes/20-user", 0o755), ("probes/30-open", 0o777)):
            (root / path).chmod(mode)
        found = detect(directories=Directories(labels=f"{place}/labels", probes=f"{place}/probes"))
    assert found.record.get("rack") == "b12"
    assert found.record.get("hook_input") == 0
    assert found.record.get("never") is None
    assert (found.record.get("hook_user") == os.geteuid()) is (os.geteuid() != 0)
    assert any("30-open" in str(warning) for warning in found.warnings)

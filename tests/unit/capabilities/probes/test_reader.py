import errno
import os
import sys
import time

import pytest
from shoal.capabilities.probes.deadline import Work, run_all
from shoal.capabilities.probes.findings import WARNINGS_PER_PROBE, Findings
from shoal.capabilities.probes.reader import CachedReader, Look, SystemReader, integer, members, natural


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0-3\n", {0, 1, 2, 3}), ("0,2,4-5\n", {0, 2, 4, 5}), ("\n", set()), ("", set()), ("7", {7}), ("0-0", {0}),
        (" 1 , 2 ", {1, 2}), ("3-1", None), ("a", None), ("1-", None), ("-1", None), ("0-99999999", None),
        ("0x1", None),
        ("0-65535", set(range(65536))), ("٣", None),
    ],
)  # fmt: skip
def test_members(text, found):
    assert members(text) == (frozenset(found) if found is not None else None)


@pytest.mark.parametrize(
    ("text", "number"),
    [("5\n", 5), ("-5", -5), (" +7 ", 7), ("", None), ("1_000", None), ("٣", None), ("1" * 21, None), ("0x10", None)],
)
def test_integer(text, number):
    assert integer(text) == number


def test_natural_order():
    assert sorted(["cpu10", "cpu9", "cpu1", "node"], key=natural) == ["cpu1", "cpu9", "cpu10", "node"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
def test_the_machines_files(tmp_path):
    reader = SystemReader()
    (tmp_path / "a").write_bytes(b"x\xff\n")
    (tmp_path / "l").symlink_to("a")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "big").write_bytes(b"x" * (9 * 1024 * 1024))
    assert reader.read_text(f"{tmp_path}/a") == "x\ufffd\n"
    assert reader.readlink(f"{tmp_path}/l") == "a"
    assert sorted(reader.listdir(str(tmp_path))) == ["a", "big", "fifo", "l"]
    assert reader.exists(f"{tmp_path}/l")
    assert not reader.exists(f"{tmp_path}/none")
    assert reader.read_text(f"{tmp_path}/fifo") == ""
    with pytest.raises(OSError, match="longer") as failed:
        reader.read_text(f"{tmp_path}/big")
    assert failed.value.errno == errno.EFBIG


def test_a_cached_reader_asks_once():
    asked = []

    class Once:
        def read_text(self, path):
            asked.append(path)
            if path == "/bad":
                raise OSError(errno.EIO, "x")
            return "text"

        listdir = readlink = exists = read_text

    reader = CachedReader(Once())
    for _ in range(2):
        assert reader.read_text("/good") == "text"
        with pytest.raises(OSError, match="x"):
            reader.read_text("/bad")
    assert asked == ["/good", "/bad"]


def test_absence_is_no_warning_and_failure_is_one(pretend):
    machine = pretend({"/bad": {"errno": "EIO"}, "/no": {"errno": "ENODEV"}, "/odd": {"errno": "EINVAL"}, "/text": "x"})
    findings = Findings("test")
    look = Look(machine.reader, findings)
    assert [look.text(path) for path in ("/bad", "/no", "/none", "/text")] == [None, None, None, "x"]
    assert look.text("/odd", quiet=(errno.EINVAL,)) is None
    assert look.integer("/text") is None
    assert [str(warning) for warning in findings.warnings] == [
        "test: /bad: EIO: Input/output error",
        "test: /text: not a number: 'x'",
    ]
    look.text("/bad")
    assert len(findings.warnings) == 2


def test_a_path_that_no_system_takes_is_a_warning():
    findings = Findings("test")
    assert Look(SystemReader(), findings).text("/a\0b") is None
    assert len(findings.warnings) == 1


def test_warnings_are_bounded_and_labels_checked():
    findings = Findings("test")
    for number in range(100):
        findings.warn("x", number)
    assert len(findings.warnings) == WARNINGS_PER_PROBE
    other = Findings("test")
    for value in (None, "", "  ", 2**63, "x" * 257, "a\x00b", "\ud800"):
        other.label("key", value, "x")
    assert other.labels == {}
    other.label("key", "  a   b ", "x")
    assert other.labels == {"key": "a b"}


def test_works_run_side_by_side():
    started = time.monotonic()
    outcomes = run_all({f"side {number}": Work(lambda: time.sleep(0.1), 5) for number in range(8)})
    assert time.monotonic() - started < 0.6
    assert all(outcome.problem is None for outcome in outcomes.values())


def test_a_work_that_fails_tells_its_errno():
    def fail():
        raise OSError(errno.EACCES, "x")

    outcome = run_all({"failing": Work(fail, 1)})["failing"]
    assert (outcome.answer, outcome.error_number) == (None, errno.EACCES)
    assert "EACCES" in outcome.problem

import os
import sys
import time

import pytest
from shoal.capabilities.probes.programs import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are run on POSIX systems only")


def python(code, **limits):
    return run((sys.executable, "-c", code), **limits)


def test_output_and_status():
    answer = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (answer.code, answer.output, answer.errors) == (3, "out\n", "err\n")


def test_no_input_no_shell_and_a_plain_environment(monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    answer = run(("/bin/sh", "-c", 'cat; echo "$SECRET;$LC_ALL"; pwd', "$(touch /tmp/never)"))
    assert answer.output == ";C\n/\n"


def test_bytes_that_are_no_text():
    assert python("import os; os.write(1, b'\\xff\\x00a')").output == "\ufffd\0a"


def test_too_slow_is_killed_with_its_children():
    started = time.monotonic()
    code = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); import time; time.sleep(60)"
    )
    with pytest.raises(TimeoutError):
        python(code, seconds=0.3)
    assert time.monotonic() - started < 5


def test_a_child_that_keeps_the_output_open_is_too_slow():
    with pytest.raises(TimeoutError):
        run(("/bin/sh", "-c", "sleep 60 & echo done"), seconds=0.3)


def test_too_much_output_is_refused():
    with pytest.raises(OSError, match="more than 1000 bytes"):
        python("print('x' * 100000)", limit=1000)


def test_a_program_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        run(("/no/such/program",))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give its privileges away")
def test_root_runs_hooks_as_nobody():
    answer = run(("/usr/bin/id", "-u"), unprivileged=True)
    assert int(answer.output) not in (0, os.getuid())
    groups = run(("/usr/bin/id", "-G"), unprivileged=True)
    assert "0" not in groups.output.split()

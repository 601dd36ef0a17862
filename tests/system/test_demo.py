"""`shoal demo` leaves nothing behind, whenever it ends."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
from shoal.agent.demo_cluster import Cluster

DEMO = (sys.executable, "-u", "-m", "shoal.agent.cli", "demo")


@pytest.fixture
def demo(directory, clean_environment):
    """Start the demo with a place for temporary files of its own, as a terminal would: in a group of processes."""
    started = []

    def demo(*arguments, **extra):
        variables = clean_environment(TMPDIR=str(directory), **extra)
        started.append(
            subprocess.Popen(
                [*DEMO, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=variables,
                start_new_session=True,
            )
        )
        return started[-1]

    yield demo
    for process in started:
        process.kill()
        process.communicate()
    for process in ours(directory):
        process.kill()


def ours(directory):
    """Processes that have to do with this directory: by their command, or by what a demo gave them on, for one that
    was only just forked has the command of its parent."""
    known = psutil.process_iter(["cmdline", "environ"])
    return [process for process in known if _names(process.info, str(directory))]


def _names(info, directory):
    return (info["environ"] or {}).get("TMPDIR") == directory or any(
        directory in word for word in info["cmdline"] or ()
    )


def nothing_left(directory):
    return ours(directory) == [] and list(directory.iterdir()) == []


def said(process, word):
    """Read what the demo says until it says this."""
    for line in process.stdout:
        if word in line:
            return
    pytest.fail(f"it never said {word!r}: {process.stderr.read()}")


def test_the_demo_shows_what_it_promises_and_leaves_nothing(demo, directory, tmp_path):
    # A user's own agent is neither asked nor disturbed.
    process = demo(SHOAL_API_SOCKET=str(tmp_path / "own.sock"), SHOAL_NODE_STATE_DIR=str(tmp_path / "own.state"))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    for words in (
        "each of the five knew all five with their capabilities",
        "$ shoal find 'gpu_nvidia, gpu_vram_mb>=20GiB, region=us-east'",
        "Every one of the 4 survivors knew after",
        "the same node",
    ):
        assert words in out
    assert "Traceback" not in out
    assert nothing_left(directory)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("Starting five agents", signal.SIGINT),
        ("Starting five agents", signal.SIGTERM),
        ("Killing", signal.SIGINT),
        ("Killing", signal.SIGTERM),
        ("Every one of the 4 survivors", signal.SIGHUP),
    ],
)
def test_a_demo_that_is_told_to_stop_leaves_nothing(demo, directory, number, moment):
    process = demo()
    said(process, moment)
    os.killpg(process.pid, number)
    os.killpg(process.pid, number)  # people press twice
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert nothing_left(directory)


def test_what_was_killed_is_stopped_with_the_others(directory):
    class Sleepers(Cluster):
        @staticmethod
        def command(*_arguments):
            return [sys.executable, "-c", "import sys; sys.stdin.read()"]

    cluster = Sleepers(directory)
    for name in ("a", "b", "c"):
        cluster.start(name, {}, pretend=True)
        cluster.client(name)
    cluster.kill("b")
    cluster.stop()
    cluster.stop()
    assert [psutil.pid_exists(pid) for pid in cluster.pids()] == [False] * 3


@pytest.mark.parametrize("moment", ["Starting five agents", "Killing"])
def test_the_agents_of_a_demo_that_is_killed_stop_by_themselves(demo, directory, moment):
    process = demo()
    said(process, moment)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(ours(directory), timeout=20)
    assert alive == []
    assert ours(directory) == [], "none was starting meanwhile"


def test_a_demo_whose_reader_goes_leaves_nothing(demo, directory):
    """As in `shoal demo | head -1`."""
    process = demo()
    said(process, "Starting five agents")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=40)
    assert "Traceback" not in err
    assert nothing_left(directory)


def test_a_demo_that_is_kept_says_how_to_talk_to_it_and_how_to_stop_it(demo, directory, shoal):
    process = demo("--keep")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    talk = [line.split() for line in out.splitlines() if line.startswith("  shoal --socket ")]
    assert len(talk) == 5
    assert shoal(*talk[0][1:]).stdout.count("alive") == 5
    stop = next(line for line in out.splitlines() if line.startswith("  kill "))
    pids = [int(word.rstrip(";")) for word in stop.split() if word.rstrip(";").isdigit()]
    assert len(pids) == 5
    subprocess.run(["sh", "-c", stop.partition(";")[0]], check=True)
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=10)
    assert ours(directory) == []

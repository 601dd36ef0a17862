"""Detecting again in a running agent: by command, by signal, under a service manager and on a terminal."""

import os
import pty
import signal
import socket
import subprocess
import sys
import time

import pytest


@pytest.fixture
def one(agents):
    return agents("one", labels={"rack": 7}, detect={"enabled": False}).start().ready()


def labels_of(agent, name="one"):
    return agent.rows()[name]["labels"]


def test_labels_of_the_configuration_are_read_again_and_everyone_learns(agents, cluster, shoal, eventually):
    one, two = cluster("one", "two")
    one.configure({"labels": {"rack": 8, "zone": "a"}, "gossip": {"cluster": "elsewhere"}})
    done = shoal("reload", agent=one)
    assert (done.returncode, done.stdout) == (0, "+ rack = 8\n+ zone = a\n")
    assert "in force after a restart" in done.stderr
    assert "gossip.cluster" in done.stderr
    eventually(lambda: labels_of(two).get("zone") == "a", "the label at the other node")
    assert one.status()["cluster"] == "shoal"


def test_a_bad_configuration_changes_nothing(one, shoal):
    before = labels_of(one)
    one.config.write_text(one.config.read_text() + "[gossyp]\nx = 1\n")
    done = shoal("reload", agent=one)
    assert done.returncode == 78
    assert "unknown section [gossyp]" in done.stderr
    assert labels_of(one) == before
    one.send(signal.SIGHUP)
    assert one.status()["name"] == "one"


def test_hangup_reloads_and_the_service_manager_is_told(agents, directory, eventually):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(30)
        agent = agents("one").start(NOTIFY_SOCKET=manager.getsockname())
        assert manager.recv(4096).startswith(b"READY=1")
        agent.configure({"labels": {"zone": "a"}})
        before = time.monotonic_ns() // 1000
        agent.send(signal.SIGHUP)
        reloading, since = manager.recv(4096).split(b"\nMONOTONIC_USEC=")
        assert reloading == b"RELOADING=1"
        assert before <= int(since) <= time.monotonic_ns() // 1000
        assert manager.recv(4096).startswith(b"READY=1")
        assert labels_of(agent)["zone"] == "a"
        assert agent.process.poll() is None


def test_many_hangups_at_once_do_no_harm(one, eventually):
    for _ in range(50):
        one.send(signal.SIGHUP)
    one.configure({"labels": {"rack": 9}})
    one.send(signal.SIGHUP)
    eventually(lambda: labels_of(one).get("rack") == 9, "the last configuration")
    assert one.stop() == 0


def on_a_terminal(agent, environment, *, ignoring=False):
    """Run an agent on a terminal of its own, as nohup does when `ignoring`; its process id and the terminal."""
    command = [sys.executable, "-m", "shoal.agent.cli", "run", "--config", str(agent.config)]
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignoring else signal.SIG_DFL)
        os.execve(command[0], command, environment)
    return child, terminal


def has_ended(child):
    """Whether that child process has ended; it stays to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def test_the_end_of_its_terminal_stops_it(agents, eventually, clean_environment):
    agent = agents("one")
    child, terminal = on_a_terminal(agent, clean_environment())
    try:
        eventually(agent.status, "the start")
        agent.configure({"labels": {"zone": "a"}})
        os.kill(child, signal.SIGHUP)
        eventually(lambda: labels_of(agent).get("zone") == "a", "a reload: the terminal is still there")
        os.close(terminal)
        eventually(lambda: has_ended(child), "its end, without its terminal")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_nohup_lets_it_outlive_its_terminal(agents, eventually, clean_environment):
    agent = agents("one")
    child, terminal = on_a_terminal(agent, clean_environment(), ignoring=True)
    try:
        eventually(agent.status, "the start")
        agent.configure({"labels": {"zone": "a"}})
        os.close(terminal)
        eventually(lambda: labels_of(agent).get("zone") == "a", "a reload in place of a stop")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_real_machine_shows_warnings_and_free_space_where_they_belong(agents, directory, shoal, eventually):
    labels = directory / "labels.d"
    labels.mkdir()
    (labels / "site").write_text("site/rack=7\nno label at all\n")
    (labels / "site").chmod(0o644)
    agent = agents(
        "one", detect={"enabled": True, "labels_dir": str(labels), "probes_dir": "", "disk_paths": [str(directory)]}
    )
    agent.start().ready()
    status = eventually(lambda: agent.status()["disk_free_mb"] and agent.status(), "free space")
    assert set(status["disk_free_mb"]) == {str(agent.state), str(directory)}
    assert all(amount > 0 for amount in status["disk_free_mb"].values())
    told = [warning for warning in status["warnings"] if str(labels) in warning]
    assert len(told) == 1
    for command in (("status",), ("show", "one")):
        assert shoal(*command, agent=agent).stdout.count(told[0]) == 1
    shoal("reload", agent=agent)
    assert agent.output().count(str(labels / "site")) == 1, "the log says it once"
    done = shoal("detect", "--config", agent.config)
    assert done.stderr.count(told[0]) == 1
    assert "site/rack" in done.stdout


def test_detect_writes_what_other_systems_take(shoal):
    done = subprocess.run(
        [sys.executable, "-m", "shoal.agent.cli", "detect", "--as", "k8s-labels"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert "shoal/os=linux" in lines
    assert all(len(line.partition("=")[2]) <= 63 for line in lines)

"""The agent as a service: the unit file, and the notify protocol spoken by a real process."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "shoal.service"
INSTALLED = "/opt/shoal/bin/shoal"


@pytest.fixture
def manager(directory):
    """The service manager's end of the notify protocol."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(directory / "notify"))
        sock.settimeout(30)
        yield sock


def test_the_unit_file_is_accepted():
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    # Warnings are errors here: an option that systemd does not know does nothing.
    done = subprocess.run([analyze, "verify", "--man=no", str(UNIT)], capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "shoal" in line]
    assert ours == []
    assert done.returncode == 0


def test_the_unit_keeps_state_and_socket_where_systemd_makes_the_directories():
    lines = UNIT.read_text().splitlines()
    assert "StateDirectory=shoal" in lines
    assert "RuntimeDirectory=shoal" in lines
    assert "Environment=SHOAL_NODE_STATE_DIR=%S/shoal" in lines


def test_what_the_readme_installs_is_what_the_unit_starts():
    lines = [line.partition("#")[0].strip() for line in (ROOT / "README.md").read_text().splitlines()]
    directory = INSTALLED.removesuffix("/bin/shoal")
    unit = UNIT.read_text()
    user = next(line for line in lines if line.startswith("sudo useradd --system --user-group"))
    for line in (
        f"sudo python3 -m venv {directory}",
        f"sudo {directory}/bin/pip install .",
        "sudo systemctl enable --now shoal",
    ):
        assert line in lines
    assert f"User={user.split()[-1]}\nGroup={user.split()[-1]}\n" in unit
    assert "ExecStart=/usr/bin/env shoal run\n" in unit
    path = next(line for line in unit.splitlines() if line.startswith("Environment=PATH="))
    assert path.endswith(f":{directory}/bin")


def test_it_tells_when_it_is_ready_alive_and_stopping(agents, manager):
    agent = agents("one").start(NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="200000")
    first = manager.recv(4096)
    assert first.startswith(b"READY=1\nSTATUS=one on 127.0.0.1:")
    assert agent.status()["name"] == "one", "ready means that it answers"
    assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    assert agent.stop() == 0
    rest = []
    while b"STOPPING=1" not in rest:
        rest.append(manager.recv(4096))


def test_the_service_manager_s_runtime_directory_is_where_the_socket_is(directory, agents, shoal):
    agent = agents("one", api={"socket": ""})
    agent.socket = directory / "run" / "api.sock"
    agent.start(RUNTIME_DIRECTORY=str(directory / "run")).ready()
    assert shoal("status", "-o", "name", agent=agent).stdout == "one\n"

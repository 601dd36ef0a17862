"""Real agents as processes on loopback. Everything waits for what it wants to see, with a deadline; nothing sleeps."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from shoal.agent.client import Client
from shoal.agent.errors import ShoalError

# On a loaded machine starts, convergence and failures take their time; a test that passes never waits this long.
PATIENCE = 45.0
PAUSE = 0.02
COMMAND = (sys.executable, "-m", "shoal.agent.cli")
FOREIGN = ("SHOAL_", "NOTIFY_SOCKET", "WATCHDOG_", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR")


def environment(**extra):
    """The environment without what configures or supervises an agent of the user's own."""
    return {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)} | extra


def wait_until(holds, what="it", within=PATIENCE):
    """The first true answer of `holds`; an agent that does not answer yet is not an answer."""
    until = time.monotonic() + within
    while True:
        with contextlib.suppress(ShoalError):
            if answer := holds():
                return answer
        assert time.monotonic() < until, f"{what} did not come to hold within {within:.0f} s"
        time.sleep(PAUSE)


class AgentProcess:
    """One agent: its files, its process when it runs, and its socket."""

    def __init__(self, directory, name, settings):
        self.name = name
        self.config = directory / f"{name}.toml"
        self.socket = directory / f"{name}.sock"
        self.state = directory / f"{name}.state"
        self.log = directory / f"{name}.log"
        self.process = None
        self.configure(settings)

    def configure(self, settings):
        tables = {
            "node": {"name": self.name, "state_dir": str(self.state)},
            "gossip": {"bind": "127.0.0.1:0", "profile": "local"},
            "api": {"socket": str(self.socket), "group": "no-such-group-here"},
            "detect": {"enabled": False},
        }
        for section, values in settings.items():
            tables.setdefault(section, {}).update(values)
        self.config.write_text(
            "\n".join(
                f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
                for table, values in tables.items()
            )
        )

    def start(self, **extra):
        """Start the process; `ready` waits for it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "run", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**extra),
            )
        return self

    def ready(self):
        wait_until(lambda: self.process.poll() is not None or self.status(), f"the start of {self.name}")
        assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.output()}"
        return self

    def client(self):
        return Client(str(self.socket))

    def call(self, name, args=None, timeout=None):
        with self.client() as client:
            return client.call(name, args, timeout)

    def status(self):
        return self.call("status")

    @property
    def address(self):
        return self.status()["addr"]

    @property
    def node_id(self):
        return self.status()["node_id"]

    def rows(self):
        """Every node it knows, by name."""
        return {row["name"]: row for row in self.call("members")["nodes"]}

    def states(self):
        return {name: row["state"] for name, row in self.rows().items()}

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, number=signal.SIGTERM):
        """Stop it as a service manager does; the exit code."""
        self.send(number)
        return self.process.wait(PATIENCE)

    def output(self):
        return self.log.read_text(errors="replace")


class Watch:
    """What one agent tells a watcher, read by a thread."""

    def __init__(self, agent):
        self.events = []
        self._client = agent.client()
        first = threading.Event()
        threading.Thread(target=self._read, args=(first,), daemon=True).start()
        assert first.wait(PATIENCE), "no snapshot came"

    def _read(self, first):
        with contextlib.suppress(ShoalError):
            for event in self._client.watch(labels=True):
                self.events.append(event)
                first.set()

    def kinds(self, node_id):
        """The events about one node, in order."""
        return [event["event"] for event in self.events if event.get("node_id") == node_id]


@pytest.fixture
def directory():
    """A directory with a short path: a socket's path has at most 103 bytes."""
    path = Path(tempfile.mkdtemp(prefix="shoal-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def agents(directory):
    """Makes agents, by name and settings as in a configuration; those that still run at the end are killed."""
    made = {}

    def make(name, **settings):
        made[name] = AgentProcess(directory, name, settings)
        return made[name]

    yield make
    for agent in made.values():
        if agent.process is not None and agent.process.poll() is None:
            agent.process.kill()
            agent.process.wait()
        if agent.log.exists():
            print(f"--- log of {agent.name}\n{agent.output()}")


@pytest.fixture
def cluster(agents):
    """Makes agents that run and know each other, the first being the seed of the others."""

    def make(*names, profile="local"):
        seed = agents(names[0], gossip={"profile": profile}).start().ready()
        gossip = {"profile": profile, "seeds": [seed.address]}
        others = [agents(name, gossip=gossip).start() for name in names[1:]]
        made = [seed, *(agent.ready() for agent in others)]
        alive = dict.fromkeys(names, "alive")
        wait_until(lambda: all(agent.states() == alive for agent in made), f"a cluster of {', '.join(names)}")
        return made

    return make


@pytest.fixture
def shoal():
    """Run a command line to its end."""

    def shoal(*arguments, timeout=PATIENCE, agent=None, **extra):
        leading = ["--socket", str(agent.socket)] if agent is not None else []
        return subprocess.run(
            [*COMMAND, *leading, *map(str, arguments)],
            env=environment(**extra),
            timeout=timeout,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return shoal


@pytest.fixture
def eventually():
    return wait_until


@pytest.fixture
def watch():
    return Watch


@pytest.fixture
def clean_environment():
    return environment

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

# Tests are imported by path (import-mode=importlib), so that their helper needs a place to be found.
sys.path.insert(0, str(Path(__file__).parent))

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
    """One agent: its files, its process when it runs, and its socket. `within` leads the command to another place."""

    def __init__(self, directory, name, settings):
        self.name = name
        self.within = ()
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
                [*self.within, *COMMAND, "run", "--config", str(self.config)],
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

    def at(self, kind, node_id):
        """The Unix times of the events of one kind about one node."""
        return [event["at"] for event in self.events if (event["event"], event.get("node_id")) == (kind, node_id)]


def agree(agents, states):
    """Whether all of them show exactly these states, by name."""
    return all(agent.states() == states for agent in agents)


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
        wait_until(lambda: agree(made, alive), f"a cluster of {', '.join(names)}")
        return made

    return make


@pytest.fixture
def network():
    """Machines of their own, as network namespaces on a switch that can lose packets (see `network_lab`)."""
    import network_lab

    if why := network_lab.why_not():
        pytest.skip(why)
    with network_lab.Network() as network:
        yield network


@pytest.fixture
def on_host(network, agents):
    """Makes an agent that runs on a host of the network, of its own name if no other is given."""

    def on_host(name, place=None, **settings):
        place = place or name
        host = network.hosts.get(place) or network.host(place)
        gossip = {"bind": host.address, "allow_plaintext": True, **settings.pop("gossip", {})}
        agent = agents(name, gossip=gossip, **settings)
        agent.within = host.within
        return agent

    return on_host


@pytest.fixture
def spread_out(network, on_host):
    """Makes a cluster with each agent on a host of its own, the first being the seed of the others."""

    def spread_out(*names, gossip=None, **settings):
        seeds = {**(gossip or {}), "seeds": [network.host(names[0]).address]}
        made = [on_host(name, gossip=seeds, **settings).start() for name in names]
        for agent in made:
            agent.ready()
        wait_until(lambda: agree(made, dict.fromkeys(names, "alive")), f"a cluster of {', '.join(names)}")
        return made

    return spread_out


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
def throughout():
    """Something holds for a time, in seconds: looked at again and again."""

    def throughout(seconds, holds, what="it"):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert holds(), f"{what} ceased to hold"
            time.sleep(10 * PAUSE)

    return throughout


@pytest.fixture
def watch():
    return Watch


@pytest.fixture
def clean_environment():
    return environment

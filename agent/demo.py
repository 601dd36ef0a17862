"""`shoal demo`: a real cluster of five agents on this machine that answers placement questions, loses a node and heals.

One agent shows this machine as it was detected; four pretend other hardware by their labels. Everything lives in one
temporary directory and in child processes that are ended by pid, also on Ctrl-C. Killed with SIGKILL, the demo leaves
the directory, and the agents stop by themselves.
"""

import contextlib
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import MappingProxyType

from .client import Client
from .demo_cluster import Cluster, DemoFailed
from .errors import ShoalError

# What the four others claim to be. Amounts are in MiB, as everywhere.
HARDWARE = MappingProxyType(
    {
        "gpu-box": {
            "arch": "amd64", "region": "us-east", "cpu_count": 32, "ram_mb": 131072, "tool_git": True,
            "gpu_nvidia": True, "gpu_count": 2, "gpu_name": "NVIDIA GeForce RTX 4090", "gpu_vram_mb": 24564,
            "tool_ollama": True,
        },
        "small-gpu": {
            "arch": "amd64", "region": "eu-west", "cpu_count": 8, "ram_mb": 32768, "tool_git": True,
            "gpu_nvidia": True, "gpu_count": 1, "gpu_name": "Tesla T4", "gpu_vram_mb": 15360,
            "tool_ollama": True,
        },
        "big-memory": {
            "arch": "amd64", "region": "us-east", "cpu_count": 96, "ram_mb": 1048576, "tool_git": True,
            "gpu_nvidia": False,
        },
        "arm-box": {
            "arch": "arm64", "region": "eu-west", "cpu_count": 64, "ram_mb": 262144, "tool_docker": True,
            "gpu_nvidia": False,
        },
    }
)  # fmt: skip
QUESTIONS = (
    "gpu_nvidia, gpu_vram_mb>=20GiB, region=us-east",
    "(arch=arm64 | ram_mb>=500GiB)",
)
PLACED = ("--tool", "git", "run a 13b model")
TOO_MUCH = "gpu_nvidia, gpu_count>=4"
VICTIM = "gpu-box"
POLL_SECONDS = 0.02
# What a shell reports for a program that Ctrl-C ended.
INTERRUPTED = 128 + 2


def main(*, keep: bool = False) -> int:
    """Run the demo; 0 when everything it shows came true. `keep` leaves the cluster up."""
    interrupts = Interrupts()
    directory = Path(tempfile.mkdtemp(prefix="shoal-demo-"))
    cluster = Cluster(directory, undisturbed=interrupts.held)
    kept = False
    try:
        try:
            interrupts.begin()
            _show(cluster)
            if keep:
                _explain_how_to_talk(cluster)
                cluster.stay()
                kept = True
        finally:
            interrupts.over()
    except DemoFailed as failure:
        print(f"shoal demo: {failure}", file=sys.stderr)
        return ShoalError.exit_code
    except KeyboardInterrupt:
        print("\nstopping the five agents ...", file=sys.stderr)
        return INTERRUPTED
    finally:
        interrupts.over()
        if not kept:
            try:
                cluster.stop()
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    if not kept:
        _say("All agents stopped; no process and no file is left. Next: `shoal run`, and README.md for three machines.")
    return 0


class Interrupts:
    """Ctrl-C and the other wishes to stop: raised as KeyboardInterrupt, but never in a step that must be whole.

    Nothing is raised before `begin` and after `over`.
    """

    def __init__(self) -> None:
        self._holding = 1
        self._wanted = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._arrived)

    def _arrived(self, _number: int, _frame: object) -> None:
        self._wanted = True
        if not self._holding:
            raise KeyboardInterrupt

    def begin(self) -> None:
        self._holding -= 1
        if self._wanted and not self._holding:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """What comes meanwhile is raised at the end."""
        self._holding += 1
        try:
            yield
        finally:
            self.begin()

    def over(self) -> None:
        """From now on we are stopping anyway: a second Ctrl-C must not leave half of that undone."""
        self._holding += 1


def _show(cluster: Cluster) -> None:
    _say("Starting five agents on 127.0.0.1: this machine as detected, and four that pretend other hardware ...")
    started = time.monotonic()
    own = (platform.node().partition(".")[0] or "this-machine")[:63]
    own = f"{own}-here" if own in HARDWARE else own
    cluster.start(own, {"region": "us-east"}, pretend=False)
    seed = cluster.address(own)
    for name, labels in HARDWARE.items():
        cluster.start(name, labels, pretend=True, seed=seed)
    for name in HARDWARE:
        cluster.address(name)
    ready = time.monotonic()
    _wait("every agent to know all five with their records", lambda: all(_knows_all(c) for c in cluster.clients()))
    _say(
        f"All ready after {ready - started:.1f} s, and {time.monotonic() - ready:.2f} s later "
        "each of the five knew all five with their capabilities.\n"
    )
    _run(cluster, own, "members")
    for question in QUESTIONS:
        _run(cluster, own, "find", question)
    _run(cluster, own, "place", *PLACED)
    _run(cluster, own, "explain", TOO_MUCH, "small-gpu")
    _fail_and_return(cluster, own)


def _fail_and_return(cluster: Cluster, own: str) -> None:
    with Client(cluster.socket(own)) as client:
        before = client.show(VICTIM)
    survivors = [name for name in cluster.names() if name != VICTIM]
    _say(f"Killing {VICTIM} with SIGKILL: nobody says goodbye, the others must notice ...")
    killed = time.monotonic()
    cluster.kill(VICTIM)
    _wait("every survivor to know", lambda: all(_state(cluster, name) == "dead" for name in survivors))
    _say(f"Every one of the {len(survivors)} survivors knew after {time.monotonic() - killed:.1f} s.\n")
    _run(cluster, own, "find", QUESTIONS[0])
    _say(f"Starting {VICTIM} again on what it kept in its state directory ...")
    again = time.monotonic()
    cluster.start(VICTIM, HARDWARE[VICTIM], pretend=True, seed=cluster.address(own))
    _wait("it to be back everywhere", lambda: all(_state(cluster, name) == "alive" for name in survivors))
    with Client(cluster.socket(own)) as client:
        after = client.show(VICTIM)
    if after["node_id"] != before["node_id"] or after["generation"] <= before["generation"]:
        raise DemoFailed(f"{VICTIM} came back as {after['node_id']} in generation {after['generation']}")
    _say(
        f"Back everywhere after {time.monotonic() - again:.1f} s: the same node {after['node_id'][:8]}, "
        f"generation {before['generation']} -> {after['generation']}.\n"
    )


def _run(cluster: Cluster, name: str, *arguments: str) -> None:
    """Show a command and what it prints, as a user would see it."""
    _say(f"$ shoal {shlex.join(arguments)}")
    environment = cluster.environment(SHOAL_API_SOCKET=cluster.socket(name))
    done = subprocess.run(  # noqa: S603 - our own command line
        cluster.command(*arguments), env=environment, timeout=20, check=False, capture_output=True, text=True
    )
    _say(done.stdout + done.stderr)


def _knows_all(client: Client) -> bool:
    nodes = client.members(labels=["arch"], states=["alive"])
    return len(nodes) == len(HARDWARE) + 1 and all(node.get("labels") for node in nodes)


def _state(cluster: Cluster, name: str) -> str:
    return str(cluster.client(name).show(VICTIM)["state"])


def _wait(what: str, holds: Callable[[], bool], within: float = 20.0) -> None:
    until = time.monotonic() + within
    while not holds():
        if time.monotonic() > until:
            raise DemoFailed(f"waited {within:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)


def _explain_how_to_talk(cluster: Cluster) -> None:
    _say(f"The cluster stays up; its files are in {cluster.directory}. Talk to any of its agents:")
    for name in cluster.names():
        _say(f"  shoal --socket {shlex.quote(cluster.socket(name))} members")
    pids = " ".join(str(pid) for pid in cluster.pids())
    _say(f"Stop it with:\n  kill {pids}; rm -r {shlex.quote(str(cluster.directory))}")


def _say(text: str) -> None:
    print(text, flush=True)

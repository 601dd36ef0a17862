"""Agents as processes on loopback, whatever their kind, and what each of them shows: for `cluster` and `serf`.

Not a script. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import trio

# Below the ephemeral range, so that no outgoing connection takes a port before its agent binds it.
PORTS = range(20000, 32000)


class Watched(ABC):
    """One agent process and what it showed: state and mark of every node, by node id; each change with its time."""

    everybody_tells: ClassVar[bool] = True
    """Whether a suspicion is shown by all who hear of it, or only by the one who has it."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_at: float | None = None
        self.nodes: dict[str, dict[str, object]] = {}
        self.node_id = ""
        self.seen: list[tuple[float, str, str]] = []

    @property
    @abstractmethod
    def command(self) -> Sequence[str]:
        """What starts it."""

    @abstractmethod
    async def watch(self) -> None:
        """Keep `nodes` and `seen` until the process ends; the first thing that came makes it ready."""

    @abstractmethod
    async def change_mark(self, value: int) -> None:
        """Change its label, and return when the agent took the order."""

    @abstractmethod
    def leave(self) -> None:
        """Ask it to leave and end."""

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def forget_all(self) -> None:
        """What it showed before it was killed is nothing that it shows now."""
        self.ready_at = None
        self.nodes = {}

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def alive(self) -> int:
        return sum(node["state"] == "alive" and node["mark"] is not None for node in self.nodes.values())

    def shows(self, node_id: str, key: str, value: object) -> bool:
        return self.nodes.get(node_id, {}).get(key) == value


class Fleet:
    """N agents in one directory; the first one is everybody's seed, and started with the rest."""

    def __init__(self, make: Callable[[Path, int], list[Watched]], count: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
        self.agents = make(self.directory, count)
        self.dead: set[str] = set()

    @property
    def live(self) -> list[Watched]:
        return [agent for agent in self.agents if agent.node_id not in self.dead]

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self) -> None:
        """End every process at once."""
        running = [agent.process for agent in self.agents if agent.process is not None]
        for process in running:
            if process.poll() is None:
                process.kill()
        for process in running:
            process.wait()

    def false_failures(self, since: float = 0.0) -> int:
        """Failures shown of nodes that were alive."""
        return sum(
            kind == "failed" and node not in self.dead and at >= since
            for agent in self.live
            for at, kind, node in agent.seen
        )


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free for UDP and TCP."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            try:
                udp.bind(("127.0.0.1", port))
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            break
    return found


async def until(holds: Callable[[], bool], within: float) -> float | None:
    """When it began to hold, to 10 ms; None when it did not within that time."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return None
        await trio.sleep(0.01)
    return time.monotonic()


def usage(pid: int) -> dict[str, float]:
    """CPU seconds, voluntary wake-ups of all threads, and memory in MiB of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    return {
        "cpu": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "wakes": float(sum(_number(task / "status", "voluntary_ctxt_switches") for task in _tasks(pid))),
        "rss": _number(Path(f"/proc/{pid}/status"), "VmRSS") / 1024,
        "private": private / 1024,
    }


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _number(status: Path, key: str) -> int:
    for line in status.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0])
    raise RuntimeError(f"{status} has no {key}")


def udp_totals() -> int:
    """UDP datagrams sent by this network namespace so far."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Udp:")]
    return int(dict(zip(lines[0], lines[1], strict=True))["OutDatagrams"])


def loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            return int(rest.split()[8])
    raise RuntimeError("no loopback interface")


def lose(share: float) -> None:
    """From now on this share of the UDP and TCP packets on loopback gets lost, each by itself.

    They are dropped where they arrive, so that to the sender they look sent. Only in a network namespace of our own:
    on a machine's own loopback others would suffer.
    """
    if other := [name for _, name in socket.if_nameindex() if name != "lo"]:
        raise SystemExit(f"--loss is only for a namespace of its own (see --help); this one has {', '.join(other)}")
    way = "add chain ip lab way { type filter hook input priority 0; }"
    rule = f"add rule ip lab way meta l4proto {{ tcp, udp }} numgen random mod 1000 < {round(share * 1000)} drop"
    lines = ["add table ip lab", "delete table ip lab", *(["add table ip lab", way, rule] if share else [])]
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


def summary(samples: Sequence[float | None]) -> dict[str, object]:
    """Median and the worst; a sample that never came is None among the samples, and makes the worst None."""
    done = sorted(sample for sample in samples if sample is not None)
    shown = [None if sample is None else round(sample, 3) for sample in samples]
    if not done:
        return {"samples": shown}
    worst = None if None in samples else round(done[-1], 3)
    return {"median": round(statistics.median(done), 3), "max": worst, "samples": shown}

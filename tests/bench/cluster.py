"""A real cluster of N agents on loopback, watched through their sockets; prints one JSON object.

    .venv/bin/python tests/bench/cluster.py --nodes 64 --starts 10 --kills 20 --idle 60

Packets and bytes are those of the whole network namespace: on a machine with other traffic give it one of its own,

    unshare --net sh -c 'ip link set lo up; .venv/bin/python tests/bench/cluster.py --idle 60 --sealed'

Every agent is a process with its own configuration; one observer holds a `watch` stream to each. Times are seconds.
Peers on the same kind of machine (2 cores), measured once: serf 64 at once 0.9-1.2 s, but 25-90 s in a third of
starts; kill to last survivor 9.7 s (lan timings); leave 1.0 s; label change 0.57 s; idle CPU 0.25 %, 2 packets/s.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio
from shoal.agent.frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode

READY_SECONDS = 180.0
SETTLE_SECONDS = 60.0
KEY_FILE = "gossip.key"


class Watched:
    """One agent process and what its watch stream showed: state and label of every node, by node id."""

    def __init__(self, index: int, directory: Path, port: int, seed: int, profile: str, *, sealed: bool) -> None:
        self.name = f"n{index:03d}"
        self.socket = str(directory / f"{self.name}.sock")
        self.config = directory / f"{self.name}.toml"
        key_file = f'key_file = "{directory}/{KEY_FILE}"\n' if sealed else ""
        self.config.write_text(
            f'[node]\nname = "{self.name}"\n[gossip]\nbind = "127.0.0.1:{port}"\nseeds = ["127.0.0.1:{seed}"]\n'
            f'profile = "{profile}"\n{key_file}[api]\nsocket = "{self.socket}"\n[log]\nlevel = "warning"\n'
            '[labels]\nmark = 0\nregion = "here"\n'
        )
        self.log = directory / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_at: float | None = None
        self.nodes: dict[str, dict[str, object]] = {}
        self.node_id = ""
        self.seen: list[tuple[float, str, str]] = []

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "shoal.agent.cli", "run", "--config", str(self.config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def watch(self) -> None:
        stream = await self._connect()
        reader = FrameReader(REPLY_BYTES)
        request = {"id": 1, "call": "watch", "args": {"labels": ["mark"]}}
        await stream.send_all(encode(request, REQUEST_BYTES))
        while data := await stream.receive_some(1 << 16):
            reader.feed(data)
            while (message := reader.next_message()) is not None:
                self._take(message)

    async def _connect(self) -> trio.SocketStream:
        while True:
            try:
                return await trio.open_unix_socket(self.socket)
            except OSError:
                await trio.sleep(0.05)

    def _take(self, message: dict) -> None:
        now = time.monotonic()
        if "hello" in message:
            self.node_id = message["hello"]["node_id"]
            self.ready_at = now
            return
        event = message["ok"]
        for row in event.get("nodes", ()):
            self._row(row)
        if "node" in event:
            self._row(event["node"])
        if "node_id" in event:
            self.seen.append((now, event["event"], event["node_id"]))

    def _row(self, row: dict) -> None:
        self.nodes[row["node_id"]] = {"state": row["state"], "mark": row.get("labels", {}).get("mark")}

    def alive(self) -> int:
        return sum(node["state"] == "alive" and node["mark"] is not None for node in self.nodes.values())


class Cluster:
    """N agents; the first one is everybody's seed, and started with the rest."""

    def __init__(self, count: int, profile: str, *, sealed: bool = False) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
        ports = free_ports(count)
        if sealed:
            key = self.directory / KEY_FILE
            key.touch(0o600)
            key.write_text(base64.b64encode(os.urandom(32)).decode())
        self.agents = [
            Watched(i, self.directory, port, ports[0], profile, sealed=sealed) for i, port in enumerate(ports)
        ]
        self.dead: set[str] = set()

    @property
    def live(self) -> list[Watched]:
        return [agent for agent in self.agents if agent.node_id not in self.dead]

    def stop(self) -> None:
        for agent in self.agents:
            if agent.process is not None and agent.process.poll() is None:
                agent.process.kill()
        for agent in self.agents:
            if agent.process is not None:
                agent.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def false_failures(self) -> int:
        """Failures shown of nodes that were alive."""
        return sum(kind == "failed" and node not in self.dead for a in self.live for _, kind, node in a.seen)


def free_ports(count: int) -> list[int]:
    """Ports below the ephemeral range, so that no outgoing connection takes one before its agent binds it."""
    found: list[int] = []
    for port in random.sample(range(20000, 32000), 12000):
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
    """When it began to hold, on the monotonic clock, to 10 ms; None when it did not within that time."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return None
        await trio.sleep(0.01)
    return time.monotonic()


async def start_once(cluster: Cluster, nursery: trio.Nursery) -> float | None:
    """Start all at once; seconds from the last being ready to every view being complete, records included."""
    for agent in cluster.agents:
        agent.start()
        nursery.start_soon(agent.watch)
    if await until(lambda: all(agent.ready_at is not None for agent in cluster.agents), READY_SECONDS) is None:
        return None
    count = len(cluster.agents)
    complete = await until(lambda: all(agent.alive() == count for agent in cluster.agents), SETTLE_SECONDS)
    if complete is None:
        for agent in cluster.agents:
            assert agent.process is not None
            if agent.process.poll() is not None or agent.alive() != count:
                print(agent.name, agent.process.poll(), agent.alive(), agent.log.read_text()[-500:], file=sys.stderr)
    return None if complete is None else max(0.0, complete - max(agent.ready_at or 0.0 for agent in cluster.agents))


async def kill_one(cluster: Cluster, victim: Watched) -> float | None:
    """Seconds from SIGKILL until the last survivor shows it dead."""
    assert victim.process is not None
    cluster.dead.add(victim.node_id)
    killed = time.monotonic()
    victim.process.kill()
    done = await until(lambda: all(a.nodes[victim.node_id]["state"] == "dead" for a in cluster.live), 90.0)
    victim.process.wait()
    return None if done is None else done - killed


async def leave_one(cluster: Cluster, leaver: Watched) -> float | None:
    """Seconds from SIGTERM until everybody shows it left."""
    assert leaver.process is not None
    cluster.dead.add(leaver.node_id)
    asked = time.monotonic()
    leaver.process.terminate()
    done = await until(lambda: all(a.nodes[leaver.node_id]["state"] == "left" for a in cluster.live), 60.0)
    return None if done is None else done - asked


async def change_label(cluster: Cluster, owner: Watched, value: int) -> float | None:
    """Seconds from the call until everybody has the new value."""
    stream = await trio.open_unix_socket(owner.socket)
    asked = time.monotonic()
    request = {"id": 1, "call": "labels_set", "args": {"labels": {"mark": value}}}
    await stream.send_all(encode(request, REQUEST_BYTES))
    done = await until(lambda: all(a.nodes[owner.node_id]["mark"] == value for a in cluster.live), 60.0)
    await stream.aclose()
    return None if done is None else done - asked


async def stop_for(cluster: Cluster, sleeper: Watched, seconds: float) -> int:
    """How many members showed it failed while it was stopped, and shortly after."""
    before = cluster.false_failures()
    os.kill(sleeper.pid, signal.SIGSTOP)
    await trio.sleep(seconds)
    os.kill(sleeper.pid, signal.SIGCONT)
    await trio.sleep(5)
    return cluster.false_failures() - before


def usage(pid: int) -> dict[str, float]:
    """CPU seconds, voluntary wake-ups, and memory in MiB of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    return {
        "cpu": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "wakes": float(status["voluntary_ctxt_switches"]),
        "rss": int(status["VmRSS"].split()[0]) / 1024,
        "private": private / 1024,
    }


def udp_totals() -> int:
    """UDP datagrams sent by this machine so far."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Udp:")]
    return int(dict(zip(lines[0], lines[1], strict=True))["OutDatagrams"])


def loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            return int(rest.split()[8])
    raise RuntimeError("no loopback interface")


async def idle(cluster: Cluster, seconds: float) -> dict[str, float]:
    """Means per agent while nothing happens."""
    before = {a.name: usage(a.pid) for a in cluster.live}
    packets, sent, began = udp_totals(), loopback_bytes(), time.monotonic()
    await trio.sleep(seconds)
    passed = time.monotonic() - began
    after = {a.name: usage(a.pid) for a in cluster.live}
    count = len(after)
    per = count * passed
    return {
        "cpu_percent": 100 * sum(after[n]["cpu"] - before[n]["cpu"] for n in after) / per,
        "wakeups_per_s": sum(after[n]["wakes"] - before[n]["wakes"] for n in after) / per,
        "udp_packets_per_s": (udp_totals() - packets) / per,
        # The loopback device counts IP headers, and an Ethernet header of 14 bytes that a real network has too.
        "bytes_per_s_without_ethernet": (loopback_bytes() - sent - 14 * (udp_totals() - packets)) / per,
        "rss_mib": statistics.median(after[n]["rss"] for n in after),
        "private_mib": statistics.median(after[n]["private"] for n in after),
    }


def summary(samples: list[float | None]) -> dict[str, object]:
    done = sorted(s for s in samples if s is not None)
    shown = [None if s is None else round(s, 3) for s in samples]
    if not done:
        return {"samples": shown}
    return {"median": round(statistics.median(done), 3), "max": round(done[-1], 3), "samples": shown}


async def bench(options: argparse.Namespace) -> dict[str, object]:
    result: dict[str, object] = {
        "nodes": options.nodes,
        "profile": options.profile,
        "sealed": options.sealed,
        "cpus": os.cpu_count(),
    }
    starts: list[float | None] = []
    for left in reversed(range(options.starts)):
        cluster = Cluster(options.nodes, options.profile, sealed=options.sealed)
        try:
            async with trio.open_nursery() as nursery:
                starts.append(await start_once(cluster, nursery))
                print(f"start {len(starts)}: {starts[-1]}", file=sys.stderr)
                if left == 0 and starts[-1] is not None:
                    await measure(cluster, options, result)
                nursery.cancel_scope.cancel()
        finally:
            cluster.stop()
    result["start"] = summary(starts)
    return result


async def measure(cluster: Cluster, options: argparse.Namespace, result: dict[str, object]) -> None:
    chance = random.Random(options.seed)
    await trio.sleep(min(10.0, options.idle))
    if options.idle:
        result["idle"] = {key: round(value, 3) for key, value in (await idle(cluster, options.idle)).items()}
        print(f"idle: {result['idle']}", file=sys.stderr)
    labels = [await change_label(cluster, chance.choice(cluster.live), i + 1) for i in range(options.labels)]
    result["label_change"] = summary(labels)
    print(f"label change: {result['label_change']}", file=sys.stderr)
    if options.stop:
        result["failed_after_stop"] = [await stop_for(cluster, chance.choice(cluster.live), options.stop)]
    kills: list[float | None] = []
    for _ in range(options.kills):
        kills.append(await kill_one(cluster, chance.choice(cluster.live)))
        print(f"kill {len(kills)}: {kills[-1]}", file=sys.stderr)
    result["kill"] = summary(kills)
    result["leave"] = summary([await leave_one(cluster, chance.choice(cluster.live)) for _ in range(options.leaves)])
    result["false_failures"] = cluster.false_failures()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--profile", default="lan")
    parser.add_argument("--sealed", action="store_true", help="all agents have one key")
    parser.add_argument("--starts", type=int, default=1, help="clusters started; the last one is measured further")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--leaves", type=int, default=3)
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--stop", type=float, default=3.0, help="seconds of SIGSTOP; 0 leaves it out")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of the idle measurement; 0 leaves it out")
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(trio.run(bench, parser.parse_args()), indent=2))


if __name__ == "__main__":
    main()

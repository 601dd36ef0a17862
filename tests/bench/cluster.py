"""A real cluster of N agents on loopback, watched through their sockets; prints one JSON object.

    .venv/bin/python tests/bench/cluster.py --nodes 64 --starts 10 --kills 20 --idle 60 --stop 3 10

Packets and bytes are those of the whole network namespace: on a machine with other traffic give it one of its own.
Loss is only possible there:

    unshare --net sh -c 'ip link set lo up; .venv/bin/python tests/bench/cluster.py --nodes 32 --loss 0.05 0.2'

Every agent is a process with its own configuration; one observer holds a `watch` stream to each. Times are seconds.
`serf.py` measures the same of serf, where it is installed. Peers on the same kind of machine (2 cores), measured
once: serf 64 at once 0.9-1.2 s, but 25-90 s in a third of starts; kill to last survivor 9.7 s (lan timings);
leave 1.0 s; label change 0.57 s; idle CPU 0.25 %, 2 packets/s.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from pathlib import Path

import trio
from fleet import Watched, free_ports
from measures import bench, options_of
from shoal.agent.frames import REPLY_BYTES, REQUEST_BYTES, FrameReader, encode

KEY_FILE = "gossip.key"


class ShoalAgent(Watched):
    """One of our agents, with a state directory and two labels."""

    def __init__(self, index: int, directory: Path, port: int, seed: int, options: argparse.Namespace) -> None:
        super().__init__(f"n{index:03d}", directory)
        self.socket = str(directory / f"{self.name}.sock")
        self.config = directory / f"{self.name}.toml"
        key_file = f'key_file = "{directory}/{KEY_FILE}"\n' if options.sealed else ""
        self.config.write_text(
            f'[node]\nname = "{self.name}"\nstate_dir = "{directory}/{self.name}.state"\n'
            f'[gossip]\nbind = "127.0.0.1:{port}"\nseeds = ["127.0.0.1:{seed}"]\nprofile = "{options.profile}"\n'
            f'{key_file}[api]\nsocket = "{self.socket}"\n[log]\nlevel = "warning"\n'
            '[labels]\nmark = 0\nregion = "here"\n'
        )

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "shoal.agent.cli", "run", "--config", str(self.config)]

    async def watch(self) -> None:
        stream = await self._connect()
        reader = FrameReader(REPLY_BYTES)
        request = {"id": 1, "call": "watch", "args": {"labels": ["mark"]}}
        try:
            await stream.send_all(encode(request, REQUEST_BYTES))
            while data := await stream.receive_some(1 << 16):
                reader.feed(data)
                while (message := reader.next_message()) is not None:
                    self._take(message)
        except trio.BrokenResourceError:
            pass  # it was killed

    async def change_mark(self, value: int) -> None:
        stream = await trio.open_unix_socket(self.socket)
        request = {"id": 1, "call": "labels_set", "args": {"labels": {"mark": value}}}
        await stream.send_all(encode(request, REQUEST_BYTES))
        reader = FrameReader(REPLY_BYTES)
        answers = 0
        while answers < 2:  # the greeting, and ours
            reader.feed(await stream.receive_some(1 << 16))
            while reader.next_message() is not None:
                answers += 1
        await stream.aclose()

    def leave(self) -> None:
        assert self.process is not None
        self.process.terminate()

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = options_of(parser)

    def make(directory: Path, count: int) -> list[Watched]:
        ports = free_ports(count)
        if options.sealed:
            key = directory / KEY_FILE
            key.touch(0o600)
            key.write_text(base64.b64encode(os.urandom(32)).decode())
        return [ShoalAgent(index, directory, port, ports[0], options) for index, port in enumerate(ports)]

    print(json.dumps(trio.run(bench, make, options), indent=2))


if __name__ == "__main__":
    main()

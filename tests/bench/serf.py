"""A real cluster of N serf agents on loopback, measured as `cluster.py` measures ours; prints one JSON object.

    .venv/bin/python tests/bench/serf.py --nodes 64 --starts 10 --kills 20 --idle 60 --stop 3 10

Needs `serf` (Debian: apt install serf). What each agent shows is read from its log over its own RPC port, as events
happen: its event stream waits up to 3 s for more to tell at once. The other options and the namespace are those of
`cluster.py`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import msgpack
import trio
from fleet import Watched, free_ports
from measures import bench, options_of

STATES = {"Join": "alive", "Failed": "dead", "Leave": "left", "Reap": "left"}
TOLD = {"Join": "joined", "Failed": "failed"}
EVENT = re.compile(r"serf: EventMember(Join|Failed|Leave|Reap|Update)(?: \(forced\))?: (\S+)")
SUSPECT = re.compile(r"memberlist: Suspect (\S+) has failed")
# One that failed to join tries again after this; the default of 30 s would be measured instead of the protocol.
RETRY = "1s"


class SerfAgent(Watched):
    """One serf agent with a tag; its id is its name."""

    everybody_tells = False
    ordered: ClassVar[dict[str, int]] = {}
    """The last value ordered for each: an update is told without its value, and there is one change at a time."""

    def __init__(self, index: int, directory: Path, ports: list[int], key: str, options: argparse.Namespace) -> None:
        super().__init__(f"n{index:03d}", directory)
        self.node_id = self.name
        self._rpc = ports[2 * index + 1]
        self._ordering: trio.SocketStream | None = None
        self._command = [
            "serf",
            "agent",
            f"-node={self.name}",
            f"-bind=127.0.0.1:{ports[2 * index]}",
            f"-rpc-addr=127.0.0.1:{self._rpc}",
            f"-profile={options.profile}",
            f"-retry-join=127.0.0.1:{ports[0]}",
            f"-retry-interval={RETRY}",
            f"-snapshot={directory}/{self.name}.snapshot",
            "-tag=mark=0",
            "-tag=region=here",
            "-log-level=warn",
            *([f"-encrypt={key}"] if key else []),
        ]

    @property
    def command(self) -> list[str]:
        return self._command

    async def watch(self) -> None:
        stream = await self._asked("monitor", {"LogLevel": "INFO"})
        unpacker = msgpack.Unpacker(raw=True)
        self.ready_at = time.monotonic()
        try:
            while data := await stream.receive_some(1 << 16):
                unpacker.feed(data)
                for item in unpacker:
                    if b"Log" in item:
                        self._take(item[b"Log"].decode(errors="replace"))
        except trio.BrokenResourceError:
            pass  # it was killed

    async def change_mark(self, value: int) -> None:
        self.ordered[self.name] = value
        # It answers when all its packets are out, which is after most know; closed before, it might not read the order.
        self._ordering = await self._asked("tags", {"Tags": {"mark": str(value)}, "DeleteTags": []})

    def leave(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)

    async def _asked(self, command: str, body: dict[str, Any]) -> trio.SocketStream:
        """A connection on which the agent took this command."""
        stream = await self._connect()
        for header, content in (("handshake", {"Version": 1}), (command, body)):
            request = msgpack.packb({"Command": header, "Seq": 1}) + msgpack.packb(content, use_bin_type=False)
            await stream.send_all(request)
        return stream

    async def _connect(self) -> trio.SocketStream:
        while True:
            try:
                return await trio.open_tcp_stream("127.0.0.1", self._rpc)
            except OSError:
                await trio.sleep(0.05)

    def _take(self, line: str) -> None:
        now = time.monotonic()
        if suspect := SUSPECT.search(line):
            self.seen.append((now, "suspected", suspect[1]))
        if (event := EVENT.search(line)) is None:
            return
        kind, name = event.groups()
        if kind == "Update":
            self.nodes[name]["mark"] = self.ordered[name]
        else:
            self.nodes.setdefault(name, {"mark": 0})["state"] = STATES[kind]
        if kind in TOLD:
            self.seen.append((now, TOLD[kind], name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = options_of(parser)
    if shutil.which("serf") is None:
        raise SystemExit("serf is not installed (Debian: apt install serf)")
    key = base64.b64encode(os.urandom(32)).decode() if options.sealed else ""

    def make(directory: Path, count: int) -> list[Watched]:
        ports = free_ports(2 * count)
        return [SerfAgent(index, directory, ports, key, options) for index in range(count)]

    print(json.dumps(trio.run(bench, make, options), indent=2))


if __name__ == "__main__":
    main()

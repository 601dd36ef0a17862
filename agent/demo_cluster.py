"""The processes of a local cluster: started from a configuration file each, asked by their sockets, ended by pid."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from .client import Client
from .errors import ShoalError

# A cold start imports and detects; on a loaded machine five at once take a few seconds.
START_SECONDS = 20.0
# SIGTERM leaves and exits within 5 s; whoever has not by then is killed.
STOP_SECONDS = 6.0


class DemoFailed(Exception):
    """Something that the demo promises did not happen."""


class Cluster:
    """Agents on loopback, by name. `directory` holds everything they write.

    A process is started under `undisturbed`: a signal between its start and our knowing it would leave it behind. Each
    stops by itself when this process is gone, however that ended, unless they were told to `stay`.
    """

    def __init__(
        self, directory: Path, undisturbed: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ) -> None:
        self.directory = directory
        self._undisturbed = undisturbed
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, Client] = {}

    def start(self, name: str, labels: Mapping[str, object], *, pretend: bool, seed: str | None = None) -> None:
        """Start one agent; `address` waits until it answers. Its own session keeps the terminal's Ctrl-C away."""
        config = self.directory / f"{name}.toml"
        config.write_text(self._configuration(name, labels, pretend=pretend, seed=seed), encoding="utf-8")
        with (self.directory / f"{name}.log").open("ab") as log, self._undisturbed():
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command line
                self.command("run", "--until-eof", "--config", str(config)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment(),
            )

    def address(self, name: str) -> str:
        """The gossip address of an agent, once it answers.

        Raises:
            DemoFailed: it does not; the message ends with its log.
        """
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._processes[name].poll() is None:
            try:
                return str(self.client(name).status()["addr"])
            except ShoalError:
                time.sleep(0.02)
        log = (self.directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        raise DemoFailed(f"the agent {name} did not start; the end of its log:\n{log[-2000:]}")

    def kill(self, name: str) -> None:
        process = self._processes[name]
        process.kill()
        process.wait()
        self._let_go(process)
        self._clients.pop(name).close()

    def stop(self) -> None:
        """End every process, by SIGTERM and then by force."""
        for client in self._clients.values():
            client.close()
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._let_go(process)

    def stay(self) -> None:
        """Let the processes live on after this one."""
        for process in self._processes.values():
            self._let_go(process, b"stay")

    @staticmethod
    def _let_go(process: subprocess.Popen[bytes], last_word: bytes = b"") -> None:
        """Close our end of its lifeline; again does nothing."""
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(BrokenPipeError), process.stdin as lifeline:
                lifeline.write(last_word)

    def names(self) -> tuple[str, ...]:
        return tuple(self._processes)

    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes.values())

    def socket(self, name: str) -> str:
        return str(self.directory / f"{name}.sock")

    def client(self, name: str) -> Client:
        """A connection to one agent, kept for the next question."""
        if name not in self._clients:
            self._clients[name] = Client(self.socket(name))
        return self._clients[name]

    def clients(self) -> Iterator[Client]:
        return (self.client(name) for name in self._processes)

    @staticmethod
    def environment(**extra: str) -> dict[str, str]:
        """The user's environment without settings for an agent of their own, or a service manager's for this one."""
        foreign = ("SHOAL_", "NOTIFY_SOCKET", "WATCHDOG_", "RUNTIME_DIRECTORY")
        return {key: value for key, value in os.environ.items() if not key.startswith(foreign)} | extra

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "shoal.agent.cli", *arguments]

    def _configuration(self, name: str, labels: Mapping[str, object], *, pretend: bool, seed: str | None) -> str:
        tables: dict[str, dict[str, object]] = {
            "node": {"name": name, "state_dir": str(self.directory / f"{name}.state")},
            "gossip": {"bind": "127.0.0.1:0", "profile": "local", "seeds": [seed] if seed else []},
            "api": {"socket": self.socket(name)},
            "detect": {"enabled": not pretend},
            "labels": dict(labels),
        }
        # A JSON string, number, boolean or list of strings is the same value in TOML.
        return "\n".join(
            f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
            for table, values in tables.items()
        )

"""The composition root: one agent put together from its parts, run in one nursery, and ended in order.

Start: local socket, state directory and generation, gossip sockets, detection, own record, gossip, local API, READY.
Stop: leave, then everything else at once. `process.main` is the process that a service manager runs;
`embed.open_agent` is the same agent inside another trio program.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import structlog
import trio

from .addresses import address_text
from .assembly import assemble
from .backend import AgentBackend
from .calls import api_for
from .config import Config
from .errors import BadConfiguration, Refused
from .exception_groups import lone, raise_as_it_was
from .listener import open_listener
from .server import Server
from .state import StateDirectory, take_identity
from .udp import bind_pair

log = structlog.get_logger("shoal.agent")

# Leaving takes 2 s by the protocol; a stop must end within 5 s whatever the network does.
LEAVE_SECONDS = 4.0


class Agent:
    """One agent. `run` it once; `backend` answers for it, `parts` are what it is made of.

    Raises (at once, before anything was sent to anyone):
        ShoalError: the socket, the state directory or the gossip address cannot be had; see `errors` for each.
    """

    def __init__(self, config: Config, reread: Callable[[], Config] | None = None) -> None:
        """`reread` gives the configuration as its files say it now, for `reload`; None: it is always `config`."""
        self._config = config
        self._starting = trio.CancelScope()
        self._stopping = trio.Event()
        self.stopped = trio.Event()
        with contextlib.ExitStack() as undo:
            # First of all, so that a second agent ends before it did anything.
            listener = open_listener(config.api.socket, config.api.group)
            undo.callback(listener.close)
            self._has_group = listener.group is not None
            directory = config.node.state_dir
            state = StateDirectory(Path(directory)) if directory else None
            if state is not None:
                undo.callback(state.close)
            identity = take_identity(state, time.time_ns() // 1_000_000)
            udp, tcp = bind_pair(*config.gossip.bind)
            undo.callback(tcp.close)
            undo.callback(udp.close)
            self.parts = assemble(config, state, identity, udp, tcp)
            self.backend = AgentBackend(config, self.parts, reread=reread or (lambda: config), stop=self.stop)
            self._server = Server(api_for(self.backend), listener)
            self._closing = undo.pop_all()

    @property
    def summary(self) -> str:
        """One line for the service manager."""
        return f"{self.parts.name} on {address_text(self.parts.address)}"

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`, then leave; ready when the API answers."""
        try:
            self._warn()
            with self._starting:
                await self.parts.surveyor.detect()
            if self._stopping.is_set():
                task_status.started()
            else:
                await self._serve(task_status)
        except BaseExceptionGroup as group:
            raise_as_it_was(lone(group))
        finally:
            self._closing.close()
            self.stopped.set()
        log.info("agent.stopped", node=self.backend.node_id)

    def stop(self) -> None:
        self._stopping.set()
        self._starting.cancel()

    def _warn(self) -> None:
        """Log what was amiss before anything ran."""
        state, group = self.parts.state, self._config.api.group
        for event, fields in state.warnings if state is not None else ():
            log.warning(event, **fields)
        if group and "api.group" in self._config.origins and not self._has_group:
            log.warning("api.no_group", group=group, hint="it is not there, or this user is not in it")

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            await self._start(nursery)
            task_status.started()
            await self._stopping.wait()
            await self._say_goodbye()
            nursery.cancel_scope.cancel()

    async def _start(self, nursery: trio.Nursery) -> None:
        parts = self.parts
        try:
            parts.publish_record(parts.surveyor.payload())
        except Refused as error:
            raise BadConfiguration(f"this node's record: {error.message}", hint=error.hint) from error
        parts.schedule.tell()
        parts.histories.tell()
        if parts.keys is not None:
            parts.keys.tell()
            nursery.start_soon(parts.keys.run)
            nursery.start_soon(parts.keys.run_removals)
        await nursery.start(parts.driver.run)
        nursery.start_soon(parts.sampler.run)
        nursery.start_soon(parts.surveyor.watch, parts.publish_record)
        nursery.start_soon(parts.histories.run)
        if self._config.detect.enabled:
            nursery.start_soon(parts.engines.run)
        for part in (parts.peers, parts.moves):
            if part is not None:
                nursery.start_soon(part.run)
        await nursery.start(self._server.run)
        self.backend.ready = True
        log.info("agent.ready", node=self.backend.node_id, name=parts.name, address=address_text(parts.address))

    async def _say_goodbye(self) -> None:
        """Leave, or end a leave that was begun: a node that left must not stay."""
        if self.parts.peers is not None:
            self.parts.peers.save()
        self.parts.histories.close()
        if self._config.node.leave_on_stop or self.backend.leaving:
            with trio.move_on_after(LEAVE_SECONDS):
                await self.parts.driver.leave()

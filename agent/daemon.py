"""The composition root: one agent put together from its parts, run in one nursery, and ended in order.

Start: state directory and generation, sockets, detection, own record, gossip, local API, READY. Stop: leave, then
everything else at once. `process.main` is the process that a service manager runs; `embed.open_agent` is the same
agent inside another trio program.
"""

import contextlib
import functools
import itertools
import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import structlog
import trio

from ..capabilities.values import CapValue
from ..gossip.effects import Change, Changed, Conflict
from ..gossip.errors import SectionTooLarge
from ..gossip.member import Address, Identity, Member, SectionKind
from ..gossip.node import Node
from ..gossip.settings import Settings
from ..placement.chance import request_seed
from ..placement.nodes import NodeState
from ..placement.view import View
from . import __version__
from .advertise import advertised
from .calls import api_for
from .config import Config
from .config_values import address_text
from .doctor import Facts
from .driver import Driver
from .engines import EngineWatch
from .errors import BadConfiguration, Refused, StateUnusable, TryAgain
from .examine import examine
from .groups import lone, raise_as_it_was
from .histories import Histories
from .key_source import ring_of
from .keys import Keys
from .remembered import PeerMemory, remembered
from .roster import Roster
from .schedule import Schedule
from .seeds import resolve
from .server import Server
from .state import StateDirectory, save_identity, take_identity
from .surveyor import Reloaded, Surveyor
from .udp import UdpSocket, bind_pair
from .vitals import Sampler
from .watchers import Watchers

log = structlog.get_logger("shoal.agent")

# Leaving takes 2 s by the protocol; a stop must end within 5 s whatever the network does.
LEAVE_SECONDS = 4.0
# The doctor tells of the latest.
CONFLICTS_KEPT = 8
# A name that answers does so in a round trip or two; `join` reports after this long who did not.
JOIN_SECONDS = 5.0
# A seed is read back from JSON, where whole numbers are exact up to 53 bits.
_SEED_SHIFT = 64 - 53
_LIVING = (NodeState.ALIVE, NodeState.SUSPECT)
_PROFILES = {"lan": Settings.lan, "wan": Settings.wan, "local": Settings.local}


class Agent:
    """One agent: the `Backend` of the API, and the observer of the driver. `run` it once.

    Raises (at once, before anything was sent to anyone):
        ShoalError: the socket, the state directory or the gossip address cannot be had; see `errors` for each.
    """

    def __init__(self, config: Config, reread: Callable[[], Config] | None = None) -> None:
        """`reread` gives the configuration as its files say it now, for `reload`; None: it is always `config`."""
        self.config = config
        self._reread = reread or (lambda: self.config)
        self._reloading = trio.Lock()
        self._examining = trio.Lock()
        self.conflicts: list[str] = []
        self._ready = False
        self.name = config.node.name or socket.gethostname() or "unnamed"
        self._started = time.monotonic()
        self._starting = trio.CancelScope()
        self._stopping = trio.Event()
        self.stopped = trio.Event()
        self._leaving = False
        with contextlib.ExitStack() as undo:
            self._server = Server(api_for(self), config.api)
            self._server.open()
            undo.callback(self._server.close)
            directory = config.node.state_dir
            self._state = StateDirectory(Path(directory)) if directory else None
            if self._state is not None:
                undo.callback(self._state.close)
            self._identity = take_identity(self._state, time.time_ns() // 1_000_000)
            udp, tcp = bind_pair(*config.gossip.bind)
            undo.callback(tcp.close)
            undo.callback(udp.close)
            self._assemble(udp, tcp)
            self._closing = undo.pop_all()

    def _assemble(self, udp: UdpSocket, tcp: socket.socket) -> None:
        gossip = self.config.gossip
        self.address = advertised(gossip.advertise, udp.address, gossip.seeds)
        settings = _PROFILES[gossip.profile](cluster=gossip.cluster)
        # Request ids are what proves an answer: nobody may predict them from those seen before.
        chance = random.SystemRandom()
        self.keys = self._open_keys(chance)
        seal = None if self.keys is None else self.keys.seal
        self.node = Node(
            self._identity, settings, chance, advertise=self.address, seal=seal, remembered=remembered(self._state)
        )
        self.roster = Roster(self._identity.node_id, self.node.member, epoch=lambda: time.time() - trio.current_time())
        self._driver = Driver(self.node, udp, tcp, seeds=gossip.seeds, observer=self)
        self._surveyor = Surveyor(self.name, __version__, self.config.detect, self.config.labels, self._state)
        self._sampler = Sampler(self._surveyor.vitals, self._driver.set_vitals)
        self._peers = None if self._state is None else PeerMemory(self._state, self.address, self.node.snapshot)
        told = self._driver.publish
        self.schedule = Schedule(self._state, functools.partial(told, SectionKind.SCHEDULE))
        self.histories = Histories(
            self._state, functools.partial(told, SectionKind.HISTORY), lambda: self.roster.histories
        )
        self._engines = EngineWatch(functools.partial(told, SectionKind.ENGINES))
        self._placements = itertools.count()

    def _shown(self) -> Iterator[Member]:
        return self.node.members()

    def _open_keys(self, chance: random.Random) -> Keys | None:
        gossip = self.config.gossip
        file = ring_of(gossip.key_file, self._state, os.environ)
        if file is None:
            return None
        return Keys(
            file,
            gossip.cluster,
            chance,
            state=self._state,
            here=lambda: self.node.identity.node_id,
            members=self._shown,
            publish=lambda payload: self._driver.publish(SectionKind.KEYS, payload),
        )

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`, then leave; ready when the API answers."""
        try:
            for event, fields in self._state.warnings if self._state is not None else ():
                log.warning(event, **fields)
            group = self.config.api.group
            if group and "api.group" in self.config.origins and not self._server.has_group:
                log.warning("api.no_group", group=group, hint="it is not there, or this user is not in it")
            with self._starting:
                await self._surveyor.detect()
            if self._stopping.is_set():
                task_status.started()
            else:
                await self._serve(task_status)
        except BaseExceptionGroup as group:
            raise_as_it_was(lone(group))
        finally:
            self._closing.close()
            self.stopped.set()
        log.info("agent.stopped", node=self.node_id)

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            await self._start(nursery)
            task_status.started()
            await self._stopping.wait()
            await self._say_goodbye()
            nursery.cancel_scope.cancel()

    async def _start(self, nursery: trio.Nursery) -> None:
        try:
            self._publish_record(self._surveyor.payload())
        except Refused as error:
            raise BadConfiguration(f"this node's record: {error.message}", hint=error.hint) from error
        self.schedule.tell()
        self.histories.tell()
        if self.keys is not None:
            self.keys.tell()
            nursery.start_soon(self.keys.run)
            nursery.start_soon(self.keys.run_removals)
        await nursery.start(self._driver.run)
        nursery.start_soon(self._sampler.run)
        nursery.start_soon(self._surveyor.watch, self._publish_record)
        nursery.start_soon(self.histories.run)
        if self.config.detect.enabled:
            nursery.start_soon(self._engines.run)
        if self._peers is not None:
            nursery.start_soon(self._peers.run)
        await nursery.start(self._server.run)
        self._ready = True
        log.info("agent.ready", node=self.node_id, name=self.name, address=address_text(self.address))

    async def _say_goodbye(self) -> None:
        """Leave, or end a leave that was begun: a node that left must not stay."""
        if self._peers is not None:
            self._peers.save()
        self.histories.close()
        if self.config.node.leave_on_stop or self._leaving:
            with trio.move_on_after(LEAVE_SECONDS):
                await self._driver.leave()

    # What the API asks (see `api.Backend`).

    @property
    def node_id(self) -> str:
        return self._identity.node_id.hex()

    @property
    def summary(self) -> str:
        """One line for the service manager."""
        return f"{self.name} on {address_text(self.address)}"

    @property
    def generation(self) -> int:
        return self._identity.generation

    @property
    def view(self) -> View:
        return self.roster.view

    @property
    def watchers(self) -> Watchers:
        return self.roster.watchers

    @property
    def operator_labels(self) -> Mapping[str, CapValue]:
        return self._surveyor.operator_labels

    def now(self) -> float:
        return trio.current_time()

    def unix(self) -> float:
        return time.time()

    def next_seed(self) -> int:
        return request_seed(self.node_id, next(self._placements)) >> _SEED_SHIFT

    def status(self) -> dict[str, Any]:
        gossip = self.config.gossip
        return {
            "name": self.name,
            "addr": address_text(self.address),
            "generation": self._identity.generation,
            "schedulable": self.schedule.current.schedulable.value,
            "cluster": gossip.cluster,
            "encryption": None if self.keys is None else f"key {self.keys.ring.in_use}",
            "profile": gossip.profile,
            "state_dir": self.config.node.state_dir,
            "disk_free_mb": dict(self._surveyor.free_mib),
            "warnings": list(self.warnings),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "gossip": {**self.node.counters, **self._driver.counters},
        }

    @property
    def warnings(self) -> Sequence[str]:
        return [str(warning) for warning in self._surveyor.warnings]

    async def reload(self) -> Reloaded:
        """Labels and detection only: of the other settings, those that differ wait for a restart."""
        if not self._ready:
            raise TryAgain("the agent is still starting")
        async with self._reloading:
            config = await trio.to_thread.run_sync(self._reread, abandon_on_cancel=True)
            detect = attrs.evolve(config.detect, enabled=self.config.detect.enabled)
            changes = await self._surveyor.reload(detect, config.labels, self._publish_record)
            self.config = attrs.evolve(self.config, labels=config.labels, detect=detect)
        running = {path: value for path, value, _ in self.config.rows()}
        waiting = tuple(path for path, value, _ in config.rows() if running[path] != value)
        log.info("agent.reloaded", labels=changes.labels_changed, needs_restart=waiting)
        return attrs.evolve(changes, needs_restart=waiting)

    def set_labels(self, labels: Mapping[str, CapValue]) -> None:
        self._surveyor.set_labels(labels, self._publish_record)

    def unset_labels(self, keys: Sequence[str]) -> Sequence[str]:
        return self._surveyor.unset_labels(keys, self._publish_record)

    def _publish_record(self, payload: bytes) -> None:
        try:
            self._driver.publish(SectionKind.RECORD, payload)
        except SectionTooLarge as error:
            raise Refused(f"the record would have {error.size} bytes", hint="use fewer or shorter labels") from error

    @property
    def driver(self) -> Driver:
        return self._driver

    @property
    def state(self) -> StateDirectory | None:
        return self._state

    async def examine(self) -> Facts:
        if not self._ready:
            raise TryAgain("the agent is still starting")
        async with self._examining:
            return await examine(self)

    def forget(self, node_id: str) -> None:
        self._driver.forget(bytes.fromhex(node_id))

    async def join(self, addresses: Sequence[Address]) -> int:
        """Join through these addresses; how many of them showed up as members within `JOIN_SECONDS`."""
        wanted = {address_text(address) for address in (await resolve(addresses))[0]}
        found: set[str] = set()
        self._driver.join(addresses)
        with trio.move_on_after(JOIN_SECONDS), self.watchers.subscribe() as changes:
            while wanted != (found := wanted & {record.addr for record in self.view if record.state in _LIVING}):
                await changes.next_change()
        return len(found)

    async def leave(self) -> None:
        """Once begun there is no way back: when the caller gives up waiting, the agent stops all the same."""
        self._leaving = True
        try:
            await self._driver.leave()
        except trio.Cancelled:
            self.stop()
            raise

    def stop(self) -> None:
        self._stopping.set()
        self._starting.cancel()

    # What the driver tells (see `driver.Observer`).

    def changed(self, change: Changed) -> None:
        self.roster.changed(change)
        if self.keys is not None and change.what is not Change.VITALS:
            self._changed_keys(self.keys, change)

    def _changed_keys(self, keys: Keys, change: Changed) -> None:
        if change.what is not Change.SECTION:
            keys.stir()
        elif change.section == SectionKind.KEYS and (member := self.node.member(change.node_id)) is not None:
            keys.heard(member)

    def isolation(self, *, isolated: bool) -> None:
        log.warning("agent.isolated" if isolated else "agent.connected")
        self.roster.isolation(isolated=isolated)

    def conflict(self, conflict: Conflict) -> None:
        old, new = conflict.old_node_id.hex(), (conflict.new_node_id or b"").hex()
        log.warning("node.id_conflict", old=old, new=new)
        outcome = f"this one took {new}" if new else "the other one had to take a new one"
        self.conflicts = [*self.conflicts, f"two processes had the node id {old}: {outcome}"][-CONFLICTS_KEPT:]
        self.roster.conflict()

    def identity(self, identity: Identity) -> None:
        try:
            save_identity(self._state, identity)
        except StateUnusable as error:
            # The next start takes the greater of what is stored and the clock: going on is safer than going away.
            log.warning("state.not_saved", error=error.message)
        self._identity = identity
        self.roster.identity(identity.node_id)

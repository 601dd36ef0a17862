"""What the local API asks of a running agent; see `api.Backend` for what each answer means."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import structlog
import trio

from ..capabilities.values import CapValue
from ..gossip.member import Address
from ..placement.chance import request_seed
from ..placement.nodes import NodeState
from ..placement.view import View
from .addresses import address_text
from .assembly import Parts
from .config import Config
from .doctor import Facts
from .errors import TryAgain
from .examine import examine
from .histories import Histories
from .keys import Keys
from .schedule import Schedule
from .seeds import resolve_each
from .surveyor import Reloaded
from .watchers import Watchers

log = structlog.get_logger("shoal.agent")

# A name that answers does so in a round trip or two; `join` reports after this long who did not.
JOIN_SECONDS = 5.0
# A seed is read back from JSON, where whole numbers are exact up to 53 bits.
_SEED_SHIFT = 64 - 53
_LIVING = (NodeState.ALIVE, NodeState.SUSPECT)


class AgentBackend:
    """The `Backend` over the parts of an agent.

    The agent sets `ready` when it serves; `leaving` says that a leave was begun. `reread` gives the configuration as
    its files say it now.
    """

    def __init__(self, config: Config, parts: Parts, *, reread: Callable[[], Config], stop: Callable[[], None]) -> None:
        self.config = config
        self.ready = False
        self.leaving = False
        self._parts = parts
        self._reread = reread
        self._stop = stop
        self._reloading = trio.Lock()
        self._examining = trio.Lock()
        self._started = time.monotonic()
        self._placements = itertools.count()

    @property
    def node_id(self) -> str:
        return self._parts.observer.current.node_id.hex()

    @property
    def view(self) -> View:
        return self._parts.roster.view

    @property
    def watchers(self) -> Watchers:
        return self._parts.roster.watchers

    @property
    def operator_labels(self) -> Mapping[str, CapValue]:
        return self._parts.surveyor.operator_labels

    @property
    def histories(self) -> Histories:
        return self._parts.histories

    @property
    def schedule(self) -> Schedule:
        return self._parts.schedule

    @property
    def keys(self) -> Keys | None:
        return self._parts.keys

    @property
    def warnings(self) -> Sequence[str]:
        return [str(warning) for warning in self._parts.surveyor.warnings]

    def now(self) -> float:
        return trio.current_time()

    def unix(self) -> float:
        return time.time()

    def next_seed(self) -> int:
        return request_seed(self.node_id, next(self._placements)) >> _SEED_SHIFT

    def status(self) -> dict[str, Any]:
        parts, gossip = self._parts, self.config.gossip
        return {
            "name": parts.name,
            "addr": address_text(parts.address),
            "generation": parts.observer.current.generation,
            "joined": parts.node.joined,
            "seeds": [address_text(seed) for seed in gossip.seeds],
            "schedulable": parts.schedule.current.schedulable.value,
            "cluster": gossip.cluster,
            "encryption": None if parts.keys is None else f"key {parts.keys.ring.in_use}",
            "profile": gossip.profile,
            "state_dir": self.config.node.state_dir,
            "disk_free_mb": dict(parts.surveyor.free_mib),
            "warnings": list(self.warnings),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "gossip": {**parts.node.counters, **parts.driver.counters},
        }

    async def reload(self) -> Reloaded:
        """Labels and detection only: of the other settings, those that differ wait for a restart."""
        self._must_be_ready()
        async with self._reloading:
            config = await trio.to_thread.run_sync(self._reread, abandon_on_cancel=True)
            detect = attrs.evolve(config.detect, enabled=self.config.detect.enabled)
            changes = await self._parts.surveyor.reload(detect, config.labels, self._parts.publish_record)
            self.config = attrs.evolve(self.config, labels=config.labels, detect=detect)
        running = {path: value for path, value, _ in self.config.rows()}
        waiting = tuple(path for path, value, _ in config.rows() if running[path] != value)
        log.info("agent.reloaded", labels=changes.labels_changed, needs_restart=waiting)
        return attrs.evolve(changes, needs_restart=waiting)

    async def examine(self) -> Facts:
        self._must_be_ready()
        async with self._examining:
            return await examine(self._parts, self.config)

    def _must_be_ready(self) -> None:
        if not self.ready:
            raise TryAgain("the agent is still starting")

    def set_labels(self, labels: Mapping[str, CapValue]) -> None:
        self._parts.surveyor.set_labels(labels, self._parts.publish_record)

    def unset_labels(self, keys: Sequence[str]) -> Sequence[str]:
        return self._parts.surveyor.unset_labels(keys, self._parts.publish_record)

    def forget(self, node_id: str) -> None:
        self._parts.driver.forget(bytes.fromhex(node_id))

    async def join(self, addresses: Sequence[Address]) -> int:
        """Join through these addresses; how many of them showed up as members within `JOIN_SECONDS`.

        A name that stands for several addresses counts once, with the first of them.
        """
        found, _ = await resolve_each(addresses)
        wanted = [{address_text(one) for one in found[address]} for address in addresses if address in found]
        answered = 0
        self._parts.driver.join(addresses)
        with trio.move_on_after(JOIN_SECONDS), self.watchers.subscribe() as changes:
            while (answered := self._living_of(wanted)) < len(wanted):
                await changes.next_change()
        return answered

    def _living_of(self, places: Sequence[set[str]]) -> int:
        """At how many of these places, each of one or more addresses, there is a living member."""
        living = {record.addr for record in self.view if record.state in _LIVING}
        return sum(not living.isdisjoint(place) for place in places)

    async def leave(self) -> None:
        """Once begun there is no way back: when the caller gives up waiting, the agent stops all the same."""
        self.leaving = True
        try:
            await self._parts.driver.leave()
        except trio.Cancelled:
            self.stop()
            raise

    def stop(self) -> None:
        self._stop()

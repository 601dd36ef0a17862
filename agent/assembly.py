"""The parts of one agent, put together from its configuration; nothing runs yet, and nothing was sent to anyone."""

import functools
import os
import random
import socket
import time

import attrs
import trio

from ..gossip.errors import SectionTooLarge
from ..gossip.member import Address, Identity, SectionKind
from ..gossip.node import Node
from . import __version__
from .advertise import AddressWatch, advertised, is_found
from .config import Config
from .driver import Driver
from .engines import EngineWatch
from .errors import Refused
from .histories import Histories
from .key_source import ring_of
from .keys import Keys
from .observer import NodeObserver
from .profiles import settings_of
from .remembered import PeerMemory, remembered
from .roster import Roster
from .schedule import Schedule
from .state import StateDirectory
from .surveyor import Surveyor
from .udp import UdpSocket
from .vitals import Sampler


@attrs.frozen(kw_only=True)
class Parts:
    """What an agent is made of. `state`, `keys`, `peers` and `moves` are None where the configuration asks for none."""

    name: str
    state: StateDirectory | None
    keys: Keys | None
    node: Node
    roster: Roster
    observer: NodeObserver
    driver: Driver
    surveyor: Surveyor
    sampler: Sampler
    schedule: Schedule
    histories: Histories
    engines: EngineWatch
    peers: PeerMemory | None
    moves: AddressWatch | None

    @property
    def address(self) -> Address:
        """Where others reach its gossip."""
        return self.node.address

    def publish_record(self, payload: bytes) -> None:
        """Tell the cluster what this node has. Raises Refused when it is too much, and then nothing changed."""
        try:
            self.driver.publish(SectionKind.RECORD, payload)
        except SectionTooLarge as error:
            raise Refused(f"the record would have {error.size} bytes", hint="use fewer or shorter labels") from error


def assemble(
    config: Config, state: StateDirectory | None, identity: Identity, udp: UdpSocket, tcp: socket.socket
) -> Parts:
    """Make all parts; the caller owns the sockets and the state directory.

    Raises:
        BadConfiguration: no address to tell others, or a key file that cannot be used.
    """
    gossip = config.gossip
    name = config.node.name or socket.gethostname() or "unnamed"
    find_address = functools.partial(advertised, gossip.advertise, udp.address, gossip.seeds)
    address = find_address()
    # Request ids are what proves an answer: nobody may predict them from those seen before.
    chance = random.SystemRandom()
    file = ring_of(gossip.key_file, state, os.environ, where=config.origin("gossip.key_file").where)

    def publish_keys(payload: bytes) -> None:
        driver.publish(SectionKind.KEYS, payload)

    keys = None
    if file is not None:
        # The node seals with them, so they come first; what they ask of it they ask later.
        keys = Keys(
            file,
            gossip.cluster,
            chance,
            state=state,
            here=lambda: node.identity.node_id,
            members=lambda: iter(node.members()),
            publish=publish_keys,
        )
    node = Node(
        identity,
        settings_of(gossip.profile, cluster=gossip.cluster),
        chance,
        advertise=address,
        seal=None if keys is None else keys.seal,
        remembered=remembered(state),
    )
    roster = Roster(identity.node_id, node.member, epoch=lambda: time.time() - trio.current_time())
    observer = NodeObserver(roster, keys, state, identity, node.member)
    driver = Driver(node, udp, tcp, seeds=gossip.seeds, observer=observer)
    surveyor = Surveyor(name, __version__, config.detect, config.labels, state)
    told = driver.publish
    return Parts(
        name=name,
        state=state,
        keys=keys,
        node=node,
        roster=roster,
        observer=observer,
        driver=driver,
        surveyor=surveyor,
        sampler=Sampler(surveyor.vitals, driver.set_vitals, driver.soon),
        schedule=Schedule(state, functools.partial(told, SectionKind.SCHEDULE)),
        histories=Histories(state, functools.partial(told, SectionKind.HISTORY), lambda: roster.histories),
        engines=EngineWatch(functools.partial(told, SectionKind.ENGINES)),
        peers=None if state is None else PeerMemory(state, address, node.snapshot),
        moves=AddressWatch(address, find_address, driver.move) if is_found(gossip.advertise, udp.address) else None,
    )

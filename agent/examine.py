"""Gathers what the doctor judges: what this agent knows, and what its peers answer when they are asked now."""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Iterable, Mapping, Sequence

import attrs
import trio

from ..gossip.effects import Note
from ..gossip.member import Address, Member, SectionKind, State
from ..placement.view import View
from . import __version__
from .addresses import address_text
from .assembly import Parts
from .config import Config
from .doctor import Facts, PeerFacts, Refusal
from .driver import Driver
from .payloads import agent_version
from .seeds import resolve

# All of a small cluster; of a big one enough to see what is wrong with this node.
PEERS_ASKED = 64
# A lossy network must not look like a broken one: at one packet in five lost, one peer in twenty fails all three.
TRIES = 3
_LOOK_SECONDS = 0.05
_TCP_SECONDS = 2.0
_LIVE = (State.ALIVE, State.SUSPECT)


async def examine(agent: Parts, config: Config) -> Facts:
    """Ask up to `PEERS_ASKED` peers over UDP, those that stay silent over TCP, and the name service for the seeds."""
    gossip, node, state, keys = config.gossip, agent.node, agent.state, agent.keys
    peers = {m.node_id: m for m in node.members() if m.state in _LIVE and m.node_id != node.identity.node_id}
    unresolved: Mapping[str, str] = {}
    answers: dict[bytes, _Answers] = {}

    async def look_up() -> None:
        nonlocal unresolved
        unresolved = (await resolve(gossip.seeds))[1]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_up)
        nursery.start_soon(_ask, agent.driver, peers, answers)
    return Facts(
        unix=time.time(),
        name=agent.name,
        version=__version__,
        generation=node.identity.generation,
        bound=address_text(gossip.bind),
        loopback=ipaddress.ip_address(gossip.bind[0]).is_loopback,
        health=node.health,
        isolated=node.isolated,
        joined=node.joined,
        state_dir=config.node.state_dir,
        state_warnings=tuple(state.warnings) if state is not None else (),
        conflicts=agent.observer.conflicts,
        seeds=tuple(map(address_text, gossip.seeds)),
        unresolved=unresolved,
        peers=tuple(_peer(member, agent.roster.view, answers.get(node_id)) for node_id, member in peers.items()),
        refusals=tuple(refusals(agent.driver.notes)),
        ring=None if keys is None else keys.facts(),
        file_keys=() if keys is None else keys.file_ids,
    )


@attrs.define
class _Answers:
    """What one peer answered."""

    udp: bool = False
    udp_full: bool = False
    tcp: bool | None = None


async def _ask(driver: Driver, peers: Mapping[bytes, Member], answers: dict[bytes, _Answers]) -> None:
    chosen = random.sample(sorted(peers), min(PEERS_ASKED, len(peers)))
    answers |= {node_id: _Answers() for node_id in chosen}
    wait = 2 * driver.node.settings.probe_timeout
    for _ in range(TRIES):
        await _echo_round(driver, answers, wait)
    async with trio.open_nursery() as nursery:
        for node_id, answer in answers.items():
            address = peers[node_id].address
            if not answer.udp and address is not None:
                nursery.start_soon(_try_tcp, address, answer)


async def _echo_round(driver: Driver, answers: Mapping[bytes, _Answers], wait: float) -> None:
    """Ask those that did not answer yet, and wait until they have or the time is over."""
    waiting: dict[int, tuple[_Answers, bool]] = {}
    for node_id, answer in answers.items():
        for full in (False, True):
            if not (answer.udp_full if full else answer.udp):
                number = driver.echo(node_id, full=full)
                if number is not None:
                    waiting[number] = (answer, full)
    until = trio.current_time() + wait
    while waiting and trio.current_time() < until:
        await trio.sleep(_LOOK_SECONDS)
        for number in [number for number in waiting if driver.node.echoed(number)]:
            answer, full = waiting.pop(number)
            answer.udp_full, answer.udp = answer.udp_full or full, True


async def _try_tcp(address: Address, answer: _Answers) -> None:
    answer.tcp = False
    with trio.move_on_after(_TCP_SECONDS):
        try:
            stream = await trio.open_tcp_stream(*address)
        except OSError:
            return
        await trio.aclose_forcefully(stream)
        answer.tcp = True


def _peer(member: Member, view: View, answers: _Answers | None) -> PeerFacts:
    record = view.get(member.node_id.hex())
    section = member.sections.get(SectionKind.RECORD)
    return PeerFacts(
        name="" if record is None else record.name,
        addr="" if member.address is None else address_text(member.address),
        generation=member.generation,
        version=None if section is None else agent_version(section.payload),
        udp_broken=member.udp_broken,
        udp=None if answers is None else answers.udp,
        udp_full=None if answers is None else answers.udp_full,
        tcp=None if answers is None else answers.tcp,
    )


def refusals(notes: Sequence[tuple[float, Note]]) -> Iterable[Refusal]:
    """The latest refusal of each source host, newest first; `notes` are the driver's, with their Unix times."""
    now, found = time.time(), dict[str, Refusal]()
    for at, note in reversed(notes):
        if note.event == "packet.refused":
            for source in (str(note.fields["source"]), *filter(None, str(note.fields.get("others", "")).split(", "))):
                refusal = Refusal(reason=str(note.fields["reason"]), source=source, age_s=round(now - at, 1))
                found.setdefault(source.rpartition(":")[0], refusal)
    return found.values()

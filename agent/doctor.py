"""What may be wrong with a node and its cluster, and what to do about it: judged from facts, by one function a check.

Clocks: nothing in the protocol tells the time of another machine, and membership does not need it. But a node's
generation is not below the Unix time of its start in milliseconds, so one that lies in our future shows that our clock
is behind now, or that its clock was ahead then; the many against the one decide which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from .key_facts import RingFacts

OK, WARNING, PROBLEM = "ok", "warning", "problem"
# Clocks that are set by the network differ by milliseconds; those that are set by hand by seconds.
CLOCK_SECONDS = 60.0
# Packets that were refused longer ago than this tell of a neighbour that has gone.
REFUSED_SECONDS = 600.0
# Of the scale 0 to 8: half its deadlines are stretched more than fivefold.
LATE_HEALTH = 4
_NAMED = 8


@attrs.frozen(kw_only=True)
class PeerFacts:
    """Another live member. `udp`, `udp_full` and `tcp` say whether it answered, None: it was not asked."""

    name: str
    addr: str
    generation: int
    version: str | None = None
    udp_broken: bool = False
    udp: bool | None = None
    udp_full: bool | None = None
    tcp: bool | None = None


@attrs.frozen(kw_only=True)
class Refusal:
    """Packets that were refused, for a reason, most recently from this source."""

    reason: str
    source: str
    age_s: float


@attrs.frozen(kw_only=True)
class Facts:
    """All that the checks look at. Times are in seconds, `unix` is the clock of this machine."""

    unix: float
    name: str
    version: str
    generation: int
    bound: str
    loopback: bool
    health: int = 0
    isolated: bool = False
    joined: bool = True
    state_dir: str = ""
    state_warnings: tuple[tuple[str, Mapping[str, str]], ...] = ()
    conflicts: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    unresolved: Mapping[str, str] = attrs.field(factory=dict[str, str])
    peers: tuple[PeerFacts, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    ring: RingFacts | None = None
    file_keys: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Finding:
    """The outcome of a check; `todo` is empty when all is well."""

    check: str
    level: str
    what: str
    todo: str = ""


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """The findings of every check, in a fixed order; one that finds nothing wrong says what it saw."""
    return tuple(finding for check in _CHECKS for finding in check(facts))


def _well(check: str, what: str, found: Iterable[Finding]) -> Iterator[Finding]:
    nothing = True
    for finding in found:
        nothing = False
        yield finding
    if nothing:
        yield Finding(check=check, level=OK, what=what)


def _check(
    name: str, well: Callable[[Facts], str]
) -> Callable[[Callable[[Facts], Iterator[tuple[str, str, str]]]], Callable[[Facts], Iterator[Finding]]]:
    """Make a check of a function that gives (level, what, todo) for each thing that is wrong."""

    def wrap(look: Callable[[Facts], Iterator[tuple[str, str, str]]]) -> Callable[[Facts], Iterator[Finding]]:
        def check(facts: Facts) -> Iterator[Finding]:
            found = (Finding(check=name, level=level, what=what, todo=todo) for level, what, todo in look(facts))
            return _well(name, well(facts), found)

        return check

    return wrap


@_check(
    "membership",
    lambda facts: f"{_nodes(len(facts.peers), 'other ')} known" if facts.peers else "alone, as the first of a cluster",
)
def _membership(facts: Facts) -> Iterator[tuple[str, str, str]]:
    if facts.isolated:
        yield PROBLEM, "this node hears nobody: what it shows of others is old", "check its network and firewall"
    elif not facts.peers and not facts.seeds:
        yield WARNING, "this node is alone and has no seeds", "set gossip.seeds, or shoal join ADDRESS"
    elif not facts.joined:
        tried = ", ".join(facts.seeds)
        todo = "are agents of this cluster there, with the same key, and do UDP and TCP reach them?"
        yield PROBLEM, f"no seed answered: {tried}", todo
    if facts.health >= LATE_HEALTH:
        what = f"this node finds itself late (health {facts.health} of 8): it is overloaded, or packets get lost"
        yield WARNING, what, "look at its load and its network"


@_check("seeds", lambda facts: f"{len(facts.seeds)} given, all names resolve" if facts.seeds else "none given")
def _seeds(facts: Facts) -> Iterator[tuple[str, str, str]]:
    for seed, why in facts.unresolved.items():
        yield PROBLEM, f"the seed {seed} does not resolve: {why}", "correct gossip.seeds, or the name service"


@_check("udp", lambda facts: f"{_nodes(_asked(facts))} asked, all answer" if _asked(facts) else "no nodes to ask")
def _udp(facts: Facts) -> Iterator[tuple[str, str, str]]:
    silent = [peer for peer in facts.peers if peer.udp is False]
    broken = [peer for peer in facts.peers if peer.tcp or (peer.udp_broken and not peer.udp)]
    gone = [peer for peer in silent if peer not in broken]
    if broken:
        here = " between here and there, and on this machine: nobody answers" if len(broken) == _asked(facts) else ""
        todo = f"open the UDP port in the firewalls{here}"
        yield PROBLEM, f"TCP answers and UDP does not (udp-broken): {_names(broken)}", todo
    if gone:
        todo = "they may have just gone: shoal members says; else check the network between"
        yield PROBLEM, f"neither UDP nor TCP answers: {_names(gone)}", todo


@_check("mtu", lambda _facts: "the largest datagrams get through")
def _mtu(facts: Facts) -> Iterator[tuple[str, str, str]]:
    short = [peer for peer in facts.peers if peer.udp and peer.udp_full is False]
    if short:
        what = f"small datagrams arrive and those of 1200 bytes do not: {_names(short)}"
        yield (
            PROBLEM,
            what,
            "a link between has an MTU below 1280 and drops what is larger: raise it, or fix the tunnel",
        )


@_check("packets", lambda _facts: "none refused of late")
def _packets(facts: Facts) -> Iterator[tuple[str, str, str]]:
    for refusal in facts.refusals:
        if refusal.age_s <= REFUSED_SECONDS:
            what = f"packets are refused, last from {refusal.source} {refusal.age_s:.0f} s ago: {refusal.reason}"
            yield PROBLEM, what, _cure(refusal.reason)


def _cure(reason: str) -> str:
    if reason.startswith("frame version"):
        return "an agent of another protocol version is there: update it, or this one"
    if reason.startswith("frame magic"):
        return "something else sends to this port: keep it away, or move gossip.bind"
    return (
        "it has another key, none, or another cluster name: compare gossip.key_file and gossip.cluster there and here"
    )


@_check("encryption", lambda facts: f"key {facts.ring.in_use}" if facts.ring else "none, on loopback only")
def _encryption(facts: Facts) -> Iterator[tuple[str, str, str]]:
    ring = facts.ring
    if ring is None:
        if not facts.loopback:
            what = f"gossip on {facts.bound} is not encrypted: whoever reaches it can join and read"
            yield WARNING, what, "shoal keys gen makes a key; set gossip.key_file on every node"
        return
    used = next(key for key in ring.keys if key.in_use)
    if used.have < ring.members:
        todo = "shoal keys list says which; if it stays so, look at their logs"
        yield WARNING, f"{ring.members - used.have} of {ring.members} nodes are not known to have key {used.id}", todo
    if ring.target:
        yield WARNING, f"a rotation to key {ring.target} is under way", "shoal keys rotate ends it"
    if used.id not in facts.file_keys:
        what = f"the key file does not hold key {used.id}, which is in use"
        yield WARNING, what, "write that key into it: whoever starts from the file alone is kept out"


@_check("names", lambda _facts: "no two nodes share one")
def _names_check(facts: Facts) -> Iterator[tuple[str, str, str]]:
    places: dict[str, list[str]] = {facts.name: ["this node"]}
    for peer in facts.peers:
        places.setdefault(peer.name, []).append(peer.addr)
    for name, where in places.items():
        if name and len(where) > 1:
            yield WARNING, f"{len(where)} nodes are called {name}: {', '.join(where[:_NAMED])}", "set node.name there"


@_check("identity", lambda _facts: "this node's id is its own")
def _identity(facts: Facts) -> Iterator[tuple[str, str, str]]:
    for event, fields in facts.state_warnings:
        if event == "state.copied":
            what = (
                f"the state directory came from another machine ({fields.get('from_machine', '?')}); a new id was made"
            )
            yield WARNING, what, "copy no state directory; clean images of /var/lib/shoal before they are cloned"
    for conflict in facts.conflicts:
        todo = "a machine or state directory was cloned while running: give each clone an empty one"
        yield PROBLEM, conflict, todo


@_check("state", lambda facts: f"kept in {facts.state_dir}")
def _state(facts: Facts) -> Iterator[tuple[str, str, str]]:
    if not facts.state_dir:
        yield WARNING, "there is no state directory: each start is a new node", "set node.state_dir"
    for event, fields in facts.state_warnings:
        if event == "state.damaged":
            what = f"{fields.get('file')} was damaged ({fields.get('why')}) and set aside"
            yield PROBLEM, what, f"check the disk; {fields.get('set_aside')} is what was there"


@_check("clock", lambda _facts: "no node started in this clock's future")
def _clock(facts: Facts) -> Iterator[tuple[str, str, str]]:
    limit = (facts.unix + CLOCK_SECONDS) * 1000
    ahead = [peer for peer in facts.peers if peer.generation > limit]
    todo = "set it by NTP; membership does not need it, but logs, histories and leases do"
    if facts.generation > limit and (not facts.peers or 2 * len(ahead) < len(facts.peers)):
        by = (facts.generation / 1000) - facts.unix
        yield WARNING, f"the clock of this machine is {by:.0f} s behind the start of this node, or was ahead then", todo
    elif ahead and 2 * len(ahead) >= len(facts.peers) and len(facts.peers) > 1:
        by = max(peer.generation for peer in ahead) / 1000 - facts.unix
        yield WARNING, f"the clock of this machine is behind: {len(ahead)} nodes started up to {by:.0f} s ahead", todo
    elif ahead:
        yield WARNING, f"the clock is ahead, or was at the start, or ours is behind: {_names(ahead)}", todo


@_check("versions", lambda facts: f"all run {facts.version}" if facts.peers else f"this node runs {facts.version}")
def _versions(facts: Facts) -> Iterator[tuple[str, str, str]]:
    known = [peer for peer in facts.peers if peer.version is not None]
    newest = max([facts.version, *(peer.version or "" for peer in known)], key=_order)
    old = [peer for peer in known if _order(peer.version or "") < _order(newest)]
    if old:
        yield WARNING, f"older than {newest}: {_names(old, versions=True)}", "update them"
    if _order(facts.version) < _order(newest):
        yield WARNING, f"this node runs {facts.version}, others {newest}", "update it"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version))


def _nodes(count: int, which: str = "") -> str:
    return f"{count} {which}node{'' if count == 1 else 's'}"


def _asked(facts: Facts) -> int:
    return sum(peer.udp is not None for peer in facts.peers)


def _names(peers: list[PeerFacts], *, versions: bool = False) -> str:
    shown = [f"{p.name or p.addr} ({p.version})" if versions else f"{p.name} at {p.addr}" for p in peers[:_NAMED]]
    more = len(peers) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


_CHECKS = (
    _membership, _seeds, _udp, _mtu, _packets, _encryption, _names_check, _identity, _state, _clock, _versions,
)  # fmt: skip

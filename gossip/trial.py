"""One trial of a cluster in the simulator: start, a label change, crashes; and the figures an operator chooses by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from .effects import Change
from .member import SectionKind
from .settings import Settings
from .simulation import Cluster, Network
from .suspicion import timeout

_START_SECONDS = 1.0  # machines start at random moments of it
_START_PATIENCE = 120.0
_CHANGE_PATIENCE = 30.0
_IDLE_SECONDS = 10.0
_DEATH_LIMITS = 2  # longest suspicions to wait for
_RECORD = bytes(440)  # about a record of 60 labels


@attrs.frozen(kw_only=True)
class Trial:
    """What to try."""

    nodes: int
    settings: Settings
    loss: float = 0.0
    crashes: int = 1
    seed: int = 1


@attrs.frozen(kw_only=True)
class Report:
    """What came of it. Times in seconds; None or a short tuple where it never happened within the patience."""

    nodes: int
    seed: int
    complete_after: float | None
    """From the last start until every node showed all."""
    change_known: tuple[float, ...]
    """For each other node, sorted: from a label change until it held the new record."""
    crashed: int
    first_suspected: tuple[float, ...]
    """For each crash: until anybody suspected it."""
    first_failed: tuple[float, ...]
    """For each crash: until anybody showed it dead."""
    last_failed: tuple[float, ...]
    """For each crash that all survivors noticed: until the last of them did."""
    false_suspicions: int
    """Suspicions shown of nodes that ran, counted at every observer."""
    false_failures: int
    idle_bytes_per_second: float
    """Of one node, IPv4 and UDP headers included, with nothing happening."""
    idle_packets_per_second: float


def run(trial: Trial) -> Report:
    """The same trial gives the same report."""
    cluster = Cluster(trial.nodes, trial.settings, seed=trial.seed, network=Network(loss=trial.loss))
    cluster.start(within=_START_SECONDS)
    complete = cluster.run_until(cluster.complete, _START_PATIENCE)
    started = max(cluster.now - _START_SECONDS, 0.0)
    early = _false(cluster, {}, Change.SUSPECTED), _false(cluster, {}, Change.FAILED)
    cluster.happenings.clear()
    change_known = _change(cluster)
    idle_bytes, idle_packets = _idle(cluster)
    crashed = _crash(cluster, trial.crashes)
    survivors = len(cluster.running())
    suspected = [cluster.first_seen(Change.SUSPECTED, victim) for victim in crashed]
    failed = [cluster.first_seen(Change.FAILED, victim) for victim in crashed]
    return Report(
        nodes=trial.nodes,
        seed=trial.seed,
        complete_after=started if complete else None,
        change_known=change_known,
        crashed=len(crashed),
        first_suspected=_after(crashed, suspected, min),
        first_failed=_after(crashed, failed, min),
        last_failed=_after(crashed, [seen if len(seen) >= survivors else {} for seen in failed], max),
        false_suspicions=early[0] + _false(cluster, crashed, Change.SUSPECTED),
        false_failures=early[1] + _false(cluster, crashed, Change.FAILED),
        idle_bytes_per_second=idle_bytes,
        idle_packets_per_second=idle_packets,
    )


def _change(cluster: Cluster) -> tuple[float, ...]:
    """Change one node's record and see when the others hold it."""
    at = cluster.now
    changer = cluster.machines[-1]
    cluster.obey(changer, changer.node.publish(SectionKind.RECORD, _RECORD, at))

    def known() -> dict[int, float]:
        return cluster.first_seen(Change.SECTION, changer.index)

    cluster.run_until(lambda: len(known()) == len(cluster.machines), _CHANGE_PATIENCE)
    return tuple(sorted(seen - at for observer, seen in known().items() if observer != changer.index))


def _idle(cluster: Cluster) -> tuple[float, float]:
    """Bytes and packets of one node in one second, once nothing is queued any more."""
    cluster.run(_IDLE_SECONDS)
    machines = cluster.machines
    octets, packets = (sum(m.bytes_out for m in machines), sum(m.packets_out for m in machines))
    cluster.run(_IDLE_SECONDS)
    share = _IDLE_SECONDS * len(machines)
    octets, packets = (sum(m.bytes_out for m in machines) - octets, sum(m.packets_out for m in machines) - packets)
    return octets / share, packets / share


def _crash(cluster: Cluster, count: int) -> dict[int, float]:
    """Crash some, one after another, and wait until everybody knows; the moments by index."""
    crashed: dict[int, float] = {}
    for victim in cluster.chance.sample(range(1, len(cluster.machines)), min(count, len(cluster.machines) - 1)):
        cluster.run(cluster.chance.random())
        cluster.crash(victim)
        crashed[victim] = cluster.now
    longest = timeout(cluster.settings, len(cluster.machines), 0)

    def known() -> bool:
        survivors = cluster.running()
        return all(machine.node.alive == len(survivors) and not machine.node.suspected for machine in survivors)

    cluster.run_until(known, _DEATH_LIMITS * longest)
    return crashed


def _after(
    crashed: dict[int, float], seen: Iterable[dict[int, float]], pick: Callable[[Iterable[float]], float]
) -> tuple[float, ...]:
    """One of the moments at which observers saw it, for each crash that was seen, counted from the crash."""
    return tuple(pick(moments.values()) - at for at, moments in zip(crashed.values(), seen, strict=True) if moments)


def _false(cluster: Cluster, crashed: dict[int, float], what: Change) -> int:
    """How often that was shown of a node that ran at that moment."""
    count = 0
    for happening in cluster.of(what):
        index = cluster.index_of(happening.subject)
        count += index is None or happening.at < crashed.get(index, float("inf"))
    return count

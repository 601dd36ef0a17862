"""One trial of a cluster in the simulator: start, a label change, rest, crashes; and figures to choose timings by.

`run` gives a `Report`; `summary` and `curves` turn it into plain data for tables and JSON, `plot` into lines of text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

import attrs

from .effects import Change
from .member import SectionKind
from .settings import Settings
from .simulation import Cluster, Network
from .suspicion import timeout

_START_SECONDS = 1.0  # machines start at random moments of it
_START_PATIENCE = 120.0
# More than these are not started together but begin at rest: a start of N makes N * N rows, and nobody starts more.
MOST_STARTED = 256
_CHANGE_PATIENCE = 30.0
_IDLE_SECONDS = 10.0
_DEATH_LIMITS = 2  # longest suspicions to wait for
_WARMING = 5  # intervals of a cluster that begins at rest, until round trips are known
_PLOT_STEPS, _PLOT_WIDTH = 12, 40
_RECORD = bytes(440)  # about a record of 60 labels


@attrs.frozen(kw_only=True)
class Trial:
    """What to try."""

    nodes: int
    settings: Settings
    loss: float = 0.0
    crashes: int = 1
    seed: int = 1


Progress = Callable[[str, float], None]
"""Told the phase and the virtual seconds since the trial began, about once in each of them."""


def _silent(_phase: str, _seconds: float) -> None:
    """Tell nobody."""


@attrs.frozen(kw_only=True)
class Report:
    """What came of it. Times in seconds; None or a short tuple where it never happened within the patience."""

    nodes: int
    seed: int
    complete_after: float | None
    """From the last start until every node showed all; None also for clusters that began at rest."""
    change_known: tuple[float, ...]
    """For each other node, sorted: from a label change until it held the new record."""
    crashed: int
    first_suspected: tuple[float, ...]
    """For each crash: until anybody suspected it."""
    first_failed: tuple[float, ...]
    """For each crash: until anybody showed it dead."""
    last_failed: tuple[float, ...]
    """For each crash that all survivors noticed: until the last of them did."""
    noticed: tuple[float, ...]
    """For each crash and survivor, sorted: until that one showed it dead."""
    unnoticed: int
    """Pairs of a crash and a survivor that never showed it dead."""
    false_suspicions: int
    """Suspicions shown of nodes that ran, counted at every observer."""
    false_failures: int
    idle_bytes_per_second: float
    """Of one node, IPv4 and UDP headers included, with nothing happening."""
    idle_packets_per_second: float


def run(trial: Trial, progress: Progress = _silent) -> Report:
    """The same trial gives the same report."""
    network = Network(loss=trial.loss)
    complete_after: float | None = None
    if trial.nodes > MOST_STARTED:
        cluster = Cluster.established(trial.nodes, trial.settings, seed=trial.seed, network=network)
        phase = _tick(cluster, "warm-up", progress)
        cluster.run(trial.settings.probe_interval * _WARMING)
        phase.end()
    else:
        cluster = Cluster(trial.nodes, trial.settings, seed=trial.seed, network=network)
        phase = _tick(cluster, "start", progress)
        cluster.start(within=_START_SECONDS)
        if cluster.run_until(cluster.complete, _START_PATIENCE):
            complete_after = max(cluster.now - _START_SECONDS, 0.0)
        phase.end()
    return _measure(cluster, trial, complete_after, progress)


def _measure(cluster: Cluster, trial: Trial, complete_after: float | None, progress: Progress) -> Report:
    """Everything after the start."""
    early = _false(cluster, {}, Change.SUSPECTED), _false(cluster, {}, Change.FAILED)
    cluster.happenings.clear()
    phase = _tick(cluster, "change", progress)
    change_known = _change(cluster)
    phase.name = "rest"
    idle_bytes, idle_packets = _idle(cluster)
    phase.name = "crash"
    crashed = _crash(cluster, trial.crashes)
    phase.end()
    survivors = {machine.index for machine in cluster.running()}
    suspected = [cluster.first_seen(Change.SUSPECTED, victim) for victim in crashed]
    failed = [_of(survivors, cluster.first_seen(Change.FAILED, victim)) for victim in crashed]
    since = zip(crashed.values(), failed, strict=True)
    noticed = sorted(moment - at for at, seen in since for moment in seen.values())
    return Report(
        nodes=trial.nodes,
        seed=trial.seed,
        complete_after=complete_after,
        change_known=change_known,
        crashed=len(crashed),
        first_suspected=_after(crashed, suspected, min),
        first_failed=_after(crashed, failed, min),
        last_failed=_after(crashed, [seen if len(seen) >= len(survivors) else {} for seen in failed], max),
        noticed=tuple(noticed),
        unnoticed=len(crashed) * len(survivors) - len(noticed),
        false_suspicions=early[0] + _false(cluster, crashed, Change.SUSPECTED),
        false_failures=early[1] + _false(cluster, crashed, Change.FAILED),
        idle_bytes_per_second=idle_bytes,
        idle_packets_per_second=idle_packets,
    )


def summary(report: Report) -> dict[str, float | int | None]:
    """The figures by name; times in seconds, None where it did not happen."""
    return {
        "all_know_all_after_s": _rounded(report.complete_after),
        "change_known_p50_s": _rounded(_share_at(report.change_known, 0.5)),
        "change_known_p99_s": _rounded(_share_at(report.change_known, 0.99)),
        "change_known_last_s": _rounded(max(report.change_known, default=None)),
        "idle_packets_per_node_s": _rounded(report.idle_packets_per_second),
        "idle_bytes_per_node_s": round(report.idle_bytes_per_second, 1),
        "crashed": report.crashed,
        "first_suspected_p50_s": _rounded(_share_at(tuple(sorted(report.first_suspected)), 0.5)),
        "first_noticed_p50_s": _rounded(_share_at(tuple(sorted(report.first_failed)), 0.5)),
        "noticed_p50_s": _rounded(_share_at(report.noticed, 0.5)),
        "noticed_p99_s": _rounded(_share_at(report.noticed, 0.99)),
        "all_noticed_last_s": _rounded(max(report.last_failed, default=None)),
        "unnoticed": report.unnoticed,
        "falsely_suspected": report.false_suspicions,
        "falsely_dead": report.false_failures,
    }


def curves(report: Report) -> dict[str, list[tuple[float, float]]]:
    """For news and crashes: (seconds, share of the others that know), in equal steps from the first to the last."""
    return {"change_known": _curve(report.change_known), "crash_noticed": _curve(report.noticed)}


def plot(report: Report) -> list[str]:
    """Both curves as bars of text."""
    titles = {"change_known": "a change is known to", "crash_noticed": "a crash is noticed by"}
    lines: list[str] = []
    for name, points in curves(report).items():
        if points:
            lines.append(f"{titles[name]} ... of the others after")
            lines += [f"{s:8.2f} s {share:6.1%} {'#' * round(share * _PLOT_WIDTH)}" for s, share in points]
    return lines


def _curve(times: tuple[float, ...]) -> list[tuple[float, float]]:
    if not times:
        return []
    first, last = times[0], times[-1]
    moments = [first + (last - first) * number / _PLOT_STEPS for number in range(_PLOT_STEPS)] + [last]
    return [(round(moment, 3), round(bisect_right(times, moment) / len(times), 4)) for moment in moments]


def _share_at(times: tuple[float, ...], share: float) -> float | None:
    return times[min(int(share * len(times)), len(times) - 1)] if times else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _of(observers: set[int], seen: dict[int, float]) -> dict[int, float]:
    return {observer: moment for observer, moment in seen.items() if observer in observers}


class _Phase:
    """Tells progress each virtual second, until it ends."""

    def __init__(self, cluster: Cluster, name: str, progress: Progress) -> None:
        self._cluster = cluster
        self.name = name
        self._progress = progress
        self._over = False

    def tell(self) -> None:
        if not self._over:
            self._progress(self.name, self._cluster.now)
            self._cluster.after(1.0, self.tell)

    def end(self) -> None:
        self._over = True


def _tick(cluster: Cluster, name: str, progress: Progress) -> _Phase:
    phase = _Phase(cluster, name, progress)
    phase.tell()
    return phase


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

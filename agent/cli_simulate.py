"""`shoal simulate`: what a cluster of many nodes does, in virtual time: start, rest, crashes, detection."""

from __future__ import annotations

import argparse
import sys
import time

from . import cli_output as output
from .cli_options import Command, Parser, positive
from .errors import ShoalError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random
    from typing import Any

    from ..gossip.simulation import Cluster

# Virtual seconds: for all to know all, to measure a cluster at rest, and for all to notice the crashes.
_START_S = 120.0
_REST_S = 20.0
_NOTICE_S = 300.0
_PROFILES = ("lan", "wan", "local")


def simulate(options: argparse.Namespace) -> int:
    """The exit code is 1 when a crash went unnoticed or a live node was taken for dead."""
    from random import Random

    from ..gossip.settings import Settings
    from ..gossip.simulation import Cluster, Network

    if options.crash >= options.nodes:
        raise UsageError(f"of {options.nodes} nodes at most {options.nodes - 1} can crash")
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    print(f"{options.nodes} nodes, seed {seed} ...", file=sys.stderr)
    settings: Settings = getattr(Settings, options.profile)()
    cluster = Cluster(options.nodes, settings, seed=seed, network=Network(loss=options.loss))
    found: dict[str, Any] = {
        "nodes": options.nodes,
        "profile": options.profile,
        "loss": options.loss,
        "seed": seed,
        **_start(cluster),
        **_rest(cluster),
        **_crash(cluster, options.crash, Random(seed)),
    }
    if options.output == "json":
        output.write_json(found)
    else:
        output.write_pairs(found.items())
    return ShoalError.exit_code if found["unnoticed"] or found["falsely_dead"] else 0


def _start(cluster: Cluster) -> dict[str, object]:
    """All start within one second and join through the first."""
    cluster.start(within=1.0)
    complete = cluster.run_until(cluster.complete, _START_S)
    return {"all_know_all_after_s": round(cluster.now, 2) if complete else None}


def _rest(cluster: Cluster) -> dict[str, object]:
    machines = cluster.machines
    packets, size = sum(machine.packets_out for machine in machines), sum(machine.bytes_out for machine in machines)
    cluster.run(_REST_S)
    per = len(machines) * _REST_S
    return {
        "idle_packets_per_node_s": round((sum(machine.packets_out for machine in machines) - packets) / per, 2),
        "idle_bytes_per_node_s": round((sum(machine.bytes_out for machine in machines) - size) / per, 1),
    }


def _crash(cluster: Cluster, count: int, chance: Random) -> dict[str, object]:
    from ..gossip.effects import Change
    from ..gossip.member import State

    victims = chance.sample(range(len(cluster.machines)), count)
    began, seen = cluster.now, len(cluster.happenings)
    for victim in victims:
        cluster.crash(victim)

    def all_noticed() -> bool:
        running = cluster.running()
        return all(cluster.shown(one.index, victim) is State.DEAD for one in running for victim in victims)

    if victims:
        cluster.run_until(all_noticed, _NOTICE_S)
    dead = set(victims)
    happenings = [
        (happening.what, happening.at - began, cluster.index_of(happening.subject) in dead)
        for happening in cluster.happenings[seen:]
        if happening.what in (Change.SUSPECTED, Change.FAILED) and happening.observer not in dead
    ]
    noticed = sorted(after for what, after, right in happenings if right and what is Change.FAILED)
    return {
        "crashed": count,
        "first_noticed_after_s": round(noticed[0], 2) if noticed else None,
        "all_noticed_after_s": round(noticed[-1], 2) if noticed else None,
        "unnoticed": count * (len(cluster.machines) - count) - len(noticed),
        "falsely_suspected": sum(not right and what is Change.SUSPECTED for what, _, right in happenings),
        "falsely_dead": sum(not right and what is Change.FAILED for what, _, right in happenings),
    }


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, such as 0.05, not {text!r}")
    return value


def _count(text: str) -> int:
    return 0 if text == "0" else positive(text)


def _arguments(parser: Parser) -> None:
    parser.add_argument("--nodes", type=positive, default=64, metavar="N", help="how many; 64")
    parser.add_argument("--loss", type=_share, default=0.0, metavar="SHARE", help="of the packets, such as 0.05; 0")
    parser.add_argument("--crash", type=_count, default=1, metavar="N", help="how many nodes crash at once; 1")
    parser.add_argument("--profile", choices=_PROFILES, default="lan", help="timings; lan")
    parser.add_argument("--seed", type=_count, metavar="N", help="the same seed gives the same run; else a new one")


COMMANDS = {"simulate": Command(_arguments, simulate, formats=("table", "json"), asks_agent=False)}

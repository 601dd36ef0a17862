"""What is measured of a fleet, whatever its agents are: the same steps and the same JSON for `cluster` and `serf`.

Not a script.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import trio
from fleet import Fleet, Watched, loopback_bytes, lose, summary, udp_totals, until, usage

READY_SECONDS = 180.0
SETTLE_SECONDS = 90.0
# Detection at the slowest of the profiles that are measured here, with room.
KILL_SECONDS = 120.0
# After a stop its news go round: wrong failures show within this.
AFTER_STOP_SECONDS = 5.0

Make = Callable[[Path, int], list[Watched]]


def tell(what: str, value: object) -> None:
    """Progress, to standard error: a run takes minutes."""
    print(f"{what}: {value}", file=sys.stderr, flush=True)


async def start_all(fleet: Fleet, nursery: trio.Nursery) -> float | None:
    """Start all at once; seconds from the last being ready to every view being complete, records included."""
    for agent in fleet.agents:
        agent.start()
        nursery.start_soon(agent.watch)
    if await until(lambda: all(agent.ready_at is not None for agent in fleet.agents), READY_SECONDS) is None:
        return None
    count = len(fleet.agents)
    complete = await until(lambda: all(agent.alive() == count for agent in fleet.agents), SETTLE_SECONDS)
    if complete is None:
        for agent in fleet.agents:
            assert agent.process is not None
            if agent.process.poll() is not None or agent.alive() != count:
                tell(agent.name, (agent.process.poll(), agent.alive(), agent.log.read_text()[-300:]))
        return None
    return max(0.0, complete - max(agent.ready_at or 0.0 for agent in fleet.agents))


async def restart_all(fleet: Fleet, nursery: trio.Nursery) -> float | None:
    """Kill all at once and start all at once, each in the state that it had; counted as a start."""
    fleet.kill()
    for agent in fleet.agents:
        agent.forget_all()
    return await start_all(fleet, nursery)


async def kill_one(fleet: Fleet, victim: Watched) -> float | None:
    """Seconds from SIGKILL until the last survivor shows it dead."""
    assert victim.process is not None
    fleet.dead.add(victim.node_id)
    killed = time.monotonic()
    victim.process.kill()
    done = await until(lambda: all(a.shows(victim.node_id, "state", "dead") for a in fleet.live), KILL_SECONDS)
    victim.process.wait()
    return None if done is None else done - killed


async def leave_one(fleet: Fleet, leaver: Watched) -> float | None:
    """Seconds from the signal until everybody shows it left."""
    fleet.dead.add(leaver.node_id)
    asked = time.monotonic()
    leaver.leave()
    done = await until(lambda: all(a.shows(leaver.node_id, "state", "left") for a in fleet.live), SETTLE_SECONDS)
    return None if done is None else done - asked


async def change_label(fleet: Fleet, owner: Watched, value: int) -> float | None:
    """Seconds from the call until everybody has the new value."""
    asked = time.monotonic()
    await owner.change_mark(value)
    done = await until(lambda: all(a.shows(owner.node_id, "mark", value) for a in fleet.live), SETTLE_SECONDS)
    return None if done is None else done - asked


async def stop_for(fleet: Fleet, sleeper: Watched, seconds: float) -> dict[str, object]:
    """How many of the others showed it failed while it was stopped or shortly after, and when all knew better."""
    began = time.monotonic()
    os.kill(sleeper.pid, signal.SIGSTOP)
    await trio.sleep(seconds)
    os.kill(sleeper.pid, signal.SIGCONT)
    woken = time.monotonic()
    await trio.sleep(AFTER_STOP_SECONDS)
    others = [agent for agent in fleet.live if agent is not sleeper]
    showed = sum(
        any(at >= began and (kind, node) == ("failed", sleeper.node_id) for at, kind, node in agent.seen)
        for agent in others
    )
    accused = sum(at >= began and kind == "failed" for at, kind, _ in sleeper.seen)
    back = await until(lambda: all(a.shows(sleeper.node_id, "state", "alive") for a in others), SETTLE_SECONDS)
    returns = [
        at - woken
        for agent in others
        for at, kind, node in agent.seen
        if at >= woken and node == sleeper.node_id and kind in ("refuted", "joined")
    ]
    return {
        "seconds": seconds,
        "of_others_showed_it_failed": f"{showed}/{len(others)}",
        "it_showed_others_failed": accused,
        "alive_everywhere_after_s": None if back is None else round(max(returns, default=0.0), 3),
    }


async def idle(fleet: Fleet, seconds: float) -> dict[str, float]:
    """Means per agent while nothing happens."""
    before = {a.name: usage(a.pid) for a in fleet.live}
    packets, sent, began = udp_totals(), loopback_bytes(), time.monotonic()
    await trio.sleep(seconds)
    passed = time.monotonic() - began
    packets, sent = udp_totals() - packets, loopback_bytes() - sent
    after = {a.name: usage(a.pid) for a in fleet.live}
    per = len(after) * passed
    found = {
        "cpu_percent": 100 * sum(after[n]["cpu"] - before[n]["cpu"] for n in after) / per,
        "wakeups_per_s": sum(after[n]["wakes"] - before[n]["wakes"] for n in after) / per,
        "udp_packets_per_s": packets / per,
        # The loopback device counts IP headers, and an Ethernet header of 14 bytes that a real network has too.
        "bytes_per_s_without_ethernet": (sent - 14 * packets) / per,
        "rss_mib": statistics.median(after[n]["rss"] for n in after),
        "private_mib": statistics.median(after[n]["private"] for n in after),
    }
    return {key: round(value, 3) for key, value in found.items()}


async def under_loss(fleet: Fleet, share: float, seconds: float) -> dict[str, object]:
    """Wrong failures and suspicions while packets get lost, and how long until all are shown alive again after it."""
    began = time.monotonic()
    lose(share)
    try:
        await trio.sleep(seconds)
    finally:
        lose(0.0)
    healed = time.monotonic()
    minutes = len(fleet.live) * (healed - began) / 60
    wrong = fleet.false_failures(began)
    suspected = sum(at >= began and kind == "suspected" for a in fleet.live for at, kind, _ in a.seen)
    if fleet.agents[0].everybody_tells:
        suspected /= len(fleet.live)
    back = await until(lambda: all(agent.alive() == len(fleet.live) for agent in fleet.live), SETTLE_SECONDS)
    return {
        "loss": share,
        "node_minutes": round(minutes, 1),
        "failures": wrong,
        "failures_per_node_minute": round(wrong / minutes, 4),
        "suspicions_per_node_minute": round(suspected / minutes, 4),
        "all_alive_again_after_s": None if back is None else round(back - healed, 3),
    }


async def bench(make: Make, options: argparse.Namespace) -> dict[str, object]:
    """All that the options ask for, as one value for JSON."""
    if options.loss:
        lose(0.0)  # to say at once where it cannot be
    result: dict[str, object] = {
        "nodes": options.nodes,
        "profile": options.profile,
        "sealed": options.sealed,
        "cpus": os.cpu_count(),
        "load_before": os.getloadavg(),
    }
    starts: list[float | None] = []
    for left in reversed(range(options.starts)):
        fleet = Fleet(make, options.nodes)
        try:
            async with trio.open_nursery() as nursery:
                starts.append(await start_all(fleet, nursery))
                tell(f"start {len(starts)}", starts[-1])
                if left == 0 and starts[-1] is not None:
                    await _measure(fleet, nursery, options, result)
                nursery.cancel_scope.cancel()
        finally:
            fleet.stop()
    result["start"] = summary(starts)
    return result


async def _measure(fleet: Fleet, nursery: trio.Nursery, options: argparse.Namespace, result: dict[str, object]) -> None:
    chance = random.Random(options.seed)
    if options.restarts:
        again: list[float | None] = []
        for _ in range(options.restarts):
            # Long enough for what an agent keeps for its next start.
            await trio.sleep(10.0)
            again.append(await restart_all(fleet, nursery))
            tell(f"restart {len(again)}", again[-1])
        result["restart"] = summary(again)
    await trio.sleep(min(10.0, options.idle))
    if options.idle:
        result["idle"] = await idle(fleet, options.idle)
        tell("idle", result["idle"])
    labels = [await change_label(fleet, chance.choice(fleet.live), i + 1) for i in range(options.labels)]
    result["label_change"] = summary(labels)
    tell("label change", result["label_change"])
    result["stops"] = [await stop_for(fleet, chance.choice(fleet.live), seconds) for seconds in options.stop if seconds]
    tell("stops", result["stops"])
    result["loss"] = [await under_loss(fleet, share, options.loss_seconds) for share in options.loss if share]
    tell("loss", result["loss"])
    calm = time.monotonic()
    kills: list[float | None] = []
    for _ in range(options.kills):
        kills.append(await kill_one(fleet, chance.choice(fleet.live)))
        tell(f"kill {len(kills)}", kills[-1])
    result["kill"] = summary(kills)
    result["leave"] = summary([await leave_one(fleet, chance.choice(fleet.live)) for _ in range(options.leaves)])
    tell("leave", result["leave"])
    result["false_failures_beside_stops_and_loss"] = fleet.false_failures(calm)


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options that both scripts have."""
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--profile", default="lan")
    parser.add_argument("--sealed", action="store_true", help="all agents have one key")
    parser.add_argument("--starts", type=int, default=1, help="clusters started; the last one is measured further")
    parser.add_argument("--restarts", type=int, default=0, help="times that all are killed and started at once")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--leaves", type=int, default=3)
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--stop", type=float, nargs="*", default=[3.0], help="seconds of SIGSTOP, one stop for each")
    parser.add_argument("--loss", type=float, nargs="*", default=[], help="shares of packets lost, one after another")
    parser.add_argument("--loss-seconds", type=float, default=120.0)
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of the idle measurement; 0 leaves it out")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()

"""Many real agents under churn for a long time: what they hold stays the same, and nobody that is up is called dead.

Outside of the usual run: `SHOAL_SOAK_SECONDS=1800 SHOAL_SOAK_AGENTS=64 pytest -s -m soak tests/system/test_soak.py`.
Half of the agents run from beginning to end and are measured; the others are killed, stopped and started all the time.
The figures are printed, so that they can be compared from run to run.
"""

import collections
import contextlib
import json
import os
import random
import statistics
import threading
import time

import psutil
import pytest
from shoal.agent.errors import ShoalError

pytestmark = pytest.mark.soak

SECONDS = float(os.environ.get("SHOAL_SOAK_SECONDS", "1800"))
COUNT = int(os.environ.get("SHOAL_SOAK_AGENTS", "64"))
SEED = int(os.environ.get("SHOAL_SOAK_SEED", "1"))
# Of the whole: tables, caches and allocators fill up.
WARM_UP = 0.2
SAMPLE_SECONDS = 5.0
# Each worker has one agent down at a time.
WORKERS = 4
# From shorter than a probe interval, so that nobody notices, to longer than any detection.
DOWN_SECONDS = (0.2, 1.0, 5.0, 30.0)
UP_SECONDS = 6.0
LABEL_SECONDS = 2.0
# A row, its record and its vitals are some kilobytes: a leak of one for each of some hundred restarts is more.
GROWTH_MIB = 1.0
# Of a single agent: allocators do not give back all that a burst needed.
MOST_GROWTH_MIB = 4.0
TOLD = {"failed", "suspected", "left", "replaced", "refuted", "joined"}


class Seen:
    """What one agent tells a watcher: how often what, and the generation of each that is said to have failed."""

    def __init__(self, agent):
        self.kinds = collections.Counter()
        self.failures = []
        self.ended = False
        self._client = agent.client()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(ShoalError):
            for event in self._client.watch(labels=False):
                self.kinds[event["event"]] += 1
                if event["event"] == "failed":
                    self.failures.append((event["node_id"], event["node"]["generation"], event["at"]))
        self.ended = True


class Churn:
    """Kills, stops and starts agents until `end`; knows which generation of whom was killed, and when."""

    def __init__(self, agents, seed):
        self.killed = {}
        self.counts = collections.Counter()
        self.faults = []
        self._ending = threading.Event()
        shares = [agents[number::WORKERS] for number in range(WORKERS)]
        self._threads = [
            threading.Thread(target=self._run, args=(share, random.Random(seed + number)))
            for number, share in enumerate(shares)
            if share
        ]
        for thread in self._threads:
            thread.start()

    def end(self):
        """When it returns all of them are up."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _run(self, agents, chance):
        try:
            while not self._ending.wait(chance.uniform(0.5, 1.5) * UP_SECONDS):
                self._restart(chance.choice(agents), chance)
        except Exception as error:
            self.faults.append(repr(error))
            raise

    def _restart(self, agent, chance):
        status = agent.status()
        if chance.random() < 0.5:
            self.killed[status["node_id"], status["generation"]] = time.time()
            agent.kill()
            self.counts["killed"] += 1
        else:
            assert agent.stop() == 0
            self.counts["stopped"] += 1
        self._ending.wait(chance.choice(DOWN_SECONDS))
        agent.start().ready()


def held(agent):
    """Memory in MiB, threads, descriptors."""
    process = psutil.Process(agent.process.pid)
    with process.oneshot():
        return process.memory_info().rss / (1 << 20), process.num_threads(), process.num_fds()


def compared(samples):
    """For each kind of thing held: medians of each agent in the first and the last quarter, and their difference."""
    quarter = len(samples) // 4
    first, last = samples[:quarter], samples[-quarter:]
    found = {}
    for kind, name in enumerate(("memory_mib", "threads", "descriptors")):
        pairs = [
            tuple(statistics.median(sample[agent][kind] for sample in part) for part in (first, last))
            for agent in samples[0]
        ]
        grown = [after - before for before, after in pairs]
        found[name] = {
            "first": round(statistics.median(before for before, _ in pairs), 3),
            "last": round(statistics.median(after for _, after in pairs), 3),
            "median_growth": round(statistics.median(grown), 3),
            "most_growth": round(max(grown), 3),
        }
    return found


@pytest.fixture
def started(agents, eventually):
    """All agents, the first being the seed of the others; each start of one is at an address of its own."""
    seed = agents("n00", gossip={"profile": "lan"}).start().ready()
    gossip = {"profile": "lan", "seeds": [seed.address]}
    made = [seed]
    for number in range(1, COUNT):
        made.append(agents(f"n{number:02}", gossip=gossip).start())
        if number % 8 == 0:
            made[-1].ready()
    for agent in made:
        agent.ready()
    alive = {agent.name: "alive" for agent in made}
    eventually(lambda: all(agent.states() == alive for agent in made), "the whole cluster", 120)
    return made


def observed(steady, everybody, chance):
    """Samples of the steady ones until the time is over, with labels changing meanwhile."""
    samples, changes = [], 0
    begin = time.monotonic()
    next_sample, next_label = begin, begin
    while (now := time.monotonic()) < begin + SECONDS:
        if now >= next_label:
            next_label += LABEL_SECONDS
            changes += 1
            with contextlib.suppress(ShoalError):  # it is down
                chance.choice(everybody).call("labels_set", {"labels": {"mark": changes}})
        if now >= next_sample:
            next_sample += SAMPLE_SECONDS
            samples.append((now - begin, {agent.name: held(agent) for agent in steady}))
        time.sleep(0.05)
    return [sample for at, sample in samples if at >= WARM_UP * SECONDS]


def test_nothing_grows_and_nobody_that_is_up_is_called_dead(started, eventually):
    steady, churned = started[::2], started[1::2]
    watching = [Seen(agent) for agent in steady]
    generations = {agent.node_id: agent.status()["generation"] for agent in steady}
    churn = Churn(churned, SEED)
    try:
        samples = observed(steady, started, random.Random(SEED))
    finally:
        churn.end()
    alive = {agent.name: "alive" for agent in started}
    eventually(lambda: all(agent.states() == alive for agent in started), "one whole cluster again", 120)
    told = sum((seen.kinds for seen in watching), collections.Counter())
    false = [
        (node_id, generation, at)
        for seen in watching
        for node_id, generation, at in seen.failures
        if churn.killed.get((node_id, generation), at) >= at
    ]
    figures = compared(samples)
    about = {"agents": COUNT, "seconds": SECONDS, "seed": SEED, "load": os.getloadavg(), **churn.counts}
    events = {kind: told[kind] for kind in sorted(TOLD)}
    print(json.dumps({**about, "events": events, "false_failures": len(false), "held": figures}, indent=2))
    assert churn.faults == []
    assert churn.counts["killed"] > 0
    assert churn.counts["stopped"] > 0
    assert not any(seen.ended for seen in watching)
    assert false == []
    assert {agent.node_id: agent.status()["generation"] for agent in steady} == generations
    assert figures["memory_mib"]["median_growth"] < GROWTH_MIB
    assert figures["memory_mib"]["most_growth"] < MOST_GROWTH_MIB
    assert figures["threads"]["most_growth"] <= 0
    # A sync or a probe over TCP may be open in one quarter and not in the other.
    assert figures["descriptors"]["most_growth"] <= 1
    assert not any("Traceback" in agent.output() for agent in started)

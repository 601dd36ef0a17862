"""How long a query takes over the local socket: 64 nodes of 60 labels, three constraints; prints JSON.

python tests/bench/socket_queries.py [queries]
"""

import itertools
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path

NODES = 64
LABELS = 60
CALLS = {
    "version": {},
    "find_best_1": {"requirement": "gpu_nvidia, gpu_vram_mb>=8000, region=us-east", "limit": 1, "labels": False},
    "find_best_10": {"requirement": "gpu_nvidia, gpu_vram_mb>=8000, region=us-east", "limit": 10, "labels": False},
    "find_best_10_all_labels": {"requirement": "gpu_nvidia, gpu_vram_mb>=8000, region=us-east", "limit": 10},
    "members_all_labels": {},
    "place": {"task": {"requirement": "gpu_nvidia, gpu_vram_mb>=8000", "min_free_ram_mb": 2048}},
    "place_in_words": {"task": "run python over the data"},
}


class Backend:
    """A view that does not change."""

    def __init__(self, view, watchers):
        self.view, self.watchers, self.node_id, self.operator_labels = view, watchers, view.here, {}

        self.seeds = itertools.count()
        self.histories = self

    def now(self):
        return 1.0

    def unix(self):
        return 1_700_000_000.0

    def next_seed(self):
        return next(self.seeds)

    def state(self, _now, _unix):
        from shoal.placement.state import NO_STATE

        return NO_STATE

    def status(self):
        return {}


def serve(path):
    import trio
    from shoal.agent.calls import api_for
    from shoal.agent.listener import open_listener
    from shoal.agent.server import Server
    from shoal.agent.watchers import Watchers
    from shoal.capabilities import NodeCapabilities
    from shoal.placement import NodeRecord, NodeVitals, View

    def node(number):
        facts = {f"fact_{place}": place for place in range(LABELS - 5)}
        facts |= {"arch": "amd64", "os": "linux", "gpu_nvidia": number % 2 == 0, "gpu_vram_mb": 1000 * number}
        return NodeRecord(
            node_id=f"{number:032x}",
            name=f"node-{number}",
            addr=f"10.0.0.{number}:7931",
            capabilities=NodeCapabilities(facts | {"region": "us-east", "cpu_count": 8}),
            vitals=NodeVitals(load1_centi=number, ram_available_mb=8000),
            vitals_at=0.5,
        )

    view = View.of([node(number) for number in range(NODES)], here=f"{0:032x}")
    trio.run(Server(api_for(Backend(view, Watchers())), open_listener(path, "")).run)


def measure(client, call, args, queries):
    times = []
    for _ in range(queries):
        begin = time.perf_counter()
        client.call(call, args)
        times.append((time.perf_counter() - begin) * 1e6)
    quantiles = statistics.quantiles(times, n=100)
    return {"p50_us": round(quantiles[49], 1), "p99_us": round(quantiles[98], 1)}


def main():
    from shoal.agent.client import Client

    queries = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "api.sock")
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(path,), daemon=True)
        server.start()
        while not Path(path).exists():
            time.sleep(0.01)
        with Client(path) as client:
            found = {name: measure(client, name.split("_")[0], args, queries) for name, args in CALLS.items()}
        server.terminate()
        server.join()
    print(json.dumps({"nodes": NODES, "labels": LABELS, "queries": queries, "socket": found}))


if __name__ == "__main__":
    main()

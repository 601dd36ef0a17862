"""How quick placement is at 1000 and 10 000 nodes. Prints JSON; `python tests/bench/placement.py [nodes ...]`.

Times are microseconds, the median of repeated runs. Requirements, tasks and updates differ from call to call, so that
nothing is answered from memory of the very same question; `repeated` figures ask the same again.
"""

import gc
import json
import random
import statistics
import sys
import time
import tracemalloc

import attrs
from shoal.capabilities import NodeCapabilities
from shoal.capabilities.devices import DeviceGroup
from shoal.capabilities.requirement import PlacementRequirement
from shoal.placement import (
    ClusterState,
    NodeRecord,
    NodeVitals,
    Options,
    Pick,
    PickWay,
    Situation,
    Task,
    View,
    explain_placement,
    facts_of,
    find_suitable_nodes,
    place,
    select_best_node,
)

NOW = 1000.0
ROUNDS = 400
# (RAM, CPUs, GPUs, VRAM) of the kinds of machines that a cluster is made of.
KINDS = (
    (16_000, 4, 0, 0),
    (64_000, 16, 0, 0),
    (128_000, 32, 1, 24_564),
    (256_000, 64, 2, 24_564),
    (512_000, 96, 8, 81_920),
)
TOOLS = ("git", "docker", "go", "ollama", "python3", "node", "cargo", "llama_server")


def capabilities(chance, number):
    ram, cpus, gpus, vram = chance.choice(KINDS)
    labels = {
        "arch": chance.choice(("amd64", "amd64", "arm64")),
        "os": "linux",
        "hostname": f"node{number}",
        "kernel": chance.choice(("5.15.0", "6.1.0", "6.8.0")),
        "cpu_count": cpus,
        "cpu_usable_milli": cpus * 1000,
        "ram_mb": ram - chance.randrange(300),
        "ram_limit_mb": ram - 300,
        "gpu_nvidia": bool(gpus),
        "gpu_count": gpus,
        "disk_root_class": chance.choice(("nvme", "ssd", "hdd")),
        "region": chance.choice(("us", "eu", "asia")),
        "rack": f"r{chance.randrange(200)}",
        **{f"tool_{tool}": True for tool in TOOLS if chance.random() < 0.6},
        **({"gpu_vram_mb": vram} if gpus else {}),
    }
    devices = [DeviceGroup(kind="gpu", vendor="nvidia", vram_mb=vram, count=gpus)] if gpus else []
    return NodeCapabilities(labels, devices)


def vitals(chance):
    return NodeVitals(
        ram_available_mb=chance.randrange(500, 200_000),
        load1_centi=chance.randrange(3000),
        psi_memory_some_avg10_centi=chance.randrange(800),
        reserved_mb=chance.choice((0, 0, 0, 2048)),
    )


def cluster(chance, count):
    return [
        NodeRecord(
            node_id=f"{number:032x}",
            name=f"node{number}",
            capabilities=capabilities(chance, number),
            vitals=vitals(chance),
            vitals_at=NOW - chance.random() * 60,
        )
        for number in range(count)
    ]


def microseconds(calls):
    """The median time of the calls, one by one."""
    times = []
    for call in calls:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return round(statistics.median(times), 1)


def requirement(chance):
    return (
        PlacementRequirement()
        .is_true("gpu_nvidia")
        .min_int("ram_mb", chance.randrange(16_000, 250_000))
        .equals("region", chance.choice(("us", "eu", "asia")))
    )


def task(chance):
    return Task(
        workload_class=chance.choice(("", "go-build", "docker-build")),
        required_tools=tuple(chance.sample(("git", "docker", "go"), chance.randrange(3))),
        min_free_ram_mb=chance.choice((0, 2048, 8192)),
        preferred_backends=chance.choice(((), ("cuda",), ("mlx", "cuda"))),
        requirement=chance.choice((None, PlacementRequirement().equals("region", "eu"))),
    )


def build_figures(records):
    """Milliseconds and bytes per node of the index alone, and of what the first placement adds."""
    gc.collect()
    start = time.perf_counter()
    view = View.of(records)
    built = time.perf_counter()
    place(view, Task(), now=NOW)
    placed = time.perf_counter()
    del view
    tracemalloc.start()
    view = View.of(records)
    index, _ = tracemalloc.get_traced_memory()
    for key in ("gpu_nvidia", "ram_mb", "region"):
        find_suitable_nodes(view, PlacementRequirement().has(key), 1, now=NOW)
    facets, _ = tracemalloc.get_traced_memory()
    place(view, Task(), now=NOW)
    fleet, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "build_ms": round((built - start) * 1e3, 1),
        "first_place_ms": round((placed - built) * 1e3, 1),
        "index_bytes_per_node": round(index / len(records)),
        "three_facets_bytes_per_node": round((facets - index) / len(records)),
        "fleet_bytes_per_node": round((fleet - facets) / len(records)),
    }


def find_figures(chance, view):
    asked = [requirement(chance) for _ in range(ROUNDS)]
    find_suitable_nodes(view, asked[0], 10, now=NOW)
    same = asked[0]
    rare = PlacementRequirement().equals("rack", "r7").is_true("gpu_nvidia").min_int("ram_mb", 64_000)
    devices = PlacementRequirement().devices("gpu", 2, PlacementRequirement().min_int("vram_mb", 20_000))
    return {
        "find_best_10_us": microseconds(lambda one=one: find_suitable_nodes(view, one, 10, now=NOW) for one in asked),
        "find_repeated_us": microseconds([lambda: find_suitable_nodes(view, same, 10, now=NOW)] * ROUNDS),
        "find_rare_us": microseconds([lambda: find_suitable_nodes(view, rare, 10, now=NOW)] * ROUNDS),
        "find_devices_us": microseconds([lambda: find_suitable_nodes(view, devices, 10, now=NOW)] * ROUNDS),
        "find_partly_stale_us": microseconds([lambda: find_suitable_nodes(view, same, 10, now=NOW + 90)] * ROUNDS),
    }


def place_figures(chance, view, records):
    tasks = [task(chance) for _ in range(ROUNDS)]
    reserved = {record.node_id: record.reserved for record in records if record.reserved}
    state = ClusterState(reservations=reserved)
    few = ClusterState(reservations=dict(list(reserved.items())[: len(records) // 50]))
    two = Options(pick=Pick(way=PickWay.TWO_CHOICES))
    facts = [facts_of(record, "") for record in records]
    place(view, tasks[0], now=NOW)
    return {
        "select_us": microseconds(lambda one=one: place(view, one, now=NOW) for one in tasks),
        "select_few_reservations_us": microseconds(lambda one=one: place(view, one, few, now=NOW) for one in tasks),
        "select_many_reservations_us": microseconds(lambda one=one: place(view, one, state, now=NOW) for one in tasks),
        "select_two_choices_us": microseconds(lambda one=one: place(view, one, now=NOW, options=two) for one in tasks),
        "select_without_index_us": microseconds(
            lambda one=one: select_best_node(facts, Situation(one, now=NOW)) for one in tasks[:5]
        ),
        "explain_us": microseconds(lambda one=one: explain_placement(view, one, now=NOW) for one in tasks[:5]),
    }


def update_figures(chance, view, records):
    held = [view]
    changes = [
        attrs.evolve(records[chance.randrange(len(records))], vitals=vitals(chance), vitals_at=NOW + chance.random())
        for _ in range(ROUNDS)
    ]
    newcomers = [attrs.evolve(records[0], node_id=f"{number:032x}") for number in range(1 << 20, (1 << 20) + 50)]

    def replace(record):
        held[0] = held[0].replace(record)

    return {
        "update_vitals_us": microseconds(lambda one=one: replace(one) for one in changes),
        "join_us": microseconds(lambda one=one: replace(one) for one in newcomers),
    }


def main(counts):
    for count in counts:
        chance = random.Random(count)
        records = cluster(chance, count)
        figures = {"nodes": count, **build_figures(records)}
        view = View.of(records)
        figures |= {f"bare_{name}": value for name, value in update_figures(chance, view, records).items()}
        figures |= find_figures(chance, view)
        figures |= place_figures(chance, view, records)
        figures |= update_figures(chance, view, records)
        print(json.dumps(figures))


if __name__ == "__main__":
    main([int(given) for given in sys.argv[1:]] or [1000, 10_000])

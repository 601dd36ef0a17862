"""What detection costs: time of `detect()` and each probe's share, of one sample of vitals, and the record's size.

python tests/bench/detect.py [runs]
"""

import json
import os
import resource
import statistics
import sys
import time

SAMPLES = 500


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    before = time.perf_counter()
    from shoal.capabilities.survey import detect, sample_vitals

    imported = time.perf_counter() - before
    walls, processors, shares = [], [], {}
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        found = detect()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - cpu)
        for probe, seconds in found.seconds.items():
            shares.setdefault(probe, []).append(seconds)
    sample_vitals()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(SAMPLES):
        sample_vitals()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    medians = {probe: statistics.median(seconds) for probe, seconds in shares.items()}
    whole = sum(medians.values())
    result = {
        "cpus": os.cpu_count(),
        "runs": runs,
        "import_ms": round(imported * 1e3, 1),
        "detect_ms": {"median": round(statistics.median(walls) * 1e3, 1), "max": round(max(walls) * 1e3, 1)},
        "detect_cpu_ms": round(statistics.median(processors) * 1e3, 1),
        "probe_ms": {probe: round(seconds * 1e3, 2) for probe, seconds in medians.items()},
        "probe_share": {probe: round(seconds / whole, 3) for probe, seconds in medians.items()},
        "sample_us": round(wall / SAMPLES * 1e6, 1),
        "sample_cpu_us": round(cpu / SAMPLES * 1e6, 1),
        "record_bytes": len(found.record.to_wire()),
        "labels": len(found.record.labels),
        "warnings": len(found.warnings),
        "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

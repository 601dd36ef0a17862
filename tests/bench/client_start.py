"""How long a client command takes cold, against a bare interpreter with the same basics; prints JSON.

    python tests/bench/client_start.py [runs]

An agent must answer on the usual socket, else the commands measure how fast they say so. Compiled modules are kept, as
an installation has them, whatever PYTHONDONTWRITEBYTECODE says here.
"""

import json
import os
import statistics
import subprocess
import sys
import time

# What the installed script `shoal` does.
SCRIPT = "import re, sys; from shoal.agent.cli import main; sys.exit(main(sys.argv[1:]))"
COMMANDS = {
    "bare": ["-c", "import socket, argparse, msgpack"],
    "members": ["-c", SCRIPT, "members"],
    "find": ["-c", SCRIPT, "find", "ram_mb>=1"],
    "place": ["-c", SCRIPT, "place", "x", "--tool", "git"],
    "explain": ["-c", SCRIPT, "explain", "ram_mb>=1"],
    "version": ["-c", SCRIPT, "version"],
}


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    times = {name: [] for name in COMMANDS}
    for round_ in range(runs + 1):
        for name, arguments in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=False, env=environment)
            if round_:  # the first fills the caches
                times[name].append((time.perf_counter() - begin) * 1e3)
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratios = {name: round(found / medians["bare"], 2) for name, found in medians.items()}
    print(json.dumps({"runs": runs, "median_ms": {k: round(v, 1) for k, v in medians.items()}, "ratio": ratios}))


if __name__ == "__main__":
    main()

"""Coverage-guided fuzzing of every parser that meets bytes or text of others. No test: it needs `atheris`.

    python tests/fuzz/run.py --seconds 60                   each target for a minute
    python tests/fuzz/run.py --seconds 600 wire node        only these; `--list` names them
    python tests/fuzz/run.py --input FILE wire              one input again, as a finding's last line says

A target (see `targets`) fails when anything but the one typed error of its border comes out, when an input takes more
than seconds or hundreds of megabytes, or when what was parsed does not come back. Inputs that reach new code are kept
in `--corpus`, by default in a directory that goes at the end. Exit code 1 says that something was found.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import targets

# The longest input that libFuzzer makes: a stream's frame may be longer, but nothing new begins there.
INPUT_BYTES = 4096
ONE_INPUT_SECONDS = 10
MEMORY_MIB = 1024
_DONE = re.compile(r"Done (\d+) runs in (\d+)")
_COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


def fuzz(name: str) -> None:
    """Fuzz one target in this process, with libFuzzer's own arguments behind its name; never returns."""
    import atheris

    with atheris.instrument_imports(include=["shoal"]):
        target = targets.TARGETS[name]()
    atheris.Setup([sys.argv[0], *sys.argv[3:]], target.check)
    atheris.Fuzz()


def run(name: str, seconds: int, corpus: Path, found: Path) -> bool:
    """Fuzz one target in a process of its own; whether nothing was found."""
    inputs = corpus / name
    inputs.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(targets.TARGETS[name]().seeds()):
        (inputs / f"seed-{number}").write_bytes(data)
    command = [sys.executable, __file__, "--one", name, f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES}"]
    limits = [f"-timeout={ONE_INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}", f"-artifact_prefix={found}/{name}-"]
    done = subprocess.run([*command, *limits, str(inputs)], capture_output=True, text=True, check=False)
    runs, covered = _DONE.findall(done.stderr), _COVERED.findall(done.stderr)
    if done.returncode == 0 and runs and covered:
        print(f"{name}: {runs[-1][0]} runs in {runs[-1][1]} s, {covered[-1][0]} edges, {covered[-1][2]} inputs kept")
        return True
    print(f"{name}: FAILED with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    for file in sorted(found.glob(f"{name}-*")):
        print(f"again: python tests/fuzz/run.py --input {file} {name}")
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--corpus", type=Path, help="a directory for the inputs, kept from run to run")
    parser.add_argument("--input", type=Path, help="check this one input, without atheris")
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    options = parser.parse_args()
    chosen = options.targets or list(targets.TARGETS)
    if unknown := set(chosen) - set(targets.TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(targets.TARGETS)}")
    if options.list:
        for name, make in targets.TARGETS.items():
            print(f"{name:14} {(make.__doc__ or '').splitlines()[0]}")
        return 0
    if options.input is not None:
        for name in chosen:
            targets.TARGETS[name]().check(options.input.read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed in this environment: pip install atheris", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as directory:
        found = Path(tempfile.mkdtemp(prefix="shoal-found-"))
        # libFuzzer ends its process without any cleaning up: what was made there goes with this directory.
        os.environ["TMPDIR"] = directory
        results = [run(name, options.seconds, options.corpus or Path(directory), found) for name in chosen]
        if all(results):
            found.rmdir()
        return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2])
    sys.exit(main())

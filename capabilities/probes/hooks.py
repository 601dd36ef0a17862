"""Programs of `probes.d` that print further labels, each run once per survey.

A hook is run without a shell and without input, in a session of its own, as an unprivileged user where that is
possible, for a bounded time; it prints features as in `labels.d`. One that fails, takes too long or prints too much
adds nothing.
"""

from collections.abc import Callable

from ..values import CapValue
from .deadline import Work, run_all
from .facades import Facades
from .findings import Findings, printable
from .label_files import FILE_BYTES, add, feature_labels, ordinary_files
from .reader import Reader

# A hook asks a device or reads a file; one that waits for the network is none.
HOOK_SECONDS = 5.0
# The time to kill one that did not end.
GRACE_SECONDS = 0.5


def run_directory(reader: Reader, facades: Facades, directory: str) -> Findings:
    """The labels that all hooks of a directory print; in the order of their names a later one overrides an earlier."""
    findings = Findings("probes.d")
    paths: list[str] = []
    for path, status in ordinary_files(reader, facades, directory, findings):
        if status.mode & 0o111:
            paths.append(path)
        else:
            findings.warn(path, "not run: it is not executable")
    works = {f"hook {path}": Work(_runner(facades, path), HOOK_SECONDS + GRACE_SECONDS) for path in paths}
    for path, outcome in zip(paths, run_all(works).values(), strict=True):
        if outcome.answer is None:
            findings.warn(path, outcome.problem)
            continue
        labels, warnings = outcome.answer
        findings.warnings.extend(warnings.warnings)
        add(findings, labels, path)
    return findings


def _runner(facades: Facades, path: str) -> Callable[[], tuple[dict[str, CapValue], Findings]]:
    return lambda: _run(facades, path)


def _run(facades: Facades, path: str) -> tuple[dict[str, CapValue], Findings]:
    """The labels of one hook, and what was wrong with its lines. Raises OSError when it did not run to its end."""
    warnings = Findings("probes.d")
    answer = facades.run((path,), seconds=HOOK_SECONDS, limit=FILE_BYTES, unprivileged=True)
    if answer.code != 0:
        complaint = printable(answer.errors.strip().partition("\n")[0])[:200]
        how = f"ended by signal {-answer.code}" if answer.code < 0 else f"ended with status {answer.code}"
        warnings.warn(path, f"{how}{': ' if complaint else ''}{complaint}; its labels are not used")
        return {}, warnings
    return feature_labels(answer.output, path, warnings, facades.wall_clock()), warnings

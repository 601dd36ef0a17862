"""Running probes side by side in daemon threads, none of which is waited for longer than its deadline.

A thread that hangs in the kernel (a dead mount, a broken GPU) cannot be ended; it is left behind, and the same work is
not started again while it still hangs.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import attrs

from .reader import reason

Answer = TypeVar("Answer")

_hanging: dict[str, threading.Thread] = {}
_lock = threading.Lock()


@attrs.frozen
class Work(Generic[Answer]):
    """What to run and how many seconds it may take."""

    run: Callable[[], Answer]
    seconds: float


@attrs.frozen
class Outcome(Generic[Answer]):
    """The answer, or why there is none (and the errno that it failed with), and the seconds that it took."""

    answer: Answer | None
    problem: str | None
    seconds: float
    error_number: int | None = None


def run_all(works: Mapping[str, Work[Answer]]) -> dict[str, Outcome[Answer]]:
    """Run all at once; returns when each has ended or is late. Raises nothing."""
    started = time.monotonic()
    runners = {name: _Runner(work, name) for name, work in works.items()}
    for runner in runners.values():
        runner.start()
    return {name: runner.outcome(started + works[name].seconds) for name, runner in runners.items()}


def run_one(name: str, run: Callable[[], Answer], seconds: float) -> Outcome[Answer]:
    """Run one piece of work with a deadline, from within a probe."""
    return run_all({name: Work(run, seconds)})[name]


class _Runner(Generic[Answer]):
    def __init__(self, work: Work[Answer], name: str) -> None:
        self._work = work
        self._name = name
        self._answer: Answer | None = None
        self._problem: str | None = None
        self._seconds = 0.0
        self._error_number: int | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        with _lock:
            before = _hanging.get(self._name)
            if before is not None and before.is_alive():
                self._problem = "still hangs from an earlier try"
                return
            self._thread = threading.Thread(target=self._run, name=f"probe-{self._name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            self._problem = f"no thread: {error}"

    def _run(self) -> None:
        started = time.monotonic()
        try:
            self._answer = self._work.run()
        except Exception as error:  # noqa: BLE001 - a probe's fault is a warning, never a crash
            self._problem = reason(error)
            self._error_number = error.errno if isinstance(error, OSError) else None
        self._seconds = time.monotonic() - started

    def outcome(self, deadline: float) -> Outcome[Answer]:
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
            if self._thread.is_alive():
                with _lock:
                    _hanging[self._name] = self._thread
                return Outcome(None, f"no answer within {self._work.seconds:g} s", self._work.seconds)
        return Outcome(self._answer, self._problem, self._seconds, self._error_number)

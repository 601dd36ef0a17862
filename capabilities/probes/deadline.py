"""Running probes side by side in threads, none of which is waited for longer than its deadline.

A thread that hangs in the kernel (a dead mount, a broken GPU) cannot be ended; it is left behind, and the same work is
not started again while it still hangs. Such a thread must not keep the process from exiting, and `threading.Thread`
waits for each to begin, which costs a survey more than its probes do: so these are plain threads and a lock each.
"""

import _thread
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import attrs

from .reader import reason

Answer = TypeVar("Answer")

# By the name of the work: the lock that its thread holds until it ends.
_hanging: dict[str, _thread.LockType] = {}


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
    """Run all at once; returns when each has ended or is late. Raises nothing.

    Works of the same name, at any time and from any caller, are the same work.
    """
    started = time.monotonic()
    runners = {name: _Runner(work, name) for name, work in works.items()}
    return {name: runner.outcome(started + works[name].seconds) for name, runner in runners.items()}


def run_one(name: str, run: Callable[[], Answer], seconds: float) -> Outcome[Answer]:
    """Run one piece of work with a deadline, from within a probe."""
    return run_all({name: Work(run, seconds)})[name]


class _Runner(Generic[Answer]):
    """One work in its thread. The thread holds `ended` until it has written its outcome."""

    def __init__(self, work: Work[Answer], name: str) -> None:
        self._work = work
        self._name = name
        self._outcome: Outcome[Answer] | None = None
        self._ended = _thread.allocate_lock()
        before = _hanging.get(name)
        if before is not None and before.locked():
            self._outcome = Outcome(None, "still hangs from an earlier try", 0.0)
            return
        self._ended.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError as error:
            self._outcome = Outcome(None, f"no thread: {error}", 0.0)
            self._ended.release()

    def _run(self) -> None:
        started = time.monotonic()
        try:
            self._outcome = Outcome(self._work.run(), None, time.monotonic() - started)
        except Exception as error:  # noqa: BLE001 - a probe's fault is a warning, never a crash
            number = error.errno if isinstance(error, OSError) else None
            self._outcome = Outcome(None, reason(error), time.monotonic() - started, number)
        finally:
            self._ended.release()

    def outcome(self, deadline: float) -> Outcome[Answer]:
        if self._ended.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._ended.release()
        else:
            _hanging[self._name] = self._ended
        return self._outcome or Outcome(None, f"no answer within {self._work.seconds:g} s", self._work.seconds)

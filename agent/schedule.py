"""Whether this node takes new work: changed by an operator, kept in the state directory, told to the cluster.

A node owns its schedule: only its own agent can change it, so it holds after a restart and two operators on two
machines cannot contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ..placement.nodes import Schedulable
from .errors import StateUnusable
from .payloads import WEIGHT_LIMIT, SchedulePayload
from .state import StateDirectory

_SCHEDULE = "schedule"


class Schedule:
    """This node's schedule in force. `publish` gets it encoded."""

    def __init__(self, state: StateDirectory | None, publish: Callable[[bytes], None]) -> None:
        self._state = state
        self._publish = publish
        self.current: SchedulePayload = _stored(state)

    def tell(self) -> None:
        """Tell the cluster at the start what is in force; a run that says nothing takes work as usual."""
        if self.current != SchedulePayload():
            self._publish(self.current.encode())

    def change(self, schedulable: Schedulable) -> bool:
        """Put the node into this state; False when it is in it already.

        Raises:
            StateUnusable: it cannot be stored; then nothing changed.
        """
        if schedulable is self.current.schedulable:
            return False
        before, self.current = self.current, attrs.evolve(self.current, schedulable=schedulable)
        if self._state is not None:
            value = {"state": self.current.schedulable.value, "weight": self.current.weight}
            try:
                self._state.save(_SCHEDULE, value)
            except StateUnusable:
                self.current = before
                raise
        self._publish(self.current.encode())
        return True


def _stored(state: StateDirectory | None) -> SchedulePayload:
    """What was in force at the last stop. A file that makes no sense is set aside: the node takes work again."""
    value = state.load(_SCHEDULE) if state is not None else None
    if state is None or value is None:
        return SchedulePayload()
    try:
        return _from_plain(value)
    except (TypeError, KeyError, ValueError) as error:
        state.set_aside(_SCHEDULE, f"{type(error).__name__}: {error}")
        return SchedulePayload()


def _from_plain(value: Any) -> SchedulePayload:
    weight = value["weight"]
    if type(weight) is not int or not 0 <= weight <= WEIGHT_LIMIT:
        raise ValueError(f"a weight of {weight!r}")
    return SchedulePayload(Schedulable(value["state"]), weight)

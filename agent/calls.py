"""All calls of the local API, put together from the modules that hold them."""

from __future__ import annotations

from . import (
    calls_cluster,
    calls_doctor,
    calls_history,
    calls_keys,
    calls_labels,
    calls_nodes,
    calls_placement,
    calls_reload,
    calls_schedule,
    calls_watch,
)
from .api import Api, Backend

CALLS = (
    *calls_nodes.CALLS,
    *calls_placement.CALLS,
    *calls_watch.CALLS,
    *calls_labels.CALLS,
    *calls_reload.CALLS,
    *calls_schedule.CALLS,
    *calls_history.CALLS,
    *calls_cluster.CALLS,
    *calls_doctor.CALLS,
    *calls_keys.CALLS,
)


def api_for(backend: Backend) -> Api:
    return Api(backend, CALLS)

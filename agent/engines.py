"""The inference engines of this machine: looked at now and then, told to the cluster when they hold something else."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..capabilities import survey
from ..placement.nodes import Engines, ResidentModel
from .payloads import EnginesPayload

# A model stays loaded for minutes after its last use. A look lists all processes, which takes some milliseconds.
LOOK_SECONDS = 30.0


class EngineWatch:
    """Looks on a timer, in a thread: an engine may be slow to answer. Nothing is told before an engine was seen."""

    def __init__(self, publish: Callable[[bytes], None]) -> None:
        self._publish = publish
        self._told = Engines()

    async def run(self) -> None:
        while True:
            found = await trio.to_thread.run_sync(survey.sample_engines, abandon_on_cancel=True)
            self._tell(engines(found))
            await trio.sleep(LOOK_SECONDS)

    def _tell(self, found: Engines) -> None:
        seen = found.ollama_running or found.llama_server_running or found.models
        if found != self._told and (seen or self._told != Engines()):
            self._told = found
            self._publish(EnginesPayload(found).encode())


def engines(found: survey.EngineFacts) -> Engines:
    """What was found, as it is published: in detection's words and Unix time."""
    ollama, llama_server = found.facts.get("ollama_running"), found.facts.get("llama_server_running")
    port = found.facts.get("llama_server_port")
    return Engines(
        ollama_running=ollama if type(ollama) is bool else None,
        llama_server_running=llama_server if type(llama_server) is bool else None,
        llama_server_port=port if type(port) is int else None,
        models=tuple(
            ResidentModel(name=model.name, engine=model.engine, vram_mb=model.vram_mb, expires_at=model.expires)
            for model in found.models
        ),
    )

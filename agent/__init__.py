"""shoal.agent: the agent of a node, its local socket, its clients and its command line.

`Client` asks a running agent from any program, `open_agent` runs one inside a trio program, `Config` says how. They are
imported when they are named, because a client command must not pay for the agent.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client import Client
    from .config import Config
    from .embed import open_agent

__version__ = "0.1.0"
__all__ = ["Client", "Config", "__version__", "open_agent"]

_HOMES = {"Client": "client", "Config": "config", "open_agent": "embed"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)

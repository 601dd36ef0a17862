"""The GPU part of a fit score: the best single GPU of a node."""

from __future__ import annotations

from collections.abc import Iterable

from .facts import Gpu

_BASE = 10
_PER_BACKEND = 10
_MB_PER_POINT = 1024
_MOST_VRAM_POINTS = 5

# The interface that makes a GPU useful for a preferred backend.
_INTERFACE_OF = {"cuda": "cuda", "metal": "metal", "mlx": "metal", "rocm": "rocm"}


def gpu_score(gpus: Iterable[Gpu], lower_backends: Iterable[str] = ()) -> int:
    """Points of the best GPU, uncapped; 0 without any.

    10, 10 more for each preferred backend that it serves, 1 per GiB of memory up to 5. An Intel GPU without a known
    interface counts half.
    """
    interfaces = [_INTERFACE_OF[backend] for backend in lower_backends if backend in _INTERFACE_OF]
    return max((_points(gpu, interfaces) for gpu in gpus), default=0)


def _points(gpu: Gpu, interfaces: list[str]) -> int:
    points = _BASE + min(_MOST_VRAM_POINTS, gpu.vram_mb // _MB_PER_POINT)
    if interfaces and gpu.capabilities:
        offered = [capability.lower() for capability in gpu.capabilities]
        points += _PER_BACKEND * sum(1 for interface in interfaces if interface in offered)
    return points // 2 if gpu.vendor == "intel" and not gpu.capabilities else points

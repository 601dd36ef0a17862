"""How many GPUs CUDA would show to a process, by CUDA_VISIBLE_DEVICES.

CUDA reads the list from the left and stops at the first entry that names no device; an entry that names a device twice
hides all. NVML does not know the variable: it describes the process, not the machine.
"""

import re
from collections.abc import Sequence


def visible_count(
    variable: str, count: int, ids: Sequence[str | None] = (), instances: Sequence[str | None] = ()
) -> int:
    """Devices visible under `variable`, of `count` on the machine with these UUIDs (None is unknown).

    `instances` are those of MIG. CUDA shows one of them, and no other device beside it.
    """
    seen: set[object] = set()
    for entry in map(str.strip, variable.split(",")):
        if entry.startswith("MIG-"):
            exists = any(known is None or known.startswith(entry) for known in instances)
            return len(seen) or int(exists)
        device = _device(entry, count, ids)
        if device is None:
            break
        if device in seen:
            return 0
        seen.add(device)
    return len(seen)


def _device(entry: str, count: int, ids: Sequence[str | None]) -> object | None:
    """What an entry names: an index, or a GPU by a unique beginning of its UUID."""
    if re.fullmatch(r"\+?[0-9]{1,6}", entry, re.ASCII):
        index = int(entry)
        return index if index < count else None
    if entry.startswith("GPU-"):
        named = [index for index, known in enumerate(ids) if known is not None and known.startswith(entry)]
        return named[0] if len(named) == 1 else None
    return None

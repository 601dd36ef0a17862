"""How many GPUs CUDA would show to a process, by CUDA_VISIBLE_DEVICES.

CUDA reads the list from the left and stops at the first entry that names no device; an entry that names a device twice
hides all. NVML does not know the variable: it describes the process, not the machine.
"""

import re
from collections.abc import Sequence


def visible_count(variable: str, count: int, ids: Sequence[str | None] = ()) -> int:
    """Devices visible under `variable`, of `count` on the machine with these UUIDs (`GPU-...`; None is unknown)."""
    seen: set[object] = set()
    for entry in variable.split(","):
        device = _device(entry.strip(), count, ids)
        if device is None:
            break
        if device in seen:
            return 0
        seen.add(device)
    return len(seen)


def _device(entry: str, count: int, ids: Sequence[str | None]) -> object | None:
    """What an entry names: an index, a GPU by a unique beginning of its UUID, or a MIG instance by its name."""
    if re.fullmatch(r"\+?[0-9]{1,6}", entry, re.ASCII):
        index = int(entry)
        return index if index < count else None
    if entry.startswith("GPU-"):
        named = [index for index, known in enumerate(ids) if known is not None and known.startswith(entry)]
        return named[0] if len(named) == 1 else None
    # Only the driver can tell whether an instance exists; CUDA shows the first one and no more.
    return entry if entry.startswith("MIG-") else None

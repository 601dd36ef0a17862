"""The NVML facade: the library by function name, its failures as one exception with NVML's own code.

Two distributions install a module `pynvml`, of many ages: every symbol is looked up when it is called, and what is
missing answers like a function that the driver's library lacks. The module is imported at the first call, and only on
machines that have the driver's library: it takes megabytes.
"""

import ctypes
import importlib
import sys
from types import ModuleType
from typing import Protocol

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
GPU_NOT_FOUND = 28
UNKNOWN = 999

MEANINGS = {
    NOT_SUPPORTED: "not supported by this device",
    NO_PERMISSION: "no permission",
    NOT_FOUND: "not found",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    LIBRARY_NOT_FOUND: "the NVML library is not installed",
    FUNCTION_NOT_FOUND: "the NVML library is too old for this call",
    GPU_IS_LOST: "the GPU has fallen off the bus",
    RESET_REQUIRED: "the GPU needs a reset",
    VERSION_MISMATCH: "driver and library differ in version; reboot or reload the driver",
    GPU_NOT_FOUND: "no GPU was found",
    UNKNOWN: "unknown error",
}


class NvmlFault(Exception):
    """NVML (or its absence) answered with `code`; the text says what the code means."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"nvml:{self.code} ({MEANINGS.get(self.code, 'see nvmlReturn_t')})"


class Nvml(Protocol):
    """NVML by function name.

    Raises NvmlFault, and UnicodeDecodeError for results that the binding could not decode. `version` names the
    binding's constant for a versioned structure, such as `nvmlMemory_v2`.
    """

    def call(self, name: str, *arguments: object, version: str | None = None) -> object: ...


class SystemNvml:
    """The machine's NVML through the module `pynvml`, whichever distribution it comes from."""

    def __init__(self) -> None:
        self._library: ModuleType | None = None

    def call(self, name: str, *arguments: object, version: str | None = None) -> object:
        library = self._loaded()
        function = getattr(library, name, None)
        if function is None:
            raise NvmlFault(FUNCTION_NOT_FOUND)
        named: dict[str, object] = {}
        if version is not None:
            named["version"] = getattr(library, version, None)
            if named["version"] is None:
                raise NvmlFault(FUNCTION_NOT_FOUND)
        try:
            return function(*arguments, **named)
        except (UnicodeError, MemoryError):
            raise
        except Exception as error:
            # NVMLError has `value`; anything else is the binding's own failure on data that it did not expect.
            code = getattr(error, "value", UNKNOWN)
            raise NvmlFault(code if isinstance(code, int) else UNKNOWN) from error

    def _loaded(self) -> ModuleType:
        if self._library is None:
            try:
                ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
                self._library = importlib.import_module("pynvml")
            except (ImportError, OSError) as error:
                raise NvmlFault(LIBRARY_NOT_FOUND) from error
        return self._library

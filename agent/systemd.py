"""The notify protocol of sd_notify(3): READY, STOPPING, STATUS and the watchdog, over its datagram socket."""

import os
import socket
from collections.abc import Mapping

import trio

# A manager that is busy must still get READY: without it the start counts as failed. The others can be missed.
READY_SECONDS = 1.0


class Notifier:
    """Tells the service manager how we are; a no-op when no service manager asked."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._watchdog = _interval(environment)

    def ready(self, status: str) -> None:
        self._tell(f"READY=1\nSTATUS={status}", within=READY_SECONDS)

    def reloading(self, now_us: int) -> None:
        """Type=notify-reload wants the monotonic time of the reload in microseconds; `ready` ends it."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    async def watchdog(self) -> None:
        """Ping the watchdog from the event loop itself, so that a stuck loop is what gets us restarted."""
        if not self._address or self._watchdog is None:
            return
        while True:
            self._tell("WATCHDOG=1")
            await trio.sleep(self._watchdog)

    def _tell(self, message: str, within: float = 0.0) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.settimeout(within)
                sock.sendto(message.encode(), address)
        except OSError:
            pass  # a service manager that does not listen must not stop the service


def _interval(environment: Mapping[str, str]) -> float | None:
    """Seconds between watchdog pings: half of what the service manager allows, as sd_watchdog_enabled(3) advises."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    return int(microseconds) / 2e6

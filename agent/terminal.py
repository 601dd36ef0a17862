"""Whether this process has a terminal: its end comes as SIGHUP, which means something else to a service."""

import os

_TERMINAL = "/dev/tty"


def has_terminal() -> bool:
    """Whether there is a controlling terminal. The kernel takes it away before it sends the SIGHUP of its end."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True

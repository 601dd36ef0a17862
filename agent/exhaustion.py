"""Out of descriptors or memory for a connection: no fault of the listening socket, and over once others close some."""

import errno

# So long a server that could not accept waits before it tries again.
EXHAUSTED_SECONDS = 0.1
_CODES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_exhaustion(error: OSError) -> bool:
    """Whether an `accept` failed for want of resources."""
    return error.errno in _CODES

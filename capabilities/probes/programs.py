"""Running one program safely: no shell, no input, own session, bounded time and output, killed with its children."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

import attrs

# `--version` of a slow interpreter on a loaded machine; more means that it hangs.
PROGRAM_SECONDS = 3.0
# A version line needs less; a hook's labels have their own limit.
OUTPUT_BYTES = 64 * 1024
# Programs are asked in plain English and find their helpers; nothing of the agent's own environment leaks to them.
NOBODY = "nobody"
PLAIN_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "LANG": "C"}


@attrs.frozen
class ProgramAnswer:
    """How a program ended (negative: by that signal) and what it wrote, undecodable bytes replaced."""

    code: int
    output: str
    errors: str = ""


def run(
    argv: Sequence[str], *, seconds: float = PROGRAM_SECONDS, limit: int = OUTPUT_BYTES, unprivileged: bool = False
) -> ProgramAnswer:
    """Run `argv` to its end; `unprivileged`: as the user nobody, if this process may choose.

    Raises OSError when it cannot start or writes more than `limit` bytes to either stream, and TimeoutError (which is
    one) when it takes longer than `seconds`.
    """
    user, group = _nobody() if unprivileged else (None, None)
    child = subprocess.Popen(  # noqa: S603 - an argv list, never a shell
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=PLAIN_ENVIRONMENT,
        start_new_session=True,
        user=user,
        group=group,
        extra_groups=[] if user is not None else None,
    )
    try:
        return _collected(child, time.monotonic() + seconds, limit)
    finally:
        _end(child)


def _nobody() -> tuple[int | None, int | None]:
    """User and group without privileges; none when this process has no privileges to give away."""
    if getattr(os, "geteuid", lambda: 1)() != 0:
        return None, None
    import pwd

    try:
        entry = pwd.getpwnam(NOBODY)
    except KeyError as missing:
        raise OSError(f"there is no user {NOBODY} to run it as") from missing
    return entry.pw_uid, entry.pw_gid


def _collected(child: subprocess.Popen[bytes], deadline: float, limit: int) -> ProgramAnswer:
    texts: dict[str, bytearray] = {"output": bytearray(), "errors": bytearray()}
    with selectors.DefaultSelector() as selector:
        for name, stream in (("output", child.stdout), ("errors", child.stderr)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, name)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError("did not end in time")
            for key, _ in ready:
                part = os.read(key.fd, 65536)
                texts[key.data] += part
                if not part:
                    selector.unregister(key.fileobj)
                if len(texts[key.data]) > limit:
                    raise OSError(f"wrote more than {limit} bytes")
    try:
        code = child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as late:
        raise TimeoutError("did not end in time") from late
    return ProgramAnswer(
        code=code, output=texts["output"].decode("utf-8", "replace"), errors=texts["errors"].decode("utf-8", "replace")
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the program's session and reap it; until then its id is nobody else's."""
    if child.returncode is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            child.kill()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
    child.wait()

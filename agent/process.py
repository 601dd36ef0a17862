"""The process of an agent: its log, its signals, and what the service manager is told."""

import contextlib
import functools
import os
import signal
import time
from collections.abc import AsyncIterator, Callable

import structlog
import trio

from . import logs
from .config import Config
from .daemon import Agent
from .errors import ShoalError
from .exception_groups import lone
from .systemd import Notifier
from .terminal import has_terminal

log = structlog.get_logger("shoal.agent")


def main(config: Config, reread: Callable[[], Config] | None = None, *, lifeline: int | None = None) -> int:
    """Run an agent until SIGTERM, SIGINT, the end of its terminal or the `leave` call; the process's exit code.

    SIGHUP reloads, with the configuration that `reread` gives. The agent also stops when nobody holds the other end of
    the descriptor `lifeline` any more, however its holder ended; who writes to it lets the agent live on.

    Raises:
        ShoalError: it could not start.
    """
    logs.configure(config.log.level, config.log.format)
    try:
        trio.run(_until_told, config, reread, lifeline)
    except BaseExceptionGroup as group:
        error = lone(group)
        if isinstance(error, ShoalError):
            raise error from None
        log.exception("agent.crashed")
        return ShoalError.exit_code
    return 0


async def _until_told(config: Config, reread: Callable[[], Config] | None, lifeline: int | None) -> None:
    # nohup lets a program outlive its terminal: the end of that must stop nothing then.
    stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or not has_terminal()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        agent = Agent(config, reread)
        notifier = Notifier()
        ask, asked = trio.open_memory_channel[None](1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(functools.partial(_obey_signals, signals, agent, notifier, ask, stays=stays))
            if lifeline is not None:
                nursery.start_soon(_hold, lifeline, agent, notifier)
            await nursery.start(agent.run)
            if not agent.stopped.is_set():
                notifier.ready(agent.summary)
            nursery.start_soon(notifier.watchdog)
            nursery.start_soon(_reload_when_asked, asked, agent, notifier)
            await agent.stopped.wait()
            nursery.cancel_scope.cancel()


async def _obey_signals(
    signals: AsyncIterator[int],
    agent: Agent,
    notifier: Notifier,
    reload: trio.MemorySendChannel[None],
    *,
    stays: bool,
) -> None:
    """SIGHUP asks for a reload; any other signal makes the agent leave and stop, and so does the end of its terminal.

    A reload that waits already reads whatever the second one would.
    """
    async for number in signals:
        if number == signal.SIGHUP and (stays or has_terminal()):
            with contextlib.suppress(trio.WouldBlock):
                reload.send_nowait(None)
            continue
        log.info("agent.stopping", signal=signal.Signals(number).name)
        notifier.stopping()
        agent.stop()


async def _hold(lifeline: int, agent: Agent, notifier: Notifier) -> None:
    with contextlib.suppress(OSError):  # a file, or nothing: its end is there at once
        await trio.lowlevel.wait_readable(lifeline)
    if not os.read(lifeline, 1):
        log.info("agent.stopping", end="standard input")
        notifier.stopping()
        agent.stop()


async def _reload_when_asked(asked: trio.MemoryReceiveChannel[None], agent: Agent, notifier: Notifier) -> None:
    async for _ in asked:
        notifier.reloading(time.monotonic_ns() // 1000)
        try:
            await agent.backend.reload()
        except ShoalError as error:
            log.warning("agent.not_reloaded", error=error.message, hint=error.hint)
        notifier.ready(agent.summary)

"""A daemon as a process: signals, the service manager, uvloop where it is installed, and the exit code.

SIGTERM and SIGINT stop it cleanly, a second one at once; SIGHUP reads the settings again.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

from isotone.core.errors import InputError, IsotoneError, MachineError
from isotone.daemon.collecting import IdleCollector
from isotone.daemon.composition import Hooks
from isotone.daemon.node import Node, Phase
from isotone.daemon.node_settings import NodeSettings
from isotone.daemon.systemd import ServiceManager

log = logging.getLogger("isotone.daemon")

GOOD, BAD_INPUT, BAD_MACHINE = 0, 2, 3
FILES_MAX = 65_536
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Around = Callable[[Node], AbstractAsyncContextManager[object]]
Reload = Callable[[Node], Awaitable[list[str]]]


def run(
    settings: NodeSettings, *, hooks: Hooks | None = None, around: Around | None = None, reload: Reload | None = None
) -> int:
    """Run one daemon until it is told to stop; the exit code: 0 stopped cleanly, 2 bad settings, 3 the machine.

    ``around`` is entered when the daemon listens and left before it stops; ``reload`` is what SIGHUP does.
    """
    _raise_file_limit()
    try:
        return _on_loop(_serve(settings, hooks, around, reload))
    except InputError as error:
        log.error("%s", error)
        return BAD_INPUT
    except MachineError as error:
        log.error("%s", error)
        return BAD_MACHINE


def _on_loop(main: Coroutine[Any, Any, int]) -> int:
    """The faster loop where it is installed."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def _serve(settings: NodeSettings, hooks: Hooks | None, around: Around | None, reload: Reload | None) -> int:
    loop, manager = asyncio.get_running_loop(), ServiceManager()
    node = Node(settings, hooks)
    signals = _Signals(node, manager, reload)
    collector = IdleCollector(loop)
    signals.install(loop)  # first: a signal during the start ends no process in the middle of it
    try:
        await node.start()
        node.observers.append(collector.woken)
        try:
            await _until_end(node, manager, signals, collector, around)
        finally:
            await node.stop()
    finally:
        manager.end_watch()
        collector.end()
        signals.remove(loop)
    return BAD_MACHINE if node.end_reason else GOOD


async def _until_end(
    node: Node, manager: ServiceManager, signals: _Signals, collector: IdleCollector, around: Around | None
) -> None:
    async with AsyncExitStack() as exit:
        if around is not None:
            await exit.enter_async_context(around(node))
        manager.watch(lambda: node.phase is not Phase.ENDED)
        announcing = asyncio.get_running_loop().create_task(_announce(node, manager, collector))
        await signals.wait_for_end()
        announcing.cancel()


async def _announce(node: Node, manager: ServiceManager, collector: IdleCollector) -> None:
    """Say that it is ready, when it is."""
    try:
        await node.ready()
    except IsotoneError as error:
        log.error("%s", error)
        return
    collector.begin()
    manager.ready(f"{node.me} at {node.address}")
    log.info("daemon %s is ready", node.me)


def _raise_file_limit() -> None:
    """A stream is a file, and the usual limit is that of a small program."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Signals:
    """What the process is told from outside."""

    def __init__(self, node: Node, manager: ServiceManager, reload: Reload | None) -> None:
        self._node, self._manager, self._reload = node, manager, reload
        self._ending = asyncio.Event()
        self._reloading: asyncio.Task[None] | None = None

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Instead of what was done with signals before, until `remove`."""
        self._before = {number: signal.getsignal(number) for number in HANDLED}
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def remove(self, loop: asyncio.AbstractEventLoop) -> None:
        for number, before in self._before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)

    async def wait_for_end(self) -> None:
        """Until somebody asks, or the daemon ends by itself."""
        closed = asyncio.ensure_future(self._node.closed())
        asked = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait((closed, asked), return_when=asyncio.FIRST_COMPLETED)
        for each in (closed, asked):
            each.cancel()

    def _on_stop(self, name: str) -> None:
        if self._ending.is_set():
            log.warning("daemon %s: %s again, ends at once", self._node.name, name)
            self._node.abort(f"{name} twice")
            return
        self._manager.stopping(name)
        log.info("daemon %s: %s", self._node.name, name)
        self._ending.set()
        self._node.end_wait()

    def _on_hangup(self) -> None:
        if self._node.phase is Phase.NEW:
            log.info("daemon %s: SIGHUP during the start: the settings were read just now", self._node.name)
        elif self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._read_again())

    async def _read_again(self) -> None:
        self._manager.reloading(self._node.now())
        try:
            said = await (self._reload(self._node) if self._reload is not None else self._node.reload())
            log.info("daemon %s: settings read again: %s", self._node.me, "; ".join(said) or "nothing changed")
        except IsotoneError as error:
            log.error("daemon %s: the settings were not taken: %s", self._node.me, error)
        self._manager.ready("reloaded")

"""An object of your own class: commands are ordered and run everywhere, all else reads the copy here.

``now`` and ``random`` are arguments that a command may ask for by name: the program that calls chooses them, once, and
they travel with the command, so that all replicas see the same.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.replicated.caller import Caller, ReplicatedObject
from isotone.replicated.class_state import ClassState, commands_of
from isotone.replicated.outcome import DEPTH_MAX, is_too_deep
from isotone.replicated.provisional import Provisional

RANDOM_BITS = 63
ANNOUNCED_WITHIN_S = 5.0


class ReplicatedInstance(ReplicatedObject):
    """``await account.deposit(3)`` for a command; ``(await account.read()).balance`` for the rest."""

    def __init__(self, caller: Caller, name: str, cls: type[Any]) -> None:
        super().__init__(caller, name)
        self.kind, self._cls = caller.machine.classes.add(cls), cls
        self._commands = commands_of(cls)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_") or name not in self._commands:
            raise AttributeError(f"{self._cls.__name__} has no command {name!r}; its state is read with read()")
        function = getattr(self._cls, name)

        async def call(*arguments: Any, within_s: float | None = None, **named: Any) -> Any:
            bound = bound_arguments(f"{self._cls.__name__}.{name}", function, arguments, named)
            await until_announced(self._caller, self.kind, name, within_s)
            return (await self._call(name, *bound, within_s=within_s)).value

        return call

    async def read(self, *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None) -> Any:
        """A copy of the object: whatever is done to it stays here."""
        await self._caller.go_behind(stale_ok=stale_ok, at_least=at_least, within_s=within_s)
        return self._state(ClassState).thaw(self._cls)

    async def provisional(self) -> Provisional:
        """A copy of the object as it is known here, with commutative commands that are in no order yet."""
        state, red = await self._provisional(ClassState)
        return Provisional(state.thaw(self._cls), red)

    def _state(self, of: type[Any]) -> Any:
        machine = self._caller.machine
        if self.name in machine.blind:
            raise LocalProtocolError(
                f"open {self.name} with its class before it is used: connect_replica(classes=[...])"
            )
        found = machine.state.objects.get(self.name)
        if found is not None and not (isinstance(found, ClassState) and found.kind == self.kind):
            raise LocalProtocolError(f"{self.name} is no {self._cls.__name__}")
        return found or ClassState(self.kind)


def bound_arguments(
    told: str, function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """All parameters but the first, in their order; ``now`` and ``random`` are filled in."""
    parameters = inspect.signature(function).parameters
    chosen: dict[str, Callable[[], Any]] = {"now": time.time, "random": lambda: secrets.randbits(RANDOM_BITS)}
    named = {each: choose() for each, choose in chosen.items() if each in parameters} | dict(named)
    try:
        bound = inspect.signature(function).bind(None, *arguments, **named)
    except TypeError as error:
        raise LocalProtocolError(f"{told}: {error}") from error
    bound.apply_defaults()
    if bound.kwargs:
        raise LocalProtocolError(f"{told}: a command has no keyword-only parameters")
    _check_depth(told, bound.args[1:])
    return bound.args[1:]


def _check_depth(told: str, arguments: tuple[Any, ...]) -> None:
    try:
        too_deep = is_too_deep(msgspec.msgpack.decode(msgspec.msgpack.encode(list(arguments))))
    except RecursionError:
        too_deep = True
    except Exception:  # it is told where the command is encoded
        return
    if too_deep:
        raise LocalProtocolError(f"{told}: an argument is nested deeper than {DEPTH_MAX}")


async def until_announced(caller: Caller, kind: str, command: str, within_s: float | None) -> None:
    """Servers that start announce what they know; after a while the answer is theirs."""
    machine = caller.machine
    with suppress(TimeoutError):
        async with asyncio.timeout(ANNOUNCED_WITHIN_S if within_s is None else min(within_s, ANNOUNCED_WITHIN_S)):
            while machine.why_unknown(kind, command):
                await caller.applied_beyond(machine.state.position)

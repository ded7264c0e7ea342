"""The procedures of a database: functions with names, the same at every server.

    bank = isotone.Procedures("bank")

    @bank.procedure
    def transfer(db, giver: str, taker: str, amount: int) -> int:
        ...

A procedure is one transaction. Its first parameter is the `Transaction`; all others travel with the call.

Implements: [COReL 8.1], stored procedures; docs/guide/replicated.md "A database".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from isotone.core.errors import LocalProtocolError

Function = TypeVar("Function", bound=Callable[..., Any])
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
KIND = "database:"


class Procedures:
    """The procedures of one replicated SQLite database: what may write to it. ``name`` is also that of its file."""

    def __init__(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise LocalProtocolError(f"the name of a database has 1 to 64 letters, digits, '_', '.', '-': not {name!r}")
        self.name = name
        self.kind = f"{KIND}{name}"
        self._functions: dict[str, Callable[..., Any]] = {}

    def procedure(self, function: Function) -> Function:
        """Mark a function: it runs at every replica, in the one order, as one transaction."""
        name = function.__name__
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise LocalProtocolError(f"the procedure {name} must be a plain function: it runs to its end at once")
        kinds = [each.kind for each in inspect.signature(function).parameters.values()]
        if not kinds or inspect.Parameter.KEYWORD_ONLY in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
            raise LocalProtocolError(f"the procedure {name} takes the transaction and then positional parameters")
        if name in self._functions:
            raise LocalProtocolError(f"{self.name} has two procedures {name}; rename one")
        self._functions[name] = function
        return function

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """By name."""
        return self._functions

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted."""
        return tuple(sorted(self._functions))

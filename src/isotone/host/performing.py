"""Who carries out which action of an automaton: the host itself, or a callback of the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from isotone.core.contract import Action
from isotone.daemon.engine import Lane, Performer

Callbacks = Mapping[type[Action], Callable[[Any], object]]


class Performers(dict[type[Action], Performer]):
    """Says which action nobody takes."""

    def __init__(self, own: Mapping[type[Action], Performer], callbacks: Callbacks) -> None:
        super().__init__(own)
        self.update({kind: partial(_call, callback) for kind, callback in callbacks.items()})

    def __missing__(self, kind: type[Action]) -> Performer:
        raise AssertionError(f"the automaton returned {kind.__name__}, and this host has no callback for it")


def _call(callback: Callable[[Any], object], lane: Lane, action: Action) -> None:
    del lane
    callback(action)

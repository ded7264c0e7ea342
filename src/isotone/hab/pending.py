"""Broadcasts of one process that are not delivered here yet [HAB Figure 3, ``broadcast``]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotone.hab.settings import HabSettings


@dataclass
class Pending:
    """A broadcast: the application's number for it, and our own, dense from 1."""

    request: int
    counter: int
    record: bytes


def next_batch(pending: Sequence[Pending], submitted: int, settings: HabSettings) -> list[Pending]:
    """The next ones behind the counter ``submitted``, as many as travel together."""
    found: list[Pending] = []
    size = 0
    skip = submitted + 1 - pending[0].counter if pending else 0
    for place in range(max(0, skip), len(pending)):
        each = pending[place]
        size += len(each.record)
        if found and (len(found) >= settings.batch_max or size > settings.batch_bytes_max):
            break
        found.append(each)
    return found

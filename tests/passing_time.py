"""A deadline of real time passes when a test says so: no test need be faster than a machine that stops for a while."""

from __future__ import annotations

import asyncio


def pass_time(seconds: float) -> None:
    """The clock of the running loop goes forward: what was due in between is due now."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]

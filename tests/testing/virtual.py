"""Waiting in tests: only where time is virtual, so that no test ever waits in earnest."""

from __future__ import annotations

import asyncio

from isotone.testing import VirtualLoop


async def pause(seconds: float) -> None:
    """As `asyncio.sleep`, which is under test too."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), "here waiting would take time"
    wait = asyncio.sleep
    await wait(seconds)

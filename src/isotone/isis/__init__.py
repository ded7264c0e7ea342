"""ISIS: process groups with CBCAST, ABCAST and GBCAST, above boundary B4.

The automata are here; what a program uses is loaded when it is first asked for::

    async with isotone.isis.site("calendar", name="a", sites=("a", "b", "c"), address="localhost:4803") as site:
        group = await site.join("entries")
        await group.abcast(b"...", label="queue")
        async for event in group:
            ...
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = ("site", "Site", "Group", "Message", "View", "Answer", "SiteFailed", "BroadcastFailed", "ALL")
_WHERE = "isotone.host.isis_site"  # it needs a loop, which automata do not know


def __getattr__(name: str) -> Any:
    """What is asked for is imported then."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'isotone.isis' has no attribute {name!r}")
    return getattr(import_module(_WHERE), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)

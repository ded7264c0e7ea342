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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotone.isis.toolkit.objects import OperationFailed as OperationFailed
    from isotone.isis.toolkit.objects import nested as nested
    from isotone.isis.toolkit.objects import reads as reads
    from isotone.isis.toolkit.objects import resilient as resilient

_SITE, _TOOLS = "isotone.host.isis_site", "isotone.host.isis_tools"  # they need a loop, which automata do not know
_OBJECTS = "isotone.isis.toolkit.objects"
_PUBLIC = {
    **dict.fromkeys(
        ("site", "Site", "Group", "Message", "View", "Answer", "SiteFailed", "BroadcastFailed", "ALL"), _SITE
    ),
    **dict.fromkeys(("tools", "Tools", "ToolGroup", "ObjectProxy"), _TOOLS),
    **dict.fromkeys(("resilient", "reads", "nested", "OperationFailed"), _OBJECTS),
}


def __getattr__(name: str) -> Any:
    """What is asked for is imported then."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'isotone.isis' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)

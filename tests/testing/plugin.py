"""Whether the pytest plug-in is there by itself, or must be named."""

from __future__ import annotations

from importlib.metadata import entry_points

MODULE = "isotone.testing.pytest_plugin"


def arguments() -> list[str]:
    """What loads the plug-in, once."""
    if any(point.value == MODULE for point in entry_points(group="pytest11")):
        return []
    return ["-p", MODULE]

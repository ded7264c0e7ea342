"""What a log answers when it cannot say yes."""

from __future__ import annotations

from isotone.core.ordered_log import Maybe, Refused
from isotone.corel.port.events import FellBehind, NotYet

__all__ = ["FellBehind", "Maybe", "NotYet", "Refused"]

"""What one process wants done: by its application, by its layer.

Implements: [ISIS 5], Figure 2. Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isotone.core.contract import Action, Record
from isotone.isis.toolkit.layer import LayerAsked
from isotone.trace.events import Entry


@dataclass
class Outbox:
    """What one process wants done."""

    has_labels: bool
    me: str = ""
    at: int = 0
    actions: list[Action] = field(default_factory=list)
    asked: list[LayerAsked] = field(default_factory=list)

    def say(self, action: Action) -> None:
        """Hand an action to the application."""
        self.actions.append(action)

    def record(self, entry: Entry) -> None:
        """Write an entry into the trace."""
        self.actions.append(Record(entry))

"""Why is this message not delivered, why is there no view, why was that daemon excluded: answers from a daemon's state.

Pure functions that read a `Stack` and change nothing in it; ``at`` is the daemon's own time. Each answer has one line
of text for people and its parts for programs, and `msgspec.json.encode` takes it. See docs/protocols/explain.md.
"""

from isotone.evs.explain.answers import Blocker, ExclusionAnswer, MessageAnswer, MessageStage, Ruling, ViewAnswer, Wait
from isotone.evs.explain.exclusions import why_excluded
from isotone.evs.explain.messages import why_not_delivered
from isotone.evs.explain.status import Status, status
from isotone.evs.explain.views import why_no_view

__all__ = [
    "Blocker",
    "ExclusionAnswer",
    "MessageAnswer",
    "MessageStage",
    "Ruling",
    "Status",
    "ViewAnswer",
    "Wait",
    "status",
    "why_excluded",
    "why_no_view",
    "why_not_delivered",
]

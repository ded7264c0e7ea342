"""What the groups want done, besides `Indicate`; and their settings.

Implements: [Spread 6.4.4], the messages that are sent; [Spread 3.4.2], what pruning has to know. Deviations: none.
"""

from __future__ import annotations

import msgspec

from isotone.core.codec.fragment import MESSAGE_BYTES_MAX
from isotone.core.contract import Action
from isotone.core.ids import DaemonViewId
from isotone.evs.ordering.stamper import Draft


class Submit(Action, frozen=True, gc=False):
    """These shall be stamped in this daemon view or, if it ends before, in the next."""

    drafts: tuple[Draft, ...]


class StateInterest(Action, frozen=True, gc=False):
    """All groups in which a site has members, once they are known in a daemon view; joins seen since count besides.

    It may be told when that daemon view is over already: it says nothing about the next.
    """

    view: DaemonViewId
    site: str
    groups: tuple[str, ...]


class ChangeInterest(Action, frozen=True, gc=False):
    """A site got its first member of a group, or lost its last.

    A loss says nothing about joins of the site that stand behind it and may have been received already; nor does either
    about another daemon view.
    """

    view: DaemonViewId
    site: str
    group: str
    interested: bool


class GroupsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what one daemon keeps for its clients."""

    waiting_bytes_max: int = 64 * 1024 * 1024  # of drafts that wait here while the groups are gathered
    message_bytes_max: int = MESSAGE_BYTES_MAX  # of one message
    names_max: int = 65_536  # of clients whose last session number is remembered
    groups_max: int = 1_000_000  # that there are; no client of this daemon makes one more
    groups_per_session_max: int = 1_000_000  # that one session is in or asked to be in

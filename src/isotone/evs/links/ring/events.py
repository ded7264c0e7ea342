"""What a ring takes and gives beside the contract of links.

Implements: [Spread 4.1], a site's line that the ring tells to the ordering. Deviations: D-rest as in
`isotone.evs.links.ring.ring`: the token is wanted before it comes.
"""

from __future__ import annotations

from isotone.core.contract import Action, Event

TOKEN_TIMER = ("ring", "token")
REQUEST_TIMER = ("ring", "request")
LINGER_TIMER = ("ring", "linger")
RESTING = 1  # flag of SEEN: the token stays here


class TokenWanted(Event, frozen=True, gc=False):
    """The origin has something to stamp, or a line to spread."""


class SiteLineRose(Action, frozen=True, gc=False):
    """Every daemon of the site has received every unit with a time of at most this."""

    line: int

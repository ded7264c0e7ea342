"""Daemon views: who is together, through every fault. Implements: [Spread 6.1]."""

from isotone.evs.membership.events import PeersChanged
from isotone.evs.membership.membership import Membership
from isotone.evs.membership.settings import InterimViews, KnownDaemon, LinkPlan, MembershipSettings, SiteGateways
from isotone.evs.membership.states import Exclusion, Reason, Standing, State

__all__ = [
    "Exclusion",
    "InterimViews",
    "KnownDaemon",
    "LinkPlan",
    "Membership",
    "MembershipSettings",
    "PeersChanged",
    "Reason",
    "SiteGateways",
    "Standing",
    "State",
]

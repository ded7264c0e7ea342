"""The token ring of one site. Implements: [Spread 4.1]."""

from isotone.evs.links.ring.inbound import split_before_token
from isotone.evs.links.ring.ring import Ring
from isotone.evs.links.ring.settings import RingSettings
from isotone.evs.links.ring.token import Origin, Origination, Token

__all__ = ["Origin", "Origination", "Ring", "RingSettings", "Token", "split_before_token"]

"""The hop protocol: a reliable link to one peer over datagrams, for wide areas. Implements: [Spread 4.3]."""

from isotone.evs.links.hop.hop import Hop
from isotone.evs.links.hop.settings import HopSettings

__all__ = ["Hop", "HopSettings"]

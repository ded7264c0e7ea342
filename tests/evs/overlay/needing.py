"""Which sites need content, as tests ask for it."""

from __future__ import annotations

from isotone.evs.overlay.interest import Interest


def sites_needing(interest: Interest, *groups: str) -> tuple[str, ...]:
    """The sites that need the content of a bundle to these groups, sorted, whether or not it can reach them."""
    needed = interest.sites_needed(groups)
    return tuple(site for site, bit in interest._bits.items() if needed & bit)

"""Hierarchies of rings: grown to a wanted fan-out, or written down by hand as dotted names.

``r.2.1`` is below ``r.2``, which is below ``r``. Names that have no parent among them hang below an invitation's ring,
or are the top.

Implements: [Flows 3.1]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.core.errors import InputError
from isotone.flows.authority import RingSettings
from isotone.flows.messages import MEMBERS_MAX

RINGS_MAX = 10_000


def grown(nodes: int, fan_out: int, top: str = "r") -> list[str]:
    """The names of rings for so many nodes, no ring with more than ``fan_out`` members; the leaves are the longest."""
    if nodes < 1 or not 2 <= fan_out <= MEMBERS_MAX:
        raise InputError(f"a hierarchy has nodes, and a fan-out of 2 to {MEMBERS_MAX}")
    layers, room = 1, fan_out
    while room < nodes:
        layers, room = layers + 1, room * fan_out
    names, above = [top], [top]
    for layer in range(1, layers):
        wanted = -(-nodes // fan_out ** (layers - layer))
        if len(names) + wanted > RINGS_MAX:
            raise InputError(f"one authority serves at most {RINGS_MAX} rings")
        parents = [above[place * len(above) // wanted] for place in range(wanted)]
        above = [f"{parent}.{parents[: place + 1].count(parent)}" for place, parent in enumerate(parents)]
        names += above
    return names


def leaves_of(names: Sequence[str]) -> list[str]:
    """Rings that none of the others is below: those that nodes join."""
    parents = {name.rpartition(".")[0] for name in names}
    return [name for name in names if name not in parents]


def ring_settings(
    names: Sequence[str],
    program: str,
    authority: str,
    *,
    parent: tuple[str, str] = ("", ""),
    token_us: int,
    ranges_max: int,
    bytes_per_s: int = 0,
) -> dict[str, RingSettings]:
    """The settings of all rings at one authority; ``parent``: the ring and authority that the highest hang below."""
    found: dict[str, RingSettings] = {}
    if len(set(names)) != len(names) or not names:
        raise InputError("rings have different names, and there is at least one")
    for name in names:
        above = name.rpartition(".")[0]
        ring, where = (above, authority) if above in names else parent
        found[name] = RingSettings(name, ring, where, program, token_us, ranges_max, bytes_per_s)
    tops = [name for name, each in found.items() if not each.parent]
    if len(tops) > 1:
        raise InputError(f"there is one top ring, not {', '.join(tops)}")
    return found

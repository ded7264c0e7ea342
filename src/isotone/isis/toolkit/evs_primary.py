"""Which views of a system are primary, and who goes on in them with what it has.

A primary view has a majority of the sites, and a number. It is *attempted* by all its sites, each of which saves that
first, and *established* where all attempts were heard. Who was in the last primary view and came along since then goes
on; everybody else begins anew under another name. When nobody of the last one is there, all begin anew: groups are then
formed from checkpoints.

Implements: [ISIS 4.2], the majority of footnote 3; [COReL 4], attempted and established, without its messages.
Deviations: D-newest (ISIS waits for nobody either: a majority that recovers goes on without a minority that has the
state, and then declares that minority dead).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.isis.toolkit.evs_wire import Hello


class Attempt(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last attempt of a site, on its disk. ``base``: who goes on if nobody has established it."""

    number: int = 0
    base: int = 0


class Decision(msgspec.Struct, frozen=True):
    """An attempt, and the sites whose processes go on in it, by name."""

    attempt: Attempt
    survivors: tuple[str, ...]


def decide(hellos: Mapping[str, Hello]) -> Decision:
    """From what all sites of a view bring; the same at all of them."""
    last = max(hellos.values(), key=lambda hello: (hello.attempted, hello.base))
    established = max(hello.established for hello in hellos.values())
    needed = last.base if _is_void(hellos, last.attempted) else last.attempted
    survivors: tuple[str, ...] = ()
    if established and established >= needed:
        sides = {
            frozenset(each for each in hello.together if each in hellos and hellos[each].established == established)
            for hello in hellos.values()
            if hello.established == established
        }
        survivors = min((tuple(sorted(side)) for side in sides), key=lambda side: (-len(side), side))
    base = established if survivors else needed
    return Decision(Attempt(last.attempted + 1, base), survivors)


def _is_void(hellos: Mapping[str, Hello], number: int) -> bool:
    """Whether a process is here that took part in the attempt and has not established it.

    Then nothing in it was sure: what is SAFE there was heard by all who took part and live.
    """
    return any(
        hello.took_part and hello.attempted == number and hello.established < number for hello in hellos.values()
    )

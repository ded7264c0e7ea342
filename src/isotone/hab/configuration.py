"""Which data centres take part, in the order of succession, and the numbers of epochs.

A centre takes part as a group with a number. The group with the lowest number is the primary; one that returns takes
a new, higher number. An epoch belongs to one primary: a take-over counts up and names the group, a hand-over takes the
number right behind, which nobody else can have.

Implements: [HAB 3.1], "an identification number a priori". Deviations: Dh7.
"""

from __future__ import annotations

import msgspec

GROUPS_MAX = 64
NUMBER_BITS, HANDOVER_BITS = 20, 16


def first_epoch(number: int) -> int:
    """That of the first primary."""
    return next_epoch(0, number)


def next_epoch(after: int, number: int) -> int:
    """The epoch that this group takes in a take-over: above ``after``, and no other group can take it."""
    return ((after >> NUMBER_BITS + HANDOVER_BITS) + 1) << NUMBER_BITS + HANDOVER_BITS | number << HANDOVER_BITS


def handed_over(epoch: int) -> int:
    """The epoch behind this one, by a hand-over; no take-over has a number in between."""
    return epoch + 1


class Group(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A data centre in one of its lives in the system."""

    number: int
    name: str
    admitted_at: int = 0  # the index that admitted it; 0: it was there from the beginning


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """The groups by number. Values: each change is another one."""

    groups: tuple[Group, ...]
    next_number: int

    def numbered(self, number: int) -> Group | None:
        """The group with this number."""
        return next((group for group in self.groups if group.number == number), None)

    def named(self, name: str) -> Group | None:
        """The group of this centre."""
        return next((group for group in self.groups if group.name == name), None)

    @property
    def majority(self) -> int:
        """So many groups are more than half."""
        return len(self.groups) // 2 + 1

    def admitting(self, name: str, index: int) -> Configuration:
        """With one more, at the end of the succession."""
        assert self.named(name) is None and len(self.groups) < GROUPS_MAX
        return Configuration((*self.groups, Group(self.next_number, name, index)), self.next_number + 1)

    def removing(self, number: int) -> Configuration:
        """Without this one."""
        return Configuration(tuple(group for group in self.groups if group.number != number), self.next_number)

    def led_by(self, number: int) -> Configuration:
        """This group first: those before it take new numbers, in their order."""
        later, number_next = [], self.next_number
        for group in self.groups:
            if group.number < number:
                later.append(msgspec.structs.replace(group, number=number_next))
                number_next += 1
        kept = tuple(group for group in self.groups if group.number >= number)
        return Configuration((*kept, *later), number_next)


def founding(names: tuple[str, ...]) -> Configuration:
    """The configuration of a new system: numbers from 1 in this order."""
    groups = tuple(Group(place, name) for place, name in enumerate(names, start=1))
    return Configuration(groups, len(groups) + 1)

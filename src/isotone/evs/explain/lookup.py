"""Where in a daemon a message is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from isotone.core.ids import DaemonId, MessageId, Stamp
from isotone.evs.explain import inside
from isotone.evs.explain.answers import MessageStage
from isotone.evs.membership.network import Network
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import Unit
from isotone.evs.stack import Stack


class Where(Enum):
    """Who has the unit."""

    HELD_BY_GROUPS = "the groups, while they gather"
    WORKING = "the network of the daemon view"
    FORMING = "the membership, for the daemon view that forms"
    ENDED = "the membership, of the daemon view that ended"


class Wanted(msgspec.Struct, frozen=True):
    """A message by one of its names."""

    text: str
    daemon: DaemonId
    stamp: Stamp | None = None
    id: MessageId | None = None

    def names(self, letter: inside.Letter | None) -> bool:
        """Whether this is its bundle."""
        if self.id is None or letter is None:
            return False
        return letter.sender == self.id.sender and letter.first <= self.id.sequence <= letter.last


class FoundDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft, and how many of its session are before it."""

    place: MessageStage
    in_groups: bool = False
    bulk: bool = False
    unbegun: bool = False
    held: bool = False  # its session waits for room on a link
    before: int = 0
    groups: tuple[str, ...] = ()


class FoundUnit(msgspec.Struct, frozen=True):
    """A unit; of a large message the last fragment that is here, which need not be the last of all."""

    where: Where
    unit: Unit
    members: Sequence[DaemonId]
    network: Network | None = None
    is_whole: bool = True
    groups: tuple[str, ...] = ()  # where the body tells


def wanted_of(message: Stamp | MessageId) -> Wanted:
    """What to look for."""
    if isinstance(message, Stamp):
        return Wanted(f"message {message}", message.daemon, stamp=message)
    return Wanted(f"message {message.sequence} of {message.sender}", message.sender.daemon, id=message)


# --- drafts --------------------------------------------------------------------------------------------------------


def find_draft(stack: Stack, wanted: Wanted) -> FoundDraft | None:
    """A message of a client of this daemon that has no stamp yet."""
    if wanted.id is None or wanted.daemon != stack.me:
        return None
    if letter := _letter_among(wanted, inside.queued_in_groups(stack.groups)):
        return FoundDraft(place=MessageStage.QUEUED, in_groups=True, groups=letter.groups)
    if letter := _letter_among(wanted, inside.node_of(stack).waiting):
        return FoundDraft(place=MessageStage.QUEUED, groups=letter.groups)
    network = inside.installed(stack)
    if network is None:
        return None
    before = 0
    stamper = network.transport.stamper
    for draft, bulk, unbegun in inside.waiting_drafts(stamper):
        if draft.session != wanted.id.sender.name:
            continue
        if letter := _letter_among(wanted, (draft,)):
            held = stamper.is_held(draft.session)
            return FoundDraft(
                place=MessageStage.UNSTAMPED, bulk=bulk, unbegun=unbegun, held=held, before=before, groups=letter.groups
            )
        before += 1
    return None


def _letter_among(wanted: Wanted, drafts: Iterable[Draft]) -> inside.Letter | None:
    return next((letter for letter in map(inside.draft_letter, drafts) if wanted.names(letter)), None)


# --- units ---------------------------------------------------------------------------------------------------------


def find_unit(stack: Stack, wanted: Wanted) -> FoundUnit | None:
    """The unit, wherever it is; first where it went last."""
    groups, node = stack.groups, inside.node_of(stack)
    for where, units in ((Where.HELD_BY_GROUPS, inside.held_in_groups(groups)),):
        if (found := _find(wanted, where, units, groups.view.members)) is not None:
            return found
    network = node.network
    if network is not None and not network.installed:
        held = stack.membership.transfer.held
        if (found := _find(wanted, Where.FORMING, held, network.view.members)) is not None:
            return found
    if network is not None and network.installed:
        kept = [unit for stream in network.transport.delivery.streams for unit in stream.units()]
        return _find(wanted, Where.WORKING, kept, network.view.members, network)
    if node.past.recovery is not None:
        return _find(wanted, Where.ENDED, inside.recovery_units(node.past.recovery), node.past.members)
    return None


def _find(
    wanted: Wanted,
    where: Where,
    units: Iterable[Unit],
    members: Sequence[DaemonId],
    network: Network | None = None,
) -> FoundUnit | None:
    if wanted.daemon not in members:
        return None
    index = members.index(wanted.daemon)
    own = [unit for unit in units if unit.daemon == index]
    for unit in own:
        if wanted.stamp is not None:
            if unit.lamport == wanted.stamp.lamport:
                letter = inside.letter_of(unit.kind, unit.body)
                return FoundUnit(where, unit, members, network, groups=() if letter is None else letter.groups)
        elif wanted.names(letter := inside.letter_of(unit.kind, unit.body)):
            assert letter is not None
            last, is_whole = _last_fragment(own, letter.large) if letter.large else (unit, True)
            return FoundUnit(where, last, members, network, is_whole, letter.groups)
    return None


def _last_fragment(units: Sequence[Unit], number: int) -> tuple[Unit, bool]:
    """A large message stands where its last fragment stands."""
    parts = [(unit, part[1]) for unit in units if (part := inside.fragment_number(unit)) and part[0] == number]
    return max(parts, key=lambda each: each[0].lamport)

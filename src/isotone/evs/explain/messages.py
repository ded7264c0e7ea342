"""Why is this message not delivered here yet? Named by its stamp, or by its client and session sequence.

A message is looked for from its client to its delivery: queue of the groups, queue for the next daemon view, drafts,
units of the network that works or forms, units of the daemon view that ended, units that the groups hold. Where it is
not found, what is known says whether it was delivered, cannot have come yet, or cannot be told.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.core.ids import DaemonId, MessageId, Stamp
from isotone.evs.explain import inside
from isotone.evs.explain.answers import Blocker, MessageAnswer, MessageStage, Wait
from isotone.evs.explain.exclusions import why_excluded
from isotone.evs.explain.lookup import FoundUnit, Wanted, Where, find_draft, find_unit, wanted_of
from isotone.evs.explain.views import view_blocker
from isotone.evs.explain.waiting import Waiting
from isotone.evs.explain.words import listed, silence_of, span
from isotone.evs.groups import State as GroupsState
from isotone.evs.membership.network import Network
from isotone.evs.ordering.units import UnitKind
from isotone.evs.sessions.server_session import ServerSession
from isotone.evs.stack import Stack


def why_not_delivered(stack: Stack, message: Stamp | MessageId, at: int) -> MessageAnswer:
    """Where the message is and what it waits for, at this daemon."""
    wanted = wanted_of(message)
    answer = _Answers(stack, wanted, at)
    draft = find_draft(stack, wanted)
    if draft is not None and draft.place is MessageStage.QUEUED:
        blockers = answer.queued(in_groups=draft.in_groups)
        return answer.make(MessageStage.QUEUED, "it is queued", blockers, groups=draft.groups)
    if draft is not None:
        network = inside.installed(stack)
        assert network is not None
        blockers = Waiting(inside.node_of(stack), network, at).draft(
            bulk=draft.bulk, unbegun=draft.unbegun, held=draft.held
        )
        text = f"it is not stamped yet, {draft.before} of its session before it"
        return answer.make(MessageStage.UNSTAMPED, text, blockers, groups=draft.groups)
    found = find_unit(stack, wanted)
    return answer.of_unit(found) if found is not None else answer.of_nothing(message)


class _Answers:
    """Answers about one message at one daemon."""

    def __init__(self, stack: Stack, wanted: Wanted, at: int) -> None:
        self._stack, self._wanted, self._at = stack, wanted, at
        self._node = inside.node_of(stack)

    def make(
        self,
        place: MessageStage,
        text: str,
        blockers: Sequence[Blocker] = (),
        found: FoundUnit | None = None,
        groups: Sequence[str] = (),
    ) -> MessageAnswer:
        """One line, and the parts."""
        causes = "; ".join(self._timed(each) for each in blockers)
        line = f"{self._wanted.text} at {self._stack.me}: {text}" + (f": {causes}" if causes else "")
        return MessageAnswer(
            text=line,
            message=self._wanted.text,
            place=place,
            daemon_view=str(self._stack.membership.view),
            service="" if found is None else found.unit.service.name,
            stamp="" if found is None else str(Stamp(found.unit.lamport, found.members[found.unit.daemon])),
            groups=tuple(groups) if found is None else found.groups,
            blockers=tuple(blockers),
        )

    def _timed(self, blocker: Blocker) -> str:
        if blocker.since is None:
            return blocker.text
        return f"{blocker.text}, for {span(self._at - blocker.since)}"

    # --- before the daemon view ------------------------------------------------------------------------------------

    def queued(self, *, in_groups: bool) -> list[Blocker]:
        """What opens the queues of the groups and of the membership."""
        if in_groups and self._stack.groups.state is not GroupsState.GTRANS:
            return self._groups_missing()
        return [view_blocker(self._stack, self._at)]

    def _groups_missing(self) -> list[Blocker]:
        groups = self._stack.groups
        blockers = []
        for daemon in groups.missing():
            silence, until = ("it is this daemon", None)
            if daemon != self._stack.me:
                silence, until = silence_of(self._node, daemon.name, self._at)
            text = f"the GROUPS of {daemon} have not come ({silence})"
            blockers.append(Blocker(wait=Wait.GROUPS, text=text, daemons=(daemon.name,), until=until))
        if groups.state is GroupsState.GGT or inside.installed(self._stack) is None:
            blockers.append(view_blocker(self._stack, self._at))
        return blockers

    # --- units -----------------------------------------------------------------------------------------------------

    def of_unit(self, found: FoundUnit) -> MessageAnswer:
        """A unit that is here."""
        match found.where:
            case Where.HELD_BY_GROUPS:
                text = "the groups hold it until those of all daemons are known"
                return self.make(MessageStage.HELD, text, self._groups_missing(), found)
            case Where.FORMING:
                text = "it is of the daemon view that forms, which others have installed already"
                return self.make(MessageStage.WAITING, text, [view_blocker(self._stack, self._at)], found)
            case Where.ENDED:
                return self._of_ended(found)
            case Where.WORKING:
                return self._of_working(found)

    def _of_ended(self, found: FoundUnit) -> MessageAnswer:
        recovery = self._node.past.recovery
        assert recovery is not None
        if inside.recovery_has_delivered(recovery, found.unit):
            return self._delivered(found)
        text = f"daemon view {self._node.past.id} ended before it could be delivered"
        return self.make(MessageStage.OWED, text, [view_blocker(self._stack, self._at)], found)

    def _of_working(self, found: FoundUnit) -> MessageAnswer:
        network, unit = found.network, found.unit
        assert network is not None
        if network.transport.delivery.streams[unit.site].has_delivered(unit.sequence):
            return self._delivered(found) if found.is_whole else self._rest_of_large(found, network)
        return self.make(MessageStage.WAITING, "it is here and waits", self._waiting(network).unit(unit), found)

    def _rest_of_large(self, found: FoundUnit, network: Network) -> MessageAnswer:
        """A large message of which the last fragment is not here."""
        unit = found.unit
        line = network.transport.delivery.lines.sites[unit.site]
        more = self._waiting(network).missing(unit.site, line.contiguous + 1)
        blocker = msgspec.structs.replace(more, wait=Wait.FRAGMENTS)
        return self.make(MessageStage.MISSING, "only a part of this large message has come", [blocker], found)

    def _delivered(self, found: FoundUnit) -> MessageAnswer:
        unit, text = found.unit, "it is delivered"
        letter = inside.letter_of(unit.kind, unit.body)
        if unit.kind is UnitKind.PRUNED:
            text = "its place in the order was passed; no client of this site was in its groups, so only that came"
        elif letter is not None and not inside.local_receivers(self._stack.groups, letter.groups):
            text = f"it is delivered, to nobody here: no client of this daemon is in {listed(letter.groups)} now"
        if found.network is None:  # its daemon view is over: who lacks it gets it before the next, or is not in that
            return self.make(MessageStage.DELIVERED, text, [view_blocker(self._stack, self._at)], found)
        if unit.lamport <= found.network.transport.delivery.lines.stable:
            return self.make(MessageStage.DELIVERED, text, (), found)
        kept_by = self._waiting(found.network).everywhere(unit.lamport)
        return self.make(MessageStage.DELIVERED, f"{text}, and kept until it is known to be everywhere", kept_by, found)

    def _waiting(self, network: Network) -> Waiting:
        return Waiting(self._node, network, self._at)

    # --- nothing was found -----------------------------------------------------------------------------------------

    def of_nothing(self, message: Stamp | MessageId) -> MessageAnswer:
        """It is not here: what can be told from what is known of its sender."""
        daemon = message.daemon if isinstance(message, Stamp) else message.sender.daemon
        if isinstance(message, MessageId) and daemon == self._stack.me:
            return self._of_own_client(message)
        network = inside.installed(self._stack)
        if network is None:
            text = "it is not here; while there is no daemon view that works nothing new comes"
            return self.make(MessageStage.UNKNOWN, text, [view_blocker(self._stack, self._at)])
        if daemon not in network.view.members:
            return self.make(MessageStage.UNKNOWN, f"{daemon} is not in the daemon view: {self._exclusion(daemon)}")
        if isinstance(message, Stamp):
            return self._of_stamp(message, network)
        return self._of_other_client(network, daemon)

    def _exclusion(self, daemon: DaemonId) -> str:
        member = [each for each in self._stack.membership.members if each.name == daemon.name]
        if member and member[0] != daemon:
            return f"{member[0]} is, another start of it"
        return why_excluded(self._stack, daemon.name, self._at).text

    def _of_own_client(self, message: MessageId) -> MessageAnswer:
        groups, client = self._stack.groups, message.sender
        upcoming = inside.next_sequence(groups, client)
        if upcoming is not None and message.sequence >= upcoming:
            return self._not_taken(message, upcoming)
        if upcoming is None and (inside.last_session(groups, client.name) or -1) < client.session:
            return self.make(MessageStage.UNKNOWN, "no such session was ever open here")
        if inside.unfinished_bytes(groups):
            text = "it was delivered, or it is a large message of which the last fragment has not come"
            return self.make(MessageStage.DELIVERED, text)
        ending = "" if upcoming is not None else ", if the session sent it before it ended"
        return self.make(MessageStage.DELIVERED, f"it was delivered{ending}")

    def _not_taken(self, message: MessageId, upcoming: int) -> MessageAnswer:
        """It is at its client, or in the inbox of its session; then the first in the inbox says what both wait for."""
        text = f"this daemon has not taken it from its client, whose next message is {upcoming}"
        session = inside.session_of(self._stack, message.sender)
        letters = [] if session is None else list(inside.inbox_letters(session))
        if session is None or not letters:
            return self.make(MessageStage.UNKNOWN, text)
        own = next((letter for letter in letters if letter.first <= message.sequence <= letter.last), letters[0])
        return self.make(MessageStage.UNKNOWN, text, self._session_held(session, letters[0].groups), groups=own.groups)

    def _session_held(self, session: ServerSession, groups: Sequence[str]) -> list[Blocker]:
        """What keeps the first message of an inbox there: slow readers of its groups, or no room below."""
        roster = self._stack.groups.roster
        readers = [
            reader
            for reader in inside.readers_for(self._stack, session)
            if reader.private_group in groups or not set(roster.groups_of(reader)).isdisjoint(groups)
        ]
        if readers:
            named = listed(map(str, readers))
            text = f"its session is held, for a client in {listed(groups)} does not read: {named}"
            daemons = tuple(dict.fromkeys(reader.daemon.name for reader in readers))
            return [Blocker(wait=Wait.READER, text=text, daemons=daemons, readers=tuple(map(str, readers)))]
        network = inside.installed(self._stack)
        if network is None or self._stack.groups.state is not GroupsState.GOP:
            return self.queued(in_groups=True)
        return self._waiting(network).draft(bulk=False, unbegun=False, held=False)

    def _of_stamp(self, stamp: Stamp, network: Network) -> MessageAnswer:
        place = network.view.members.index(stamp.daemon)
        site = network.view.site_index(network.view.site_of(stamp.daemon.name).name)
        line = network.transport.delivery.lines.sites[site]
        if stamp.daemon == self._stack.me and stamp.lamport > network.transport.stamper.lamport:
            return self.make(MessageStage.UNKNOWN, "this daemon has stamped nothing of that time yet")
        if stamp.lamport > line.heard:
            waiting = self._waiting(network)
            return self.make(MessageStage.MISSING, "it has not come", waiting.missing_through(site, stamp.lamport))
        if (stamp.lamport, place) <= network.transport.delivery.last_agreed:
            return self.make(MessageStage.DELIVERED, "all that was stamped up to there is delivered and everywhere")
        text = "all up to that time has come, and this is not among it: it is delivered, or there is no such message"
        return self.make(MessageStage.DELIVERED, text)

    def _of_other_client(self, network: Network, daemon: DaemonId) -> MessageAnswer:
        site = network.view.site_index(network.view.site_of(daemon.name).name)
        line, streams = network.transport.delivery.lines.sites[site], network.transport.delivery.streams
        text = "it is not here: not sent yet, still on its way, delivered and forgotten, or pruned because no client \
of this site is in its groups"
        blockers = []
        if streams[site].known > line.contiguous:
            blockers = [self._waiting(network).missing(site, line.contiguous + 1)]
        return self.make(MessageStage.UNKNOWN, text, blockers)

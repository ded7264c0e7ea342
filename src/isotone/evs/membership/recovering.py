"""EVS: those who came from the same daemon view give each other what is missing, commit, and install.

Implements: [Spread 6.1.10, Figures 6.13 to 6.16]. Deviations: D-done the end of the exchange is a message of its own
and not a line that reaches a target, since nothing of an upper layer is sent in a daemon view that is not installed;
those of `isotone.evs.ordering.recovery`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from isotone.core.errors import RemoteProtocolError
from isotone.core.ids import DaemonId
from isotone.core.views import DaemonView
from isotone.evs.boundary import DeliverDaemonView, DeliverSignal
from isotone.evs.membership.messages import Recovered, view_name
from isotone.evs.membership.node import Node
from isotone.evs.membership.past import past_of
from isotone.evs.membership.states import Reason, State
from isotone.evs.ordering.holding import Holding
from isotone.evs.ordering.stamper import UNIT_OVERHEAD_BYTES
from isotone.evs.ordering.units import Unit

if TYPE_CHECKING:
    from isotone.evs.membership.operating import Operating
    from isotone.evs.membership.segment import Segment
    from isotone.evs.membership.transfer import Transfer

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Holding)


class Recovering:
    """An attempt whose states are complete."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.transfer: Transfer
        self.operating: Operating
        self.segment: Segment
        self._together: tuple[DaemonId, ...] = ()  # who came from the same daemon view
        self._resends: deque[Unit] = deque()
        self._done = False  # RECOVERED was sent
        self._looking = self._again = False

    def encode_holding(self, holding: Holding) -> bytes:
        """As it travels."""
        return _ENCODER.encode(holding)

    # --- entry -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """After everything that came: go on as far as possible. What is sent meanwhile has consequences of its own."""
        self._again = True
        if self._looking:
            return
        self._looking = True
        while self._again:
            self._again = False
            if self.node.state is State.STATETRANS and self.transfer.is_complete:
                self._enter_evs()
            if self.node.state is State.EVS:
                self._go_on()
        self._looking = False

    def _enter_evs(self) -> None:
        """All states are here: who came along, and what each of us has to send again."""
        node, past = self.node, self.node.past
        node.enter(State.EVS, Reason.STATES_COMPLETE)
        self.transfer.progressed()
        self._done = False
        self._resends.clear()
        states = self.transfer.states
        along = {place: state for place, state in sorted(states.items()) if state.previous.id == past.id}
        self._together = tuple(node.members[place] for place in along)
        assert node.me in self._together
        if past.recovery is None:
            return
        try:
            holdings = {state.index: _DECODER.decode(state.holding) for state in along.values()}
            for place, state in along.items():
                if past.members[state.index] != node.members[place]:
                    raise RemoteProtocolError("a state of somebody else")
            self._resends.extend(past.recovery.begin(holdings))
        except (RemoteProtocolError, msgspec.MsgspecError, IndexError) as error:
            self.transfer.failed()
            self.segment.enter_seg(Reason.STATE_MALFORMED, str(error))

    # --- resending and committing ----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        node, past = self.node, self.node.past
        self._resend()
        if node.state is State.EVS and not self._done and (past.recovery is None or past.recovery.is_complete):
            self._commit()
        if node.state is not State.EVS or not self._done:
            return  # the network failed when something was sent, or something is missing
        if len(self.transfer.recovered) == len(node.members) or self.transfer.held:
            self._install()

    def _resend(self) -> None:
        """As much as the network takes now."""
        network = self.node.network
        assert network is not None
        drafts = []
        room = network.transport.room
        while self._resends and room > 0:
            draft = self.node.past.resent(self._resends.popleft())
            room -= len(draft.body) + UNIT_OVERHEAD_BYTES
            drafts.append(draft)
        if drafts:
            self.transfer.submit(drafts)

    def _commit(self) -> None:
        """Everything is here: whatever becomes of the others, what they sent is delivered. Say so."""
        node, past = self.node, self.node.past
        assert node.network is not None
        self._done = True
        for state in self.transfer.states.values():
            if state.previous.id == past.id:
                past.committed |= {state.index, *(each for each in state.committed if each < len(past.members))}
        if past.recovery is not None:
            past.recovery.commit()
        self.transfer.say(Recovered(view_name(node.network.id)))

    # --- installing ------------------------------------------------------------------------------------------------

    def _install(self) -> None:
        """DeliverMembership: what is owed before the signal, the signal, what is owed after it, the view."""
        node, past = self.node, self.node.past
        network = node.network
        assert network is not None
        view = DaemonView(network.id, network.view.members, self._together)
        if past.recovery is not None:
            concluded = past.recovery.conclude(frozenset(past.committed))
            node.deliver(concluded.before, past.members)
            node.out += node.record.signal(past.id)
            node.out.append(DeliverSignal(past.id, view.id, self._together))
            node.deliver(concluded.after, past.members)
        network.installed = True
        node.past = past_of(network)
        node.failures, node.not_before = 0, 0
        node.out += node.record.view(view)
        node.out.append(DeliverDaemonView(view, network.view.topology, network.version, network.lamport))
        held, self.transfer.held = self.transfer.held, []
        node.deliver(held, network.view.members)
        self.operating.enter(Reason.INSTALLED)

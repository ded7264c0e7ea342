"""Every property of extended virtual synchrony as data: id, statement, source, boundary, services, reading.

Implements: [Spread 2.2.3] to [Spread 2.2.7], Properties 2.1 to 2.23, each sub-clause under its own id.
Deviations, each because the thesis contradicts itself or concedes a defect:
D-first-view  the transitional set of a first view is the process itself (Theorems 6.5 and 6.18), not empty (2.4.1);
D-cut         the same-view clauses (2.7, 2.13.3, 2.18) hold for all reliable services at EVS-C too; [Spread 2.2.4]
              leaves RELIABLE and FIFO out of 2.18;
D-other-side  at EVS-C a join can stand before the signal in one component and behind it in another. Since members must
              agree (2.20), the views that it makes have different ids, and nobody can know the other's; so 2.18 binds
              what is delivered before signals, 2.14.2 and 2.14.3 bind the message and not the view, and 2.9.2 compares
              ids without the next daemon view, which tells ways out of a daemon view apart and orders nothing;
D-agreement   Membership Agreement (2.20) and Local Monotonicity hold for groups too, because view ids are never reused;
D-termination the garbled end of 2.17 is read as: the sender installs a later view;
D-unreliable  UNRELIABLE owes 2.1, 2.5 and 2.6 only.

``reading`` says how a trace is judged where the statement leaves room. Terms: a *process* is a client's session at
EVS-C and a daemon's incarnation at EVS-S; *ends* means that it disconnects, or its daemon crashes; a process *moves
from v to w* when w is the next view it installs in that group; p and q are *together in v* (virtually synchronous)
when both move from v to the same w. A later incarnation of a node does not end an earlier one that did not crash
(Assumption 2.1); where its crash may be among lost rows, it counts as ended.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core.services import Service


class Boundary(Enum):
    """Where a property is observed."""

    CLIENTS = "EVS-C"
    DAEMONS = "EVS-S"
    NETWORK = "network"
    RUN = "run"
    COREL = "COReL"
    ISIS = "ISIS"
    HAB = "HAB"
    FLOWS = "flows"
    REPLICATED = "replicated"
    SYNCHRONY = "view synchrony"


class Form(Enum):
    """What kind of clause it is; definitions have no checker."""

    SAFETY = "safety"
    LIVENESS = "liveness"
    DEFINITION = "definition"


U, R, F, C, A, S = Service
ALL = frozenset((U, R, F, C, A, S))
RELIABLE = frozenset((R, F, C, A, S))
FIFO = frozenset((F, C, A, S))
CAUSAL = frozenset((C, A, S))
AGREED = frozenset((A, S))
SAFE = frozenset((S,))
NONE: frozenset[Service] = frozenset()

BOTH = (Boundary.CLIENTS, Boundary.DAEMONS)


class Property(msgspec.Struct, frozen=True):
    """One promise."""

    id: str
    name: str
    statement: str
    source: str
    form: Form
    boundaries: tuple[Boundary, ...]
    services: frozenset[Service]
    reading: str = ""

    def label(self, boundary: Boundary) -> str:
        """The id under which a verdict at one boundary is counted: EVS-S verdicts carry a suffix."""
        return self.id if boundary is not Boundary.DAEMONS or len(self.boundaries) == 1 else f"{self.id}@S"


def _p(
    id: str,
    name: str,
    statement: str,
    *,
    services: frozenset[Service] = NONE,
    form: Form = Form.SAFETY,
    boundaries: tuple[Boundary, ...] = BOTH,
    source: str = "",
    reading: str = "",
) -> Property:
    return Property(
        id=f"EVS-{id}",
        name=name,
        statement=statement,
        source=source or f"[Spread {id}]",
        form=form,
        boundaries=boundaries,
        services=services,
        reading=reading,
    )


PROPERTIES: tuple[Property, ...] = (
    _p(
        "D2.7",
        "Order function",
        "All deliveries of one message carry the same stamp, no two bundles share a stamp, and a message sent after "
        "another in the causal order has the higher stamp.",
        source="[Spread Definition 2.7]",
        services=RELIABLE,
        reading="Stamps stand on deliveries, and all deliveries of a bundle share one. The causal clause is judged at "
        "sends: every stamp delivered at a process before it sends m is below the stamp of m, and so is the stamp of "
        "every earlier reliable send of it.",
    ),
    _p(
        "2.1",
        "Initial view event",
        "Every delivery and every transitional signal happens at a process inside some view of that group.",
        services=ALL,
        reading="A delivery needs a view of at least one of the message's groups, or, while its session is "
        "open, the receiver's private group among them. A signal names the view that it occurs in.",
    ),
    _p("2.2", "Self inclusion", "A process that installs a view is one of its members."),
    _p(
        "2.3",
        "Local monotonicity",
        "The ids of the views that a process installs in a group grow.",
        reading="Judged per name of client and daemon, across sessions and incarnations.",
    ),
    _p(
        "2.4.1",
        "Transitional set, first view",
        "The transitional set of the first view after a join or a recovery is the process alone.",
        reading="D-first-view.",
    ),
    _p(
        "2.4.2",
        "Transitional set, subset",
        "The transitional set of a later view lies within the members of both the previous and the new view.",
    ),
    _p(
        "2.4.3",
        "Transitional set, exact",
        "Of two processes that install the same view, each is in the other's transitional set exactly when both came "
        "from the same previous view.",
        reading="Members whose installation is not in the trace are left out. A first view has no previous view and "
        "is the same as nobody else's. A process that has a previous view is in its own transitional set. Views are "
        "the same when id and members agree; previous views when their ids do.",
    ),
    _p(
        "2.4.4",
        "Transitional set, agreed",
        "Processes that install the same view out of the same previous view have equal transitional sets.",
    ),
    _p("2.5", "No duplication", "A process delivers a message at most once.", services=ALL),
    _p(
        "2.6",
        "Delivery integrity",
        "A delivered message was sent before by the named sender, with the same content, service and groups.",
        services=ALL,
        reading="At one node the send precedes the delivery in its record; across nodes the send exists, and no "
        "deliveries wait for each other's sends in a circle. What is delivered before its send counts as a message of "
        "its own everywhere else.",
    ),
    _p(
        "2.7",
        "Virtual synchrony",
        "Processes that are together in a view delivered the same messages in it.",
        services=RELIABLE,
        reading="Per group; p, q together in v, p delivers m in v: q delivers m in v too.",
    ),
    _p(
        "2.8.1",
        "One signal",
        "At most one transitional signal occurs at a process in a view.",
        reading="A signal occurs in the view that the process is in; that it names another one is a matter of 2.1.",
    ),
    _p(
        "2.8.2",
        "Signals together",
        "Of processes together in a view, all or none have the signal in it, with the same agreed messages before it "
        "and after it.",
        services=AGREED,
    ),
    _p(
        "2.9.1",
        "Sane view delivery",
        "An agreed message is not delivered in a view earlier than the one in which it was sent.",
        boundaries=(Boundary.CLIENTS,),
        services=AGREED,
        reading="Per group of the message in which the sender was a member when it sent, and which it had not asked "
        "to leave before; ids are compared.",
    ),
    _p(
        "2.9.2",
        "Sane view delivery after recovery",
        "A message of a process that ended and came back in view v is delivered only in views before v.",
        boundaries=(Boundary.CLIENTS,),
        services=RELIABLE,
        reading="The same name of client and daemon, in the groups of the message; v is the first view that a later "
        "session of the name installs in the group. Views are compared by daemon view, then stamp, leaving out the "
        "next daemon view (D-other-side); one that the network made has no stamp and is the lowest of its daemon view.",
    ),
    _p(
        "2.10",
        "Reliable messages",
        "RELIABLE messages are those that self delivery, sane view delivery and virtual synchrony cover.",
        form=Form.DEFINITION,
        services=RELIABLE,
    ),
    _p("2.11.1", "FIFO is reliable", "FIFO messages are reliable.", form=Form.DEFINITION, services=FIFO),
    _p(
        "2.11.2",
        "FIFO order",
        "A FIFO message is delivered after every earlier reliable message of its sender, wherever both are delivered.",
        services=FIFO,
        reading="Judged among first deliveries of messages that were sent, as 2.12.2 is: a repeated delivery is a "
        "matter of 2.5, one without a send of 2.6.",
    ),
    _p("2.12.1", "Causal is FIFO", "Causal messages are FIFO.", form=Form.DEFINITION, services=CAUSAL),
    _p(
        "2.12.2",
        "Causal order",
        "A causal message is delivered after every reliable message that causally precedes it, wherever both are "
        "delivered.",
        services=CAUSAL,
        reading="Causality runs through deliveries of all services, UNRELIABLE too, and through the sends of each "
        "process.",
    ),
    _p("2.13.1", "Agreed is causal", "Agreed messages are causal.", form=Form.DEFINITION, services=AGREED),
    _p(
        "2.13.2",
        "Agreed order",
        "After an agreed message a process delivers no reliable message of a lower stamp, and no two processes deliver "
        "two agreed messages in different orders.",
        services=AGREED,
        reading="The first half by stamps, per process over all groups; the second half pairwise by what was "
        "delivered, whatever the stamps say. Both among first deliveries.",
    ),
    _p(
        "2.13.3",
        "Agreed, no holes before the signal",
        "A process that delivers an agreed message before the signal of its view delivers every message of a lower "
        "stamp that anyone delivered in that view.",
        services=AGREED,
        reading="The lower messages are all reliable ones. Judged when "
        "the process leaves the view, ends in it, or is in it at a stable, quiet end; what it delivered up to there "
        "counts. The stamp of the missing message is that of the other's delivery.",
    ),
    _p(
        "2.13.4",
        "Agreed, no holes of one's own after the signal",
        "A process that delivers an agreed message after the signal of its view delivers every message of a lower "
        "stamp that was sent by a member of its next transitional set and delivered by anyone in that view.",
        services=AGREED,
        reading="As 2.13.3; judged when the process installs a next view.",
    ),
    _p("2.14.1", "Safe is agreed", "Safe messages are agreed.", form=Form.DEFINITION, services=SAFE),
    _p(
        "2.14.2",
        "Safe before the signal",
        "When a process delivers a safe message before the signal of its view, every member of the view delivers it, "
        "unless it ends first.",
        services=SAFE,
        reading="At EVS-S: every member installs the view and delivers the message before it leaves the view, unless "
        "it ends before it installs a later one. At EVS-C (D-other-side): every member delivers the message, in "
        "whatever view, before it comes to a later daemon view than that of the view, or leaves the group from that "
        "view or a later one, in a membership one of whose views is not lower as 2.9.2 compares, unless it ends before "
        "either. It comes there with a view whose id has no next daemon view: one made before the signal, or by the "
        "network; views (X, Y, …) belong to the end of X. At both, a "
        "member that leaves the group is not excused; at a stable, quiet end all members owe it that did not end.",
    ),
    _p(
        "2.14.3",
        "Safe after the signal",
        "When a process delivers a safe message after the signal of its view, every member of its next transitional "
        "set delivers it in that view.",
        services=SAFE,
        reading="Judged when the process installs a next view; of the transitional set, those who are members of the "
        "view (the rest is 2.4.2). At EVS-S in that view, unless the member ends in it. At EVS-C (D-other-side) in "
        "whatever view, with the deadline and the excuse of 2.14.2: a daemon of the transitional set may never come "
        "to the next daemon view and leave this one for another, under other ids.",
    ),
    _p(
        "2.15",
        "Self delivery",
        "A process delivers what it sends to a group that it is in, unless it leaves or ends.",
        form=Form.LIVENESS,
        services=RELIABLE,
        reading="Judged on runs with a stable, quiet end. Asking to leave is leaving.",
    ),
    _p(
        "2.16",
        "Membership precision",
        "In a stable component the members of a group end in one view that holds exactly them.",
        form=Form.LIVENESS,
        reading="Components as the run recorded them; members are those in a view of the group and those who asked to "
        "join it; at EVS-S the living daemons of each component.",
    ),
    _p(
        "2.17",
        "Termination of delivery",
        "A message sent in a view reaches every member of that view, unless the sender installs a later one.",
        form=Form.LIVENESS,
        services=RELIABLE,
        reading="D-termination; judged on runs with a stable, quiet end, unless the sender left, ended, or asked to "
        "leave and sent nothing more.",
    ),
    _p(
        "2.18",
        "Same view delivery",
        "All who deliver a message deliver it in the same view.",
        services=RELIABLE,
        reading="At EVS-C per group of the message, and of the deliveries those before the signal of the receiver's "
        "view (D-other-side): what those who are together deliver behind it is a matter of 2.7. At EVS-S for all "
        "deliveries.",
    ),
    _p(
        "2.19.1",
        "Sane view delivery, daemons",
        "No message is delivered in a daemon view earlier than the one in which it was sent.",
        boundaries=(Boundary.DAEMONS,),
        services=RELIABLE,
    ),
    _p(
        "2.19.2",
        "Sane view delivery after recovery, daemons",
        "A message of a daemon that crashed and came back in daemon view v is delivered only in views before v.",
        boundaries=(Boundary.DAEMONS,),
        services=RELIABLE,
    ),
    _p("2.20", "Membership agreement", "Views with the same id have the same members.", reading="D-agreement."),
    _p(
        "2.21",
        "Network server set",
        "Only servers of the network multicast and receive on it, and all of them began it with the same set.",
        boundaries=(Boundary.NETWORK,),
    ),
    _p(
        "2.22",
        "Reliable network multicast",
        "Every multicast is received, unaltered and once, by all servers of the network, unless a link fails or one "
        "crashes.",
        boundaries=(Boundary.NETWORK,),
        reading="Owed on runs with a stable, quiet end, on networks in which no link failed and no server crashed, "
        "between servers that still use the network. Altered, repeated and never sent messages count on every run.",
    ),
    _p(
        "2.23",
        "Network end",
        "Between a failed link and the next start of a network nothing is multicast or received at that server.",
        boundaries=(Boundary.NETWORK,),
    ),
)

RUN_PROPERTIES: tuple[Property, ...] = (
    Property(
        "RUN-ASSERT",
        "No assertion fails",
        "No automaton and no shell raises in the run.",
        "[DESIGN 1]",
        Form.SAFETY,
        (Boundary.RUN,),
        NONE,
    ),
    Property(
        "RUN-LIVE",
        "The run becomes quiet",
        "After the heal the run reaches what its system demands within the bound.",
        "[DESIGN 4]",
        Form.LIVENESS,
        (Boundary.RUN,),
        NONE,
    ),
)

BY_ID = {each.id: each for each in (*PROPERTIES, *RUN_PROPERTIES)}

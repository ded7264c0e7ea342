"""The trace vocabulary: the external signature of [Spread 2.2.1] and [Spread 2.2.5, 2.2.6] as typed entries.

An entry says what happened; the shell that records it adds the header: which node, which incarnation, which place in
that node's record, when. Ids stand in their text forms (`isotone.core.ids`), because a trace is data that outlives
the program and text hashes fast. A bundle is one entry with a range of sequences and all its local receivers; it
expands to one event per message and receiver.

The kind of an entry is its tag and never changes its meaning; upper layers add kinds beside these.
"""

from __future__ import annotations

import msgspec

from isotone.core.ids import DaemonViewId, GroupViewId
from isotone.core.services import Service

TRACE_VERSION = 1
STOPPED = "stopped"
"""Of a daemon that was told to end, in `Crashed`."""


class Entry(msgspec.Struct, frozen=True, gc=False, tag_field="kind"):
    """Base of all entries; the tag is the kind."""


# --- clients: EVS-C ------------------------------------------------------------------------------------------------


class Connected(Entry, frozen=True, gc=False, tag="connect"):
    """A client's session began."""

    client: str


class Disconnected(Entry, frozen=True, gc=False, tag="disconnect"):
    """A client's session ended; nothing further happens at it."""

    client: str
    reason: str = ""


class JoinRequested(Entry, frozen=True, gc=False, tag="join"):
    """A client asked to join."""

    client: str
    group: str


class LeaveRequested(Entry, frozen=True, gc=False, tag="leave"):
    """A client asked to leave."""

    client: str
    group: str


class Sent(Entry, frozen=True, gc=False, tag="send"):
    """The service took a bundle from a client."""

    client: str
    first_sequence: int
    service: Service
    groups: tuple[str, ...]
    lengths: tuple[int, ...]
    digests: tuple[int, ...]


class Delivered(Entry, frozen=True, gc=False, tag="deliver"):
    """A bundle reached these local clients, at this place of their record."""

    receivers: tuple[str, ...]
    sender: str
    first_sequence: int
    service: Service
    groups: tuple[str, ...]
    lengths: tuple[int, ...]
    digests: tuple[int, ...]
    lamport: int
    stamper: str


class ViewDelivered(Entry, frozen=True, gc=False, tag="view"):
    """These local clients, members of one group, installed a view."""

    receivers: tuple[str, ...]
    group: str
    view: GroupViewId
    members: tuple[str, ...]
    transitional: tuple[str, ...]
    cause: str
    subject: str = ""


class SignalDelivered(Entry, frozen=True, gc=False, tag="transsig"):
    """These local clients got the transitional signal of the view they are in."""

    receivers: tuple[str, ...]
    group: str
    view: GroupViewId


class SelfLeft(Entry, frozen=True, gc=False, tag="selfleave"):
    """A client's own leave took effect: the thesis' view with the null id."""

    client: str
    group: str


# --- daemons: EVS-S ------------------------------------------------------------------------------------------------


class DaemonSent(Entry, frozen=True, gc=False, tag="ssend"):
    """A daemon sent a message to its daemon view; ``first_sequence`` grows from each to the next, not by one."""

    daemon: str
    first_sequence: int
    service: Service
    lengths: tuple[int, ...]
    digests: tuple[int, ...]


class DaemonDelivered(Entry, frozen=True, gc=False, tag="sdeliver"):
    """A daemon delivered a message of its daemon view."""

    daemon: str
    sender: str
    first_sequence: int
    service: Service
    lengths: tuple[int, ...]
    digests: tuple[int, ...]
    lamport: int
    stamper: str


class DaemonViewDelivered(Entry, frozen=True, gc=False, tag="sview"):
    """A daemon installed a daemon view."""

    daemon: str
    view: DaemonViewId
    members: tuple[str, ...]
    transitional: tuple[str, ...]


class DaemonSignalDelivered(Entry, frozen=True, gc=False, tag="stranssig"):
    """A daemon got the transitional signal."""

    daemon: str
    view: DaemonViewId


class Recovered(Entry, frozen=True, gc=False, tag="recover"):
    """A daemon's incarnation began; always its first entry."""

    daemon: str


class Crashed(Entry, frozen=True, gc=False, omit_defaults=True, tag="crash"):
    """A daemon's incarnation ended, and with it the sessions of its clients; always its last entry.

    ``reason`` is `STOPPED` where it ended because it was told to; no property makes a difference of it.
    """

    daemon: str
    reason: str = ""


# --- the network ---------------------------------------------------------------------------------------------------


class NetworkStarted(Entry, frozen=True, gc=False, tag="ninit"):
    """A daemon began to use the reliable network among these servers; ``network`` names this use of it."""

    daemon: str
    network: str
    servers: tuple[str, ...]


class NetworkSent(Entry, frozen=True, gc=False, tag="nmcast"):
    """A daemon multicast a message to all servers of the network."""

    daemon: str
    network: str
    sequence: int
    digest: int


class NetworkReceived(Entry, frozen=True, gc=False, tag="nreceive"):
    """A daemon received a message from the network."""

    daemon: str
    network: str
    sender: str
    sequence: int
    digest: int


class LinkFailed(Entry, frozen=True, gc=False, tag="linkfailed"):
    """A daemon declared a link of the network failed."""

    daemon: str
    network: str
    link: str
    reason: str


class LinkCounted(Entry, frozen=True, gc=False, tag="linkcount"):
    """What a link of the network has counted at a daemon since that began: recorded now and then, and at its end.

    ``to`` names the daemons at its other ends. *Resent* are packets sent once more because they were lost or late;
    ``requests_sent`` are requests for such; ``duplicates`` came more than once.
    """

    daemon: str
    network: str
    link: str
    protocol: str
    to: tuple[str, ...]
    packets_sent: int
    packets_received: int
    packets_resent: int
    bytes_sent: int
    bytes_received: int
    requests_sent: int
    duplicates: int


# --- about the run and the record itself ---------------------------------------------------------------------------


class Stabilised(Entry, frozen=True, gc=False, tag="stable"):
    """From here on the network stays as it is: these sets of daemon names are the connected components of the living.

    Recorded by whoever drives the faults, under the node name ``""``; liveness is judged only after it.
    """

    components: tuple[tuple[str, ...], ...]


class Ended(Entry, frozen=True, gc=False, tag="end"):
    """The run went on until nothing more was to happen; recorded under the node name ``""``."""

    quiet: bool


class FaultsSet(Entry, frozen=True, gc=False, tag="faults"):
    """A daemon was told to treat traffic with others badly from here on, for a test or a drill; nothing: no more."""

    daemon: str
    reason: str = ""


class Gap(Entry, frozen=True, gc=False, tag="gap"):
    """The writer lost this many entries here because it was overloaded."""

    lost: int


class Truncated(Entry, frozen=True, gc=False, tag="truncated"):
    """This node's record of this incarnation ends here and more may have happened; made by the reader."""

    reason: str


class Row(msgspec.Struct, frozen=True, gc=False):
    """An entry with its header. (node, incarnation, index) identifies it; index is dense from 0 per incarnation."""

    node: str
    incarnation: int
    index: int
    at: int
    entry: Entry

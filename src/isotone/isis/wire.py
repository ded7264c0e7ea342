"""What kernels say to each other: one frame each, over FIFO sends to private groups.

Frames with a sequence are the ordered, lossless channel between two sites [ISIS 4.1]. All that belongs to the site view
has none: it is repeated until it is answered.

Implements: [ISIS 4.1] to [ISIS 4.5]. Deviations: none.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core.codec.control import ControlCodec, ControlMessage, Natural

WIRE_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 32 * 1024
"""Of what an application sends in one broadcast."""


class SiteView(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Which incarnations are operational: ``members`` from the oldest to the youngest [ISIS 4.2].

    ``lives``: of every site that ever was in a view, its last incarnation there. One that is not among the members and
    not above its number there is dead.
    """

    number: Natural = 0
    members: tuple[str, ...] = ()
    lives: tuple[tuple[str, Natural], ...] = ()

    def life(self, name: str) -> int:
        """The last incarnation of a site that was in a view; 0 if none was."""
        return dict(self.lives).get(name, 0)


NO_VIEW = SiteView()


class GroupView(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The members of a process group, by rank; views of a group are numbered [ISIS 3.1], [ISIS 3.6]."""

    name: str
    number: Natural
    members: tuple[str, ...]


class Label(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A label of a CBCAST: comparable with those of the same chain, less if its number is [ISIS 3.3]."""

    chain: str
    number: Natural

    def precedes(self, other: Label) -> bool:
        """Whether it is less."""
        return self.chain == other.chain and self.number < other.number


class Causal(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A CBCAST with what travels with it; ``remaining``: REM_DESTS as sites [ISIS 4.3.2]."""

    id: str
    origin: str
    group: str
    label: Label
    destinations: tuple[str, ...]
    remaining: tuple[str, ...]
    body: bytes
    call: bool = False
    outside: bool = False  # its sender knows the group by a cache, and wants a verdict


class Kind(Enum):
    """What a GBCAST does."""

    JOIN = "join"
    LEAVE = "leave"
    FAIL = "fail"
    USER = "user"


# --- site views: repeated until answered ------------------------------------------------------------------------------


Ballot = tuple[Natural, str]
"""Orders view managers that follow each other: a number, and the name of the site."""
NO_BALLOT: Ballot = (0, "")


class Hello(ControlMessage, frozen=True, tag=0xA0):
    """Said to every site all the time; ``live``: the sender is in a view, the last of which has this number.

    ``promised``: it answers no manager with a smaller ballot, so such a one has to begin anew.
    """

    live: bool
    number: Natural
    promised: Ballot = NO_BALLOT
    neighbours: tuple[SiteView, ...] = ()


class Neighbours(ControlMessage, frozen=True, tag=0xBE):
    """Said to every site of other clusters all the time: the last site view of each cluster, as the sender knows it."""

    views: tuple[SiteView, ...]


class Dead(ControlMessage, frozen=True, tag=0xA1):
    """The receiver's incarnation is not in the site view any more: *you are dead*."""

    number: Natural


class Interrogate(ControlMessage, frozen=True, tag=0xA2):
    """A new view manager asks what was proposed before it."""

    ballot: Ballot


class Promise(ControlMessage, frozen=True, tag=0xA3):
    """Committed views that the sender has, the extension that it saved last, and under which ballot."""

    ballot: Ballot
    committed: tuple[SiteView, ...]
    saved: Ballot
    extension: tuple[SiteView, ...]


class Proposal(ControlMessage, frozen=True, tag=0xA4):
    """Step (1): the last committed views, and a view extension."""

    ballot: Ballot
    committed: tuple[SiteView, ...]
    extension: tuple[SiteView, ...]


class Acknowledged(ControlMessage, frozen=True, tag=0xA5):
    """Step (2a): the extension up to this number is saved."""

    ballot: Ballot
    number: Natural


class NegativelyAcknowledged(ControlMessage, frozen=True, tag=0xA6):
    """Step (2b): the sender saved something that this proposal knows nothing of."""

    ballot: Ballot
    committed: tuple[SiteView, ...]
    extension: tuple[SiteView, ...]


class Commit(ControlMessage, frozen=True, tag=0xA7):
    """Step (3a): these views are committed."""

    committed: tuple[SiteView, ...]


class LockAsked(ControlMessage, frozen=True, tag=0xA8):
    """Before the site view grows: the view manager asks for a write-lock."""

    ballot: Ballot


class LockGranted(ControlMessage, frozen=True, tag=0xA9):
    """No protocol at the sender holds a read-lock, and none begins for a while."""

    ballot: Ballot


# --- broadcasts: on the channel -------------------------------------------------------------------------------------


class AbcastStart(ControlMessage, frozen=True, tag=0xAA):
    """ABCAST step (1); sent again by whoever takes over."""

    id: str
    origin: str
    group: str
    label: str
    destinations: tuple[str, ...]
    uniform: bool
    body: bytes
    call: bool = False
    outside: bool = False
    floor: Natural = 0  # of a causal ABCAST: no priority that its sender could know of is above it


class AbcastPriority(ControlMessage, frozen=True, tag=0xAB):
    """ABCAST step (2); ``final``: not proposed but known already."""

    id: str
    priority: Natural
    suffix: str
    final: bool


class AbcastFixed(ControlMessage, frozen=True, tag=0xAC):
    """The extra phase of [3.2]: the final priority, not to be delivered yet; and its answer."""

    id: str
    priority: Natural
    suffix: str
    answer: bool = False


class AbcastCommit(ControlMessage, frozen=True, tag=0xAD):
    """ABCAST step (3)."""

    id: str
    priority: Natural
    suffix: str


class Packet(ControlMessage, frozen=True, tag=0xAE):
    """A transfer packet of CBCASTs, sorted by what precedes what."""

    messages: tuple[Causal, ...]


class Verdict(ControlMessage, frozen=True, tag=0xAF):
    """What became of a broadcast from outside the group: accepted, or rejected by this view [ISIS 3.6]."""

    id: str
    accepted: bool
    view: GroupView


class GbcastStart(ControlMessage, frozen=True, tag=0xB0):
    """GBCAST step (2.1); ``participants`` are sites. ``processes``: who joins, leaves or failed."""

    id: str
    kind: Kind
    group: str
    origin: str
    processes: tuple[str, ...]
    participants: tuple[str, ...]
    body: bytes


class GbcastPriority(ControlMessage, frozen=True, tag=0xB1):
    """GBCAST step (2.2) as an ``answer``, and (2.3) on the way back; an answer is ``final`` if it is known already."""

    id: str
    priority: Natural
    suffix: str
    final: bool
    answer: bool = False


class GbcastReady(ControlMessage, frozen=True, tag=0xB2):
    """GBCAST step (3.3): the IDlist with all that precedes it; and the view of the group that it meets there.

    ``views``: the site views in which it is said; a site says it again in all that follow before the commit.
    """

    id: str
    delivered: tuple[str, ...]
    view: GroupView | None
    views: tuple[Natural, ...]


class GbcastCommit(ControlMessage, frozen=True, tag=0xB3):
    """GBCAST step (3.4): the *before* list, and the view that results; none if it must be tried again."""

    id: str
    before: tuple[str, ...]
    view: GroupView | None


class Orphan(ControlMessage, frozen=True, tag=0xB4):
    """The sender has a broadcast whose coordinator failed: the receiver shall take it over."""

    abcast: AbcastStart | None
    gbcast: GbcastStart | None


class Flushed(ControlMessage, frozen=True, tag=0xB5):
    """GBCAST step (1.4), for all sites that failed up to these site views at once."""

    views: tuple[Natural, ...]


class Garbage(ControlMessage, frozen=True, tag=0xB6):
    """Garbage collection step (1); with ``answer`` step (2)."""

    round: Natural
    ids: tuple[str, ...]
    answer: bool = False
    wide: bool = False  # of broadcasts that have destinations in several clusters


class CensusAsked(ControlMessage, frozen=True, tag=0xB7):
    """A site that has become the oldest asks which groups there are."""


class CensusTold(ControlMessage, frozen=True, tag=0xB8):
    """Views of groups with members at the sender, and who is about to join."""

    views: tuple[GroupView, ...]
    joining: tuple[tuple[str, str], ...]


class JoinAsked(ControlMessage, frozen=True, tag=0xB9):
    """A process wants to join."""

    group: str
    process: str


class Created(ControlMessage, frozen=True, tag=0xBA):
    """A group without members begins anew with this view."""

    view: GroupView


class WhereAsked(ControlMessage, frozen=True, tag=0xBB):
    """Who is in a group? Asked from outside."""

    group: str


class WhereTold(ControlMessage, frozen=True, tag=0xBC):
    """As far as the oldest site knows."""

    view: GroupView


class Answer(ControlMessage, frozen=True, tag=0xBD):
    """The reply of a process to a call; ``failed``: its site replies for it, since it will not."""

    id: str
    process: str
    body: bytes
    failed: bool = False


Body = (
    AbcastStart
    | AbcastPriority
    | AbcastFixed
    | AbcastCommit
    | Packet
    | Verdict
    | GbcastStart
    | GbcastPriority
    | GbcastReady
    | GbcastCommit
    | Orphan
    | Flushed
    | Garbage
    | CensusAsked
    | CensusTold
    | JoinAsked
    | Created
    | WhereAsked
    | WhereTold
    | Answer
)
ViewBody = (
    Hello
    | Neighbours
    | Dead
    | Interrogate
    | Promise
    | Proposal
    | Acknowledged
    | NegativelyAcknowledged
    | Commit
    | LockAsked
    | LockGranted
)


class Frame(ControlMessage, frozen=True, tag=0xBF):
    """From one incarnation of a site to another; ``target`` is a mere name where the incarnation does not count.

    ``views``: the numbers of the last site views that the sender knows, of each cluster.
    ``received``: how far the sender has the receiver's channel.
    """

    source: str
    target: str
    sequence: Natural
    received: Natural
    views: tuple[Natural, ...]
    body: Body | ViewBody | None


CODEC: ControlCodec[ControlMessage] = ControlCodec(Frame, bytes_max=WIRE_BYTES_MAX)

"""What processes of different centres tell each other, and what a process broadcasts inside its centre.

Most commands are requests that arrived from another centre, exactly as they came, with the process to answer
("when receive(req): a-broadcast(req)").

Implements: [HAB 3.2, Figures 4 to 6]. Deviations: Dh8, Dh10.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from isotone.core.codec import ControlCodec, ControlMessage, Natural

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
OPERATORS_MAX = 64


class Kind(IntEnum):
    """What an entry of the order is."""

    RECORD = 0  # of an application
    HANDOVER = 1  # another group is the primary behind it
    ADMIT = 2  # a centre takes part
    REMOVE = 3  # a group does not any more


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One entry of the order. ``position`` counts records alone: dense, as an `OrderedLog` has it."""

    index: Natural
    epoch: Natural
    kind: Kind
    position: Natural
    origin: str = ""
    incarnation: Natural = 0
    counter: Natural = 0  # of this origin's broadcasts in this incarnation, dense from 1
    record: bytes = b""


class Declaration(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A centre is lost: which one began to say so, and which ones recorded it.

    It is named by the entry that admitted it: its number changes with hand-overs that not all have stored.
    """

    centre: str
    admitted_at: Natural
    begun_by: str
    recorders: tuple[str, ...]
    override: bool = False  # an operator took the risk that it is wrong
    epoch: Natural = 0  # that the centre had promised which began to say so
    operators: tuple[str, ...] = ()  # who wanted it there
    confessed: bool = False  # the centre itself came back without its state, and says so
    witnessed: bool = False  # the witness of two centres recorded it
    counted: bool = False  # a majority recorded it: so it stays, whatever the configuration is later


# --- requests: between centres, and inside ---------------------------------------------------------------------------


class Send(ControlMessage, frozen=True, tag=0xC0):
    """Broadcasts of one process, with dense counters from ``first`` on."""

    origin: str
    incarnation: Natural
    first: Natural
    records: tuple[bytes, ...]
    answer_to: str = ""


class Store(ControlMessage, frozen=True, tag=0xC1):
    """A range of the order from ``first`` on; ``before`` is the epoch of the entry in front of it.

    ``start``: where the log of the primary ended when its epoch began. ``confirmed``: all have it up to there.
    """

    epoch: Natural
    leader: str
    start: Natural
    first: Natural
    before: Natural
    entries: tuple[Entry, ...]
    confirmed: Natural
    answer_to: str = ""


class SendState(ControlMessage, frozen=True, tag=0xC2):
    """Promise this epoch, and answer with what is behind ``after``. ``life``: the entry that admitted who is asked."""

    epoch: Natural
    leader: str
    after: Natural
    answer_to: str = ""
    life: Natural = 0


class Join(ControlMessage, frozen=True, tag=0xC3):
    """A centre without a state asks to take part; ``token`` tells this wish from earlier ones."""

    centre: str
    token: str


class Welcome(ControlMessage, frozen=True, tag=0xC4):
    """The state of the primary, for a centre that was admitted."""

    state: bytes
    answer_to: str = ""


class Handover(ControlMessage, frozen=True, tag=0xC5):
    """An operator wants this centre to be the primary."""

    centre: str


class Declare(ControlMessage, frozen=True, tag=0xC6):
    """A disaster was declared."""

    declaration: Declaration


Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=OPERATORS_MAX)]


class Petition(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Operators want a centre declared lost, and are not enough yet; without operators: the round was withdrawn."""

    centre: str
    admitted_at: Natural
    round: Natural = 0
    operators: Names = ()
    overriding: Names = ()  # who want it also where no majority can record it

    @property
    def everybody(self) -> tuple[str, ...]:
        """All who want it, either way."""
        return tuple(sorted({*self.operators, *self.overriding}))


# --- inside a centre only --------------------------------------------------------------------------------------------


class Petitioned(ControlMessage, frozen=True, tag=0xC7):
    """An operator joins a petition, begins one, or (``withdrawn``) ends its round."""

    centre: str
    admitted_at: Natural
    operator: str
    override: bool = False
    withdrawn: bool = False


class PetitionHeard(ControlMessage, frozen=True, tag=0xD6):
    """Another centre told what operators want there."""

    petition: Petition


class PetitionDue(ControlMessage, frozen=True, tag=0xCF):
    """The wishes of this round, or those to override, stood long enough to count."""

    centre: str
    admitted_at: Natural
    round: Natural
    override: bool


class PetitionExpired(ControlMessage, frozen=True, tag=0xD7):
    """It stood unchanged for too long."""

    petition: Petition


class UpdateState(ControlMessage, frozen=True, tag=0xC8):
    """The end of a transition: the order behind ``first - 1``, as the best informed centre has it."""

    epoch: Natural
    first: Natural
    before: Natural
    entries: tuple[Entry, ...]


class Confirm(ControlMessage, frozen=True, tag=0xC9):
    """All centres that are not lost, and enough of them, have stored the order of this epoch up to here."""

    epoch: Natural
    index: Natural


class ChangeEpoch(ControlMessage, frozen=True, tag=0xCA):
    """Somebody suspects the coordinator of this local epoch."""

    coordinator_epoch: Natural


class KeepSnapshot(ControlMessage, frozen=True, tag=0xCB):
    """The application's state behind this index."""

    index: Natural
    position: Natural
    state: bytes


class Rejoin(ControlMessage, frozen=True, tag=0xCC):
    """This centre, which is out, wants to come back: an operator says so, or it lost its state."""

    token: str


class Leased(ControlMessage, frozen=True, tag=0xCD):
    """A majority of the centres was heard lately: delivery ahead of them may go on."""

    epoch: Natural


class Excluded(ControlMessage, frozen=True, tag=0xCE):
    """The primary of this epoch says that this centre takes no part."""

    epoch: Natural


class LeaderUnaware(ControlMessage, frozen=True, tag=0xD4):
    """Who shall lead in this epoch, or behind it, does not know that, and the one that handed the role over is lost."""

    epoch: Natural


class Found(ControlMessage, frozen=True, tag=0xD5):
    """The system begins: no centre has a state, and an operator says so."""


# --- answers, and keep-alives ----------------------------------------------------------------------------------------


class OkSent(ControlMessage, frozen=True, tag=0xD0):
    """The primary has ordered broadcasts of this incarnation up to this counter."""

    epoch: Natural
    incarnation: Natural
    counter: Natural


class OkStored(ControlMessage, frozen=True, tag=0xD1):
    """The group has stored the order of this epoch up to here."""

    epoch: Natural
    number: Natural
    index: Natural


class OkState(ControlMessage, frozen=True, tag=0xD2):
    """The promise, and what the group has: its log is that of the ``accepted`` epoch."""

    epoch: Natural
    number: Natural
    accepted: Natural
    first: Natural
    before: Natural
    entries: tuple[Entry, ...]


class Alive(ControlMessage, frozen=True, tag=0xD3):
    """A keep-alive of a coordinator."""

    centre: str
    number: Natural
    epoch: Natural
    delivered: Natural
    declarations: tuple[Declaration, ...]
    leads: bool = False  # it is the primary of that epoch, and these take part: each since the entry that admitted it
    members: tuple[tuple[str, Natural], ...] = ()
    petitions: tuple[Petition, ...] = ()
    confirmed: Natural = 0


class WitnessQuestion(ControlMessage, frozen=True, tag=0xD8):
    """To the witness: record that this centre is lost. ``life``: the entry that admitted who asks."""

    centre: str
    admitted_at: Natural
    life: Natural


class WitnessAnswer(ControlMessage, frozen=True, tag=0xD9):
    """Of the witness: it is recorded, and nothing against it ever will be."""

    centre: str
    admitted_at: Natural


Command = (
    Send
    | Store
    | SendState
    | Join
    | Welcome
    | Handover
    | Declare
    | UpdateState
    | Confirm
    | ChangeEpoch
    | KeepSnapshot
    | Rejoin
    | Leased
    | Excluded
    | Petitioned
    | PetitionHeard
    | PetitionDue
    | PetitionExpired
    | LeaderUnaware
    | Found
)
REQUESTS = (Send, Store, SendState, Join, Welcome, Handover, Declare)
"""What may come from another centre and is then broadcast inside."""
Wide = (
    Send
    | Store
    | SendState
    | Join
    | Welcome
    | Handover
    | Declare
    | OkSent
    | OkStored
    | OkState
    | Alive
    | WitnessQuestion
    | WitnessAnswer
)

COMMANDS: ControlCodec[ControlMessage] = ControlCodec(
    Send,
    Store,
    SendState,
    Join,
    Welcome,
    Handover,
    Declare,
    UpdateState,
    Confirm,
    ChangeEpoch,
    KeepSnapshot,
    Rejoin,
    Leased,
    Excluded,
    Petitioned,
    PetitionHeard,
    PetitionDue,
    PetitionExpired,
    LeaderUnaware,
    Found,
    bytes_max=MESSAGE_BYTES_MAX,
)
WIDE: ControlCodec[ControlMessage] = ControlCodec(
    Send,
    Store,
    SendState,
    Join,
    Welcome,
    Handover,
    Declare,
    OkSent,
    OkStored,
    OkState,
    Alive,
    WitnessQuestion,
    WitnessAnswer,
    bytes_max=MESSAGE_BYTES_MAX,
)

"""How a HAB process is set up: the centres and their processes, the mode of delivery, and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.hab.configuration import GROUPS_MAX

PROCESSES_MAX = 31


class Mode(Enum):
    """When the primary delivers [HAB 3.1]."""

    WAITING = "waiting"  # what every centre that is not lost has stored
    AT_ONCE = "at-once"  # before that, by at most `ahead_max` entries and under a lease: so much can be lost


class HabSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The same at all processes of all centres."""

    centres: Mapping[str, tuple[str, ...]]
    """The processes of each centre; the names of processes are unique. The first centre is the first primary."""
    witness: str = ""
    """A process at a third place that records declarations where there are two centres; empty: there is none."""
    mode: Mode = Mode.WAITING
    ahead_max: int = 64
    lease_us: int = 2_000_000
    window_max: int = 1_024
    """Entries of the order that are not confirmed; with more the primary takes no broadcast."""
    pending_max: int = 1_024
    """Broadcasts of one process that are not delivered; more are refused."""
    batch_max: int = 128
    """Records of one `Send`, and entries of one `Store`."""
    batch_bytes_max: int = 48 * 1024
    stores_under_way_max: int = 4
    """To one centre; what comes meanwhile travels together."""
    record_bytes_max: int = 1024 * 1024
    snapshot_bytes_max: int = 4 * 1024 * 1024
    snapshots: bool = False
    """Whether the application offers snapshots: then entries are kept until one covers them."""
    history_max: int = 4_096
    """Without snapshots: so many confirmed entries are kept. With them: as many wait for the next one, then broadcasts
    are refused."""
    local_max: int = 256
    """Commands of this process not yet delivered by the local broadcast; with more, requests of others are dropped."""
    answer_us: int = 250_000
    """So long an answer from another centre may take before the next process there is asked."""
    alive_us: int = 200_000
    silent_us: int = 2_000_000
    """A centre that was not heard for so long is listed as a suspect."""
    declare_unsafely_after_us: int = 0
    """Automatic declarations, for those who accept that silence is no disaster; 0: people declare."""
    confirmations: int = 1
    """So many operators must want a centre declared lost, each with a key of his own."""
    confirm_after_us: int = 0
    """Or one of them must have wanted it for so long, and nobody withdrew it; 0: time is no confirmation."""
    wish_us: int = 3_600_000_000
    """A wish that nobody joined for so long is forgotten."""
    state_every: int = 0
    """After so many commands the state of the centre is offered to the local broadcast as a snapshot; 0: never."""

    def check(self) -> HabSettings:
        """Refuse what cannot work."""
        processes = [name for names in self.centres.values() for name in names]
        if not 1 <= len(self.centres) <= GROUPS_MAX:
            raise LocalProtocolError(f"there are 1 to {GROUPS_MAX} data centres, not {len(self.centres)}")
        if len({*processes, self.witness}) != len(processes) + 1:
            raise LocalProtocolError("two processes have the same name")
        for centre, names in self.centres.items():
            if not 1 <= len(names) <= PROCESSES_MAX:
                raise LocalProtocolError(f"data centre {centre} has {len(names)} processes, not 1 to {PROCESSES_MAX}")
        if self.confirm_after_us >= self.wish_us:
            raise LocalProtocolError("a wish is forgotten before it stood long enough: wish_us, confirm_after_us")
        return self

    def centre_of(self, process: str) -> str:
        """The centre that a process stands in; an error if there is no such process."""
        for centre, names in self.centres.items():
            if process in names:
                return centre
        raise LocalProtocolError(f"no data centre has a process {process!r}")

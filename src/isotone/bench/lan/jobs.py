"""What a client process is told to do, and what it tells when it is done. Both are files of JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec

from isotone.bench.lan.board import Board
from isotone.bench.lan.cells import Cell


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One client: which daemon, which part."""

    cell: Cell
    index: int
    """Its place among the members, and in the board."""
    members: int
    senders: tuple[int, ...]
    address: str
    board: str
    slots: int
    report: str
    latency: bool = False
    """What it sends is timed on its way back."""
    rate: float = 0.0
    """Messages per second that it offers; 0: as many as it gets rid of."""
    gap_s: float = 0.0
    """Instead: one message in so long a time."""
    idle: bool = False
    """It only holds clients that do nothing."""
    addresses: tuple[str, ...] = ()
    """Of the clients that do nothing: over all daemons."""
    library: str = ""
    """Of a peer: where its C library is."""
    profile: str = ""
    """Where to write what its time went to, if somebody wants to know."""
    joiner: bool = False
    """It joins and leaves again and again."""

    @property
    def sends(self) -> bool:
        """Whether it is a sender."""
        return self.index in self.senders

    @property
    def offered(self) -> float:
        """Messages per second that it offers, be it by a gap; 0: as many as it gets rid of."""
        return 1 / self.gap_s if self.gap_s else self.rate

    @property
    def groups(self) -> list[str]:
        """Where the members are."""
        return [f"bench{place}" for place in range(self.cell.groups)]

    def open_board(self) -> Board:
        """The page that is shared."""
        return Board(Path(self.board), self.slots)


class Outcome(msgspec.Struct, kw_only=True):
    """What became of it."""

    sent: int = 0
    delivered: dict[str, int] = {}
    """By sender."""
    digest: str = ""
    """Of the order; by group where there are several."""
    problem: str = ""
    latencies_us: list[float] = []
    """Of messages of its own, sorted."""
    joins_us: list[float] = []
    leaves_us: list[float] = []


def write_job(job: Job, path: Path) -> None:
    """For the process to read."""
    path.write_bytes(msgspec.json.encode(job))


def read_job(path: Path) -> Job:
    """What it reads."""
    return msgspec.json.decode(path.read_bytes(), type=Job)


def write_outcome(outcome: Outcome, path: Path) -> None:
    """At once: whoever looks finds all of it or nothing."""
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(outcome))
    part.rename(path)


def read_outcome(path: Path) -> Outcome:
    """What the process wrote at its end."""
    return msgspec.json.decode(path.read_bytes(), type=Outcome)

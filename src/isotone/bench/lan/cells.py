"""What is measured: a cell is one system with one workload, and differs from the base case in one factor."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SIZES = (64, 1024, 8192, 65_536)
FACTOR_SIZES = (64, 1024)
PACKINGS = (8192, 65_536)
MEMBERS = 3

Path = Literal["loopback", "bridge", "bridge-frames"]
PATHS: tuple[Path, ...] = ("loopback", "bridge", "bridge-frames")
ServiceName = Literal["reliable", "fifo", "agreed", "safe"]


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The daemons that a cell needs; cells that need the same ones are measured one after the other."""

    system: str
    path: Path
    daemons: int = MEMBERS
    encryption: bool = False
    offload: bool = True

    @property
    def title(self) -> str:
        """In words."""
        extra = " encrypted" * self.encryption + " without offload" * (not self.offload)
        return f"{self.system}, {self.daemons} daemons, {self.path}{extra}"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One row: the base case of Isotone, but for what is said."""

    system: str = "isotone"
    variant: str = "base"
    packing: int = 0
    """Bytes that the application joins messages to; 0: it does not."""
    service: ServiceName = "agreed"
    size: int = 64
    senders: int = 1
    path: Path = "loopback"
    daemons: int = MEMBERS
    """With one member at each, unless there are more."""
    members: int = 0
    """Where there are more members than daemons, they are spread over them."""
    idle_clients: int = 0
    """Beside the members; each is in a group of its own."""
    groups: int = 1
    """In which the members are, and to which messages go in turn."""
    encryption: bool = False
    offload: bool = True
    sends: Literal["many", "one", "wait"] = "many"
    """In batches; one by one, each only queued; one by one, each waited for until the daemon has it."""
    receives: Literal["bundle", "one"] = "bundle"
    rate: float = 0.0
    """Messages per second that each sender offers; 0: as many as it gets rid of."""
    share: float = 0.0
    """Instead of a rate: this part of what the base case of this size carries in the same run."""

    @property
    def member_count(self) -> int:
        """Who hear everything."""
        return self.members or self.daemons

    @property
    def cluster(self) -> Cluster:
        """The daemons for it."""
        return Cluster(
            system=self.system,
            path=self.path,
            daemons=self.daemons,
            encryption=self.encryption,
            offload=self.offload,
        )

    @property
    def packing_name(self) -> str:
        """As it stands in a row."""
        return str(self.packing or "none")

    @property
    def key(self) -> str:
        """What samples of it are found by."""
        return "/".join(
            (self.system, self.variant, self.packing_name, self.service, str(self.size), str(self.senders), self.path)
        )


def isotone_cells(sizes: tuple[int, ...] = SIZES) -> list[Cell]:
    """The base case, the paths, and one factor at a time."""
    cells = [Cell(size=size) for size in sizes]
    cells += [Cell(size=size, path=path, variant=_path_variant(path)) for path in PATHS[1:] for size in sizes]
    for size in sizes:
        if size in FACTOR_SIZES:
            cells += _factors(size)
    return cells


def _path_variant(path: Path) -> str:
    """A path is told by the row's own field; the variant stays ``base``."""
    del path
    return "base"


def _factors(size: int) -> list[Cell]:
    cells = [
        Cell(size=size, variant="senders-3", senders=3),
        Cell(size=size, variant="fifo", service="fifo"),
        Cell(size=size, variant="safe", service="safe"),
        Cell(size=size, variant="encryption", encryption=True),
        Cell(size=size, variant="send-one", sends="one"),
        Cell(size=size, variant="send-wait", sends="wait"),
        Cell(size=size, variant="receive-one", receives="one"),
        Cell(size=size, variant="one-by-one", sends="one", receives="one"),
        Cell(size=size, variant="offload-off", offload=False),
        Cell(size=size, variant="offload-off", offload=False, path="bridge"),
        Cell(size=size, variant="offload-off", offload=False, path="bridge-frames"),
    ]
    cells += [Cell(size=size, variant=f"daemons-{count}", daemons=count) for count in (2, 5, 8)]
    return cells + _offered(size)


OFFERED_SHARE = 0.02
OFFERED_TO_DAEMONS = 200.0
"""Messages per second, each in a bundle of its own: so few that eight daemons and their clients leave more than half of
two cores idle. What is compared is the cost of a message, not what a scheduler does with too many processes."""


def _offered(size: int) -> list[Cell]:
    """At an offered rate which all of them can carry: what a message costs by daemons, clients and groups."""
    share = OFFERED_SHARE
    cells = [Cell(size=size, variant=f"offered-daemons-{n}", daemons=n, rate=OFFERED_TO_DAEMONS) for n in (2, 3, 5, 8)]
    cells += [Cell(size=size, variant=f"offered-clients-{n}", idle_clients=n, share=share) for n in (1, 10, 100, 1000)]
    return cells + [Cell(size=size, variant=f"offered-groups-{n}", groups=n, share=share) for n in (1, 10, 100, 1000)]


PEER_FACTORS: dict[str, dict[str, Any]] = {
    "senders-3": {"senders": 3},
    "encryption": {"encryption": True},
    "fifo": {"service": "fifo"},
    "safe": {"service": "safe"},
}
"""That a peer may have."""


def peer_cells(
    system: str,
    sizes: tuple[int, ...] = SIZES,
    paths: tuple[Path, ...] = PATHS,
    *,
    factors: tuple[str, ...] = ("senders-3",),
) -> list[Cell]:
    """A peer as it is and with application packing, on every path that it can run on; and the factors that it has."""
    cells = []
    for path in paths:
        for size in sizes:
            fitting = [packing for packing in PACKINGS if packing > size]
            cells += [Cell(system=system, size=size, path=path, packing=packing) for packing in (0, *fitting)]
    for size in sizes:
        if size in FACTOR_SIZES:
            base = Cell(system=system, size=size, path=paths[0])
            cells += [msgspec.structs.replace(base, variant=factor, **PEER_FACTORS[factor]) for factor in factors]
    return cells


def chosen(cells: list[Cell], only: tuple[str, ...], sizes: tuple[int, ...], paths: tuple[str, ...]) -> list[Cell]:
    """Those of these variants, sizes and paths; an empty choice is everything."""
    return [
        cell
        for cell in cells
        if (not only or cell.variant in only)
        and (not sizes or cell.size in sizes)
        and (not paths or cell.path in paths)
    ]

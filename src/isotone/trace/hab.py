"""What processes of hierarchical atomic broadcast do, as entries of the trace. Messages stand by name:
``process.incarnation:counter``.

A *life* of a centre is the time between two returns: what it delivers is counted anew behind the state it then takes.

Implements: [HAB 2.4].
"""

from __future__ import annotations

from isotone.trace.events import Entry


class HaBroadcast(Entry, frozen=True, gc=False, tag="habroadcast"):
    """An application HA-broadcast this."""

    process: str
    centre: str
    message: str
    digest: int


class HaDelivered(Entry, frozen=True, gc=False, tag="hadeliver"):
    """Records were HA-delivered: they have dense positions from ``position`` on.

    The role is ``ahead`` where a primary delivers at once what others may lack: at most ``ahead_max`` records, as its
    settings say. The process knows that all centres that are not lost, and a majority, have stored the order up to
    ``confirmed``. Both are 0 in records of before.
    """

    process: str
    centre: str
    number: int
    epoch: int
    life: int
    role: str
    position: int
    messages: tuple[str, ...]
    digests: tuple[int, ...]
    confirmed: int = 0
    ahead_max: int = 0


class HaRole(Entry, frozen=True, gc=False, tag="harole"):
    """The centre of a process has another role, epoch or leader."""

    process: str
    centre: str
    number: int
    epoch: int
    life: int
    role: str
    why: str


class HaInstalled(Entry, frozen=True, gc=False, tag="hainstall"):
    """A centre begins anew: what was delivered up to this position is known by a snapshot; 0: by none."""

    process: str
    centre: str
    number: int
    life: int
    position: int
    digest: int
    replayed: bool = False  # from its own log, after a restart


class HaDeclared(Entry, frozen=True, gc=False, tag="hadeclare"):
    """The centre of a process knows of the declaration that a group is lost; without recorders, by the order alone.

    ``confessed``: by that group's own word, when it asked to come back.
    """

    process: str
    centre: str
    lost: str
    number: int
    recorders: tuple[str, ...]
    effective: bool
    override: bool
    confessed: bool = False


class HaCrossed(Entry, frozen=True, gc=False, tag="hacross"):
    """A message left for another centre."""

    process: str
    to: str
    message: str


class HaDisaster(Entry, frozen=True, gc=False, tag="hadisaster"):
    """A centre has fewer than a majority of its processes from here on; said by whoever caused it."""

    centre: str


class HaSuspected(Entry, frozen=True, gc=False, tag="hasuspect"):
    """The local failure detector of a process suspects these processes of its centre now."""

    process: str
    centre: str
    suspects: tuple[str, ...]

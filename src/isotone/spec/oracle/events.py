"""What the world tells the oracle: lives of daemons, connectivity, the promise of a stable end."""

from __future__ import annotations

from isotone.core.contract import Event
from isotone.core.ids import DaemonId


class DaemonStarted(Event, frozen=True, gc=False):
    """A daemon's incarnation began."""

    daemon: DaemonId


class DaemonCrashed(Event, frozen=True, gc=False):
    """A daemon's incarnation ended, and with it the sessions of its clients."""

    daemon: DaemonId


class DaemonPaused(Event, frozen=True, gc=False):
    """A daemon stands still: it delivers nothing until it is resumed, and may be excluded meanwhile."""

    daemon: DaemonId


class DaemonResumed(Event, frozen=True, gc=False):
    """A paused daemon goes on."""

    daemon: DaemonId


class ConnectivityChanged(Event, frozen=True, gc=False):
    """These sets of daemon names reach each other from now on; who is in none is alone. Before the first: all do."""

    components: tuple[tuple[str, ...], ...]


class Stabilised(Event, frozen=True, gc=False):
    """From now on the network stays as it is, and the oracle owes progress within its bound."""

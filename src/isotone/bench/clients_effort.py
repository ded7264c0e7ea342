"""How much of the clients' suite is measured."""

from __future__ import annotations

import msgspec

MIB = 1024 * 1024


class ClientsEffort(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and seconds; the defaults are those that the goals are meant for."""

    clients: int = 1_000
    """Connected to one daemon; each joins a group of its own."""
    samples: int = 10
    """Of the first hundredths and of the last: costs are medians of so many."""
    runs: int = 3
    """Daemons that are filled so, one after the other."""
    rest_seconds: float = 4.0
    """What is subtracted as the cost of heartbeats is measured over so long."""
    idle_clients: int = 10
    """At each of three daemons."""
    idle_seconds: float = 30.0
    idle_windows: int = 6
    slow_rounds: int = 5
    """A reader stops, again and again; rates before and during are compared within each round."""
    slow_seconds: float = 3.0
    still_seconds: float = 1.0
    """Senders that got nothing taken for so long stand still."""
    buffer_bytes_max: int = 32 * MIB
    """As in the daemon's defaults: well above what one visit of the token lets out, or readers were slow by chance."""
    seeds: int = 100
    seed_runs: int = 3


QUICK_CLIENTS = ClientsEffort(
    clients=40,
    samples=2,
    runs=1,
    rest_seconds=0.5,
    idle_clients=2,
    idle_seconds=5.0,
    idle_windows=2,
    slow_rounds=1,
    slow_seconds=0.5,
    still_seconds=0.3,
    buffer_bytes_max=8 * MIB,
    seeds=5,
    seed_runs=1,
)
"""So little that the figures mean nothing."""

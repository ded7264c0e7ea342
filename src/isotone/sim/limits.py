"""Bounds drawn small, so that rules for "full" run: which bounds the automata of daemons and servers have, which were
reached.

A bound is a constant of a module, or a field of settings, whose name ends in ``_MAX`` or ``_max``: `bounds` finds them
in the code. Those in `DRAWN` and `SETTINGS`, and of COReL `COREL_DRAWN` and `COREL_SETTINGS`, are drawn on a share of
the seeds; for every other one `UNDRAWN` says why not. A bound that is drawn notes when something that is compared with
it has come up to it.

Constants are changed in place while one run lasts: simulated runs of one process follow each other.

Implements: [DESIGN 1], bounds; [DESIGN 4], the simulator.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import msgspec

from isotone.core.choice import Choice

PACKAGES = ("isotone.evs", "isotone.detector", "isotone.corel")
SHARE = 0.25
"""Of the seeds."""

DRAWN: Mapping[str, tuple[int, ...]] = {
    "evs.ordering.lines.PROMISES_MAX": (1, 3),
    "evs.ordering.metadata.RUN_MAX": (2, 3),
    "evs.ordering.pruning.OWED_MAX": (1, 3),
    "evs.ordering.stamper.NAMES_MAX": (1, 3),
    "evs.membership.neighbours.INTRODUCTIONS_MAX": (1, 2),
    "evs.membership.relays.PASSED_MAX": (2, 3),
    "evs.membership.node.ENTERED_MAX": (1, 3),
    "evs.membership.messages.HOLDING_PIECE_BYTES_MAX": (100, 400),
    "evs.groups.messages.PIECE_MEMBERS_MAX": (2, 3),
    "evs.groups.messages.PIECE_BYTES_MAX": (120, 400),
    "evs.groups.roster._UNIONS_MAX": (1, 3),
    "evs.links.fragments.OPEN_MAX": (1, 2),
}
"""Constants, and what is drawn for them."""

SETTINGS: Mapping[str, tuple[int, ...]] = {
    "evs.transport.settings.TransportSettings.waiting_bytes_max": (2 * 1024, 16 * 1024),
    "evs.membership.settings.MembershipSettings.waiting_bytes_max": (2 * 1024, 16 * 1024),
    "evs.links.hop.settings.HopSettings.window_max": (4, 32),
    "evs.links.hop.settings.HopSettings.queue_bytes_max": (2 * 1024, 80 * 1024),
    "evs.links.tcp.settings.TcpSettings.queue_bytes_max": (2 * 1024, 80 * 1024),
    "evs.links.ring.settings.RingSettings.requests_max": (1, 4),
    "evs.links.ring.settings.RingSettings.unsettled_max": (8, 32),
    "evs.links.ring.settings.RingSettings.queue_bytes_max": (80 * 1024, 200 * 1024),
}
"""Fields of settings, and what is drawn for them."""

COREL_DRAWN: Mapping[str, tuple[int, ...]] = {
    "corel.checkpoint.KEPT_BYTES_MAX": (100, 1_000),
    "corel.journal.RECEIVED_BYTES_MAX": (1, 500),
    "corel.proposal.PROPOSED_MAX": (2, 5),
    "corel.recovery.PARCELS_MAX": (1, 2),
    "corel.recovery.PARCEL_BYTES_MAX": (500, 4_000),
    "corel.teaching.PARCELS_MAX": (1, 3),
    "corel.teaching.PARCEL_BYTES_MAX": (500, 4_000),
}
COREL_SETTINGS: Mapping[str, tuple[int, ...]] = {
    "corel.settings.ReplicaSettings.message_bytes_max": (200, 2_000),
    "corel.settings.ReplicaSettings.messages_under_way_max": (1, 2),
}
"""Constants and settings of COReL's servers, where they stand on our own daemons."""
COREL = {**COREL_DRAWN, **COREL_SETTINGS}

FORMAT = "a limit of the format: daemons that differ about it do not understand each other"
REFUSES = "it refuses what a client asks, which the workload takes for granted; tests of the package reach it"
PEERS = "only streams and daemons that are strangers reach it; tests of the package send them"
TIMES = "the promised times follow from it"
LOSES = "beyond it something is lost or given up on purpose; tests of the package reach it"
ALREADY = "drawn by the swarm's own settings of sessions, or as large as the largest message"
INSIDE = "an argument that its caller computes from another bound"
REPAIR = "how long a repair by hand searches before it gives up; tests of the package reach it"

UNDRAWN: Mapping[str, str] = {
    "evs.overlay.topology.WEIGHT_MAX": FORMAT,
    "evs.overlay.topology.SITE_NAME_MAX": FORMAT,
    "evs.ordering.units.LAMPORT_MAX": FORMAT,
    "evs.ordering.pruning.SITES_MAX": FORMAT,
    "evs.ordering.large.PIECE_BYTES_MAX": FORMAT,
    "evs.ordering.large.WHOLE_BYTES_MAX": FORMAT,
    "evs.ordering.large.ENCODED_BYTES_MAX": FORMAT,
    "evs.ordering.large.UNFINISHED_MAX": LOSES,
    "evs.ordering.holding.RUNS_MAX": LOSES,
    "evs.ordering.stamper.Stamper.kept_bytes_max": INSIDE,
    "evs.ordering.stamper.Stamper.names_max": INSIDE,
    "evs.membership.messages.DATAGRAM_BYTES_MAX": FORMAT,
    "evs.membership.messages.DAEMONS_MAX": FORMAT,
    "evs.membership.messages.HOLDING_PIECES_MAX": FORMAT,
    "evs.membership.relays.STEPS_MAX": FORMAT,
    "evs.membership.peers.CLAIMS_MAX": PEERS,
    "evs.membership.callers.CALLERS_MAX": PEERS,
    "evs.membership.callers.WAITING_BYTES_MAX": PEERS,
    "evs.membership.segment.DECLINED_MAX": TIMES,
    "evs.membership.membership.REVIEWS_MAX": "a loop that ends by itself; what it counts nobody outside can cause",
    "evs.transport.callers.CALLERS_MAX": PEERS,
    "evs.transport.settings.UNIT_BYTES_MAX": FORMAT,
    "evs.transport.settings.RESENT_BYTES_MAX": FORMAT,
    "evs.links.tcp.settings.TcpSettings.frame_bytes_max": FORMAT,
    "evs.links.tcp.settings.TcpSettings.write_bytes_max": "a size of writes, beyond which nothing has to happen",
    "evs.links.tcp.wire.HELLO_BYTES_MAX": FORMAT,
    "evs.links.ring.settings.RingSettings.token_retries_max": TIMES,
    "evs.links.ring.settings.RingSettings.requests_unanswered_max": TIMES,
    "evs.links.ring.settings.RingSettings.frame_bytes_max": FORMAT,
    "evs.links.packing.KINDS_MAX": FORMAT,
    "evs.links.ring.ring.HURRIED_MAX": "how many packets leave before the token, beyond which nothing has to happen",
    "evs.links.contract.FRAME_BYTES_MAX": FORMAT,
    "evs.links.hop.settings.HopSettings.frame_bytes_max": FORMAT,
    "evs.links.hop.wire.RANGE_COUNT_MAX": FORMAT,
    "evs.groups.messages.PIECES_MAX": FORMAT,
    "evs.groups.messages.READERS_MAX": FORMAT,
    "evs.sessions.handing.READERS_TOLD_MAX": FORMAT,
    "evs.sessions.synchrony.HELD_MAX": "of a client's library; a member that is held up so far leaves its group",
    "evs.groups.actions.GroupsSettings.waiting_bytes_max": REFUSES,
    "evs.groups.actions.GroupsSettings.message_bytes_max": REFUSES,
    "evs.groups.actions.GroupsSettings.names_max": REFUSES,
    "evs.groups.actions.GroupsSettings.groups_max": REFUSES,
    "evs.groups.actions.GroupsSettings.groups_per_session_max": REFUSES,
    "evs.sessions.submission.SMALL_MAX": FORMAT,
    "evs.sessions.handing.RESERVED_BYTES_MAX": "who asks for more waits as others do; tests of the package reach it",
    "evs.sessions.messages.CREDENTIAL_BYTES_MAX": FORMAT,
    "evs.sessions.messages.NAME_MAX": FORMAT,
    "evs.sessions.messages.REASON_MAX": FORMAT,
    "evs.sessions.messages.CLIENT_CONTROL_BYTES_MAX": FORMAT,
    "evs.sessions.messages.SERVER_CONTROL_BYTES_MAX": FORMAT,
    "evs.sessions.settings.FRAME_OVERHEAD_MAX": FORMAT,
    "evs.sessions.settings.ServerSettings.sessions_max": REFUSES,
    "evs.sessions.settings.ServerSettings.handshakes_max": PEERS,
    "evs.sessions.settings.ServerSettings.resume_bytes_max": LOSES,
    "evs.sessions.settings.ServerSettings.wide_windows_max": ALREADY,
    "evs.sessions.settings.ServerSettings.large_bytes_max": ALREADY,
    "evs.sessions.settings.ServerSettings.message_bytes_max": REFUSES,
    "evs.sessions.settings.ServerSettings.buffer_bytes_max": ALREADY,
    "evs.sessions.settings.ServerSettings.buffers_bytes_max": LOSES,
    "evs.sessions.settings.ServerSettings.write_bytes_max": "a size of writes, beyond which nothing has to happen",
    "evs.sessions.settings.ClientSettings.queue_bytes_max": ALREADY,
    "evs.sessions.settings.ClientSettings.bundle_bytes_max": REFUSES,
    "evs.sessions.settings.ClientSettings.packed_bytes_max": ALREADY,
    "evs.sessions.settings.ClientSettings.write_bytes_max": "a size of writes, beyond which nothing has to happen",
    "evs.sessions.settings.ClientSettings.message_bytes_max": REFUSES,
    "evs.sessions.settings.ClientSettings.frame_bytes_max": FORMAT,
    "evs.sessions.tickets.DROPS_MAX": LOSES,
    "evs.sessions.admission.DEPARTED_MAX": LOSES,
    "corel.configuration.RULE_BYTES_MAX": FORMAT,
    "corel.decoding.OPEN_MAX": FORMAT,
    "corel.versions.MARK_MAX": FORMAT,
    "corel.wire.WIRE_BYTES_MAX": FORMAT,
    "corel.explain.WAITS_MAX": "what is told to people, and nothing follows from",
    "corel.learning.SILENCES_MAX": TIMES,
    "corel.rounds.LAG_MAX": TIMES,
    "corel.proposal.YELLOW_MAX": LOSES,
    "corel.quorum.EXHAUSTIVE_MAX": "the size of rules up to which they are tried out; tests of the package reach it",
    "corel.snapshot.PIECE_BYTES_MAX": "the swarm draws states of many pieces instead",
    "corel.repair.NUMBERS_MAX": REPAIR,
    "corel.repair.TRIED_BYTES_MAX": REPAIR,
    "corel.repair_history.HISTORIES_MAX": REPAIR,
    "corel.repair_history.SUBSETS_MAX": REPAIR,
    "corel.repair_history.VOTERS_MAX": REPAIR,
    "corel.repair_messages.ARRIVALS_MAX": REPAIR,
    "corel.repair_messages.CHOICES_MAX": REPAIR,
    "corel.settings.ReplicaSettings.held_bytes_max": REFUSES,
    "corel.settings.ReplicaSettings.record_bytes_max": REFUSES,
    "corel.settings.ReplicaSettings.waiting_bytes_max": REFUSES,
    "corel.settings.ReplicaSettings.waiting_records_max": REFUSES,
    "detector.evidence.CREDITS_MAX": TIMES,
    "detector.settings.DetectorSettings.probes_max": TIMES,
    "detector.settings.DetectorSettings.evidence_max": "what is told to people, and nothing follows from",
    "detector.peer.OUTSTANDING_MAX": TIMES,
}
"""Why the other bounds are not drawn."""


class Drawn(int):
    """A bound that counts how often something was found to have come up to it."""

    name: str
    reached: Counter[str]

    def _note(self, other: object) -> None:
        if isinstance(other, int) and int(other) >= int(self):
            self.reached[self.name] += 1

    def __lt__(self, other: int) -> bool:
        self._note(other)
        return int.__lt__(self, other)

    def __le__(self, other: int) -> bool:
        self._note(other)
        return int.__le__(self, other)

    def __gt__(self, other: int) -> bool:
        self._note(other)
        return int.__gt__(self, other)

    def __ge__(self, other: int) -> bool:
        self._note(other)
        return int.__ge__(self, other)

    def __eq__(self, other: object) -> bool:
        self._note(other)
        return int.__eq__(self, other)

    def __sub__(self, other: int) -> int:
        """Room that is left of it."""
        self._note(other)
        return int.__sub__(self, other)

    __hash__ = int.__hash__


def bounds() -> dict[str, int]:
    """Every bound of these automata, with its usual value, as the code has it."""
    found: dict[str, int] = {}
    for module in _modules():
        for name, value in vars(module).items():
            if name.endswith("_MAX") and type(value) is int and _is_own(module, name):
                found[f"{_short(module)}.{name}"] = value
            elif isinstance(value, type) and value.__module__ == module.__name__:
                found |= {f"{_short(module)}.{value.__name__}.{field}": most for field, most in _fields(value)}
    return dict(sorted(found.items()))


def _modules() -> list[ModuleType]:
    found = []
    for package in map(importlib.import_module, PACKAGES):
        names = [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        found += [importlib.import_module(name) for name in names]
    return found


def _short(module: ModuleType) -> str:
    return module.__name__.removeprefix("isotone.")


def _is_own(module: ModuleType, name: str) -> bool:
    """Whether the module itself says it, and does not import it."""
    return any(line.startswith(f"{name} =") for line in inspect.getsource(module).splitlines())


def _fields(kind: Any) -> list[tuple[str, int]]:
    """Fields with a usual value that are bounds, and no time."""
    if issubclass(kind, msgspec.Struct):
        defaults = kind.__struct_defaults__
        known = list(zip(kind.__struct_fields__[-len(defaults) :], defaults)) if defaults else []
    elif is_dataclass(kind):
        known = [(each.name, each.default) for each in fields(kind)]
    else:
        known = []
    return [(name, value) for name, value in known if name.endswith("_max") and type(value) is int]


class Limits:
    """What one seed draws: nothing on most seeds, and nothing without one."""

    def __init__(self, seed: int | None = None, *, corel: bool = False) -> None:
        choice = Choice(f"limits/{seed}")
        self.reached: Counter[str] = Counter()
        self.values: dict[str, int] = {}
        if seed is not None and choice.chance(SHARE):
            drawn = {**DRAWN, **SETTINGS, **(COREL if corel else {})}
            self.values = {name: choice.pick(values) for name, values in drawn.items() if choice.chance(0.5)}

    def bound(self, name: str) -> Drawn | None:
        """The bound of this name, if it is drawn."""
        if name not in self.values:
            return None
        drawn = Drawn(self.values[name])
        drawn.name, drawn.reached = name, self.reached
        return drawn

    def changed(self, settings: Any) -> Any:
        """The same settings with what is drawn for their bounds, and for those of settings within them."""
        kind = type(settings)
        where = f"{kind.__module__.removeprefix('isotone.')}.{kind.__name__}"
        changes: dict[str, object] = {}
        for field in settings.__struct_fields__:
            value = getattr(settings, field)
            if isinstance(value, msgspec.Struct):
                changes[field] = self.changed(value)
            elif (bound := self.bound(f"{where}.{field}")) is not None:
                changes[field] = bound
        return msgspec.structs.replace(settings, **changes)

    @contextmanager
    def constants(self) -> Iterator[None]:
        """While it lasts, constants are as they were drawn."""
        before: list[tuple[ModuleType, str, int]] = []
        try:
            for name in (*DRAWN, *COREL_DRAWN):
                if (bound := self.bound(name)) is not None:
                    before += _replace(name, bound)
            yield
        finally:
            for module, constant, value in before:
                setattr(module, constant, value)


def _replace(name: str, bound: Drawn) -> list[tuple[ModuleType, str, int]]:
    """In the module that says it and in all that import it; what was there."""
    home, _, constant = f"isotone.{name}".rpartition(".")
    usual = getattr(importlib.import_module(home), constant)
    users = [module for label, module in sorted(sys.modules.items()) if label.startswith("isotone.")]
    users = [module for module in users if vars(module).get(constant) is usual and _imports(module, home, constant)]
    for module in users:
        setattr(module, constant, bound)
    return [(module, constant, usual) for module in users]


def _imports(module: ModuleType, home: str, constant: str) -> bool:
    """Two modules may have bounds of the same name and value."""
    if module.__name__ == home:
        return True
    source = inspect.getsource(module)
    return constant in source and home in source

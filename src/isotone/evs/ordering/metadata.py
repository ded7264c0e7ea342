"""Metadata of several pruned units in one frame: what differs from unit to unit, and nothing twice.

A run is a header and, for each unit, a byte that says what is as usual, then what is not: who sent it with which
service, how far its sequence, its time and its session's previous unit are away, and its past.

Implements: [Spread 3.4.2], the small message that goes where content is not needed. Deviations: none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from isotone.core.errors import RemoteProtocolError
from isotone.core.services import Service
from isotone.evs.links.contract import Frame, frame_of
from isotone.evs.ordering.stamper import TICK, UNIT_FRAME
from isotone.evs.ordering.units import (
    NO_PAST,
    Past,
    Unit,
    UnitKind,
    check_unit,
    decode_past,
    encode_past,
    encode_unit,
    past_of,
)

METADATA_FRAME = 10
RUN_MAX = 64
SAME_SENDER, NEXT, NEXT_TICK, BEHIND_LAST, USUAL_PAST = 1, 2, 4, 8, 16
_RUN = struct.Struct(">HQQ")  # site; sequence and time that the first one counts from
_SENDER = struct.Struct(">BH")  # service, daemon
_STEP = struct.Struct(">H")  # of the sequence
_TIME = struct.Struct(">I")
_BACK = struct.Struct(">H")  # how far back its previous is; 0: there is none


def encode_metadata(units: Iterable[Unit]) -> list[Frame]:
    """Frames for the metadata of these units of one site, in this order."""
    runs: list[list[Unit]] = []
    for unit in units:
        if runs and len(runs[-1]) < RUN_MAX and _follows(runs[-1][-1], unit):
            runs[-1].append(unit)
        else:
            runs.append([unit])
    return [_encode_run(run) for run in runs]


def _follows(before: Unit, unit: Unit) -> bool:
    """Whether all distances can be said; of both, since the one before may be the first of its run."""
    near = 0 < unit.sequence - before.sequence <= 0xFFFF and 0 < unit.lamport - before.lamport <= 0xFFFFFFFF
    return near and _back(before) <= 0xFFFF and _back(unit) <= 0xFFFF


def _back(unit: Unit) -> int:
    return unit.sequence - unit.previous if unit.previous else 0


def _usual_past(site: int, past: Past, sequence: int) -> Past:
    """The past of a unit that knows nothing but the one before it, which had this past and sequence."""
    weak, agreed, behind = past
    return (*weak[:site], sequence, *weak[site + 1 :]), agreed, behind


def _encode_run(run: Sequence[Unit]) -> Frame:
    site = run[0].site
    if len(run) == 1:
        return frame_of(UNIT_FRAME, *encode_unit(run[0].pruned()))
    sequence, lamport, sender = run[0].sequence - 1, run[0].lamport - 1, None
    past = NO_PAST
    parts = [_RUN.pack(site, sequence, lamport)]
    for unit in run:
        step, time, back = unit.sequence - sequence, unit.lamport - lamport, _back(unit)
        plain = unit.service.is_agreed or past_of(unit) == _usual_past(site, past, sequence)
        usual = ((unit.service, unit.daemon) == sender, step == 1, time == TICK, back == 1, plain)
        parts.append(bytes([sum(flag << place for place, flag in enumerate(usual))]))
        sender_spelt = _SENDER.pack(unit.service, unit.daemon)
        spelt = (sender_spelt, _STEP.pack(step), _TIME.pack(time), _BACK.pack(back), encode_past(unit))
        parts += [field for field, is_usual in zip(spelt, usual) if not is_usual]
        sequence, lamport, sender = unit.sequence, unit.lamport, (unit.service, unit.daemon)
        past = past_of(unit)
    return frame_of(METADATA_FRAME, b"".join(parts))


def decode_metadata(body: memoryview, *, sites: int, daemons: int) -> list[Unit]:
    """The units of a `METADATA_FRAME`."""
    try:
        units = _decode_run(body, sites)
    except (struct.error, ValueError) as error:
        raise RemoteProtocolError(f"not metadata: {error}") from None
    for unit in units:
        check_unit(unit, sites=sites, daemons=daemons)
    return units


def _decode_run(body: memoryview, sites: int) -> list[Unit]:
    site, sequence, lamport = _RUN.unpack_from(body)
    offset, service, daemon = _RUN.size, 0, 0
    units: list[Unit] = []
    past = NO_PAST

    def take(field: struct.Struct, usual: bool, value: tuple[int, ...]) -> tuple[int, ...]:
        nonlocal offset
        if usual:
            return value
        offset += field.size
        return field.unpack_from(body, offset - field.size)

    while offset < len(body):
        flags = body[offset]
        offset += 1
        service, daemon = take(_SENDER, bool(flags & SAME_SENDER), (service, daemon))
        (step,) = take(_STEP, bool(flags & NEXT), (1,))
        (time,) = take(_TIME, bool(flags & NEXT_TICK), (TICK,))
        (back,) = take(_BACK, bool(flags & BEHIND_LAST), (1,))
        if Service(service).is_agreed:
            past = NO_PAST
        elif flags & USUAL_PAST:
            past = _usual_past(site, past, sequence)
        else:
            past, offset = decode_past(body, offset, sites)
        sequence, lamport = sequence + step, lamport + time
        if not step or not time or back > sequence or flags >= 32 or len(units) == RUN_MAX or site >= sites:
            raise RemoteProtocolError("metadata that contradicts itself")
        previous = sequence - back if back else 0
        head = (UnitKind.PRUNED, Service(service), site, daemon, sequence, lamport, previous)
        units.append(Unit(*head, b"", *past))
    return units

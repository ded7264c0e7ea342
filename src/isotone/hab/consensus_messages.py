"""What the processes of one centre tell each other to order commands by consensus.

Implements: [HAB 2.3], atomic broadcast by consensus with a rotating coordinator. Deviations: Dc1, see `consensus`.
"""

from __future__ import annotations

import msgspec

from isotone.core.codec import ControlCodec, ControlMessage, Natural

MESSAGE_BYTES_MAX = 16 * 1024 * 1024


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One broadcast: the place of its sender, and its number there, dense from 1."""

    sender: Natural
    number: Natural
    record: bytes


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What an instance decides: broadcasts in their order, and who proposed them, who begins the next instance."""

    proposer: Natural
    items: tuple[Item, ...]


class Spread(ControlMessage, frozen=True, tag=0xD8):
    """Broadcasts that are not ordered yet."""

    instance: Natural
    items: tuple[Item, ...]


class Estimate(ControlMessage, frozen=True, tag=0xD9):
    """To the coordinator of a round: what the sender would decide, adopted in round ``adopted``."""

    instance: Natural
    round: Natural
    adopted: Natural
    batch: Batch


class Propose(ControlMessage, frozen=True, tag=0xDA):
    """The coordinator's choice."""

    instance: Natural
    round: Natural
    batch: Batch


class Accept(ControlMessage, frozen=True, tag=0xDB):
    """The sender adopted the proposal of this round, or (``accepted`` false) suspects its coordinator."""

    instance: Natural
    round: Natural
    accepted: bool = True


class Decide(ControlMessage, frozen=True, tag=0xDC):
    """An instance is decided."""

    instance: Natural
    batch: Batch


class Probe(ControlMessage, frozen=True, tag=0xDD):
    """For the failure detector; also tells how far the sender is."""

    nonce: Natural
    instance: Natural


class Echo(ControlMessage, frozen=True, tag=0xDE):
    """The answer to a probe."""

    nonce: Natural
    instance: Natural


CODEC: ControlCodec[ControlMessage] = ControlCodec(
    Spread, Estimate, Propose, Accept, Decide, Probe, Echo, bytes_max=MESSAGE_BYTES_MAX
)

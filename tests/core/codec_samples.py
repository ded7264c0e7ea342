"""Valid things of every kind that the codec knows, drawn from a seed, and control messages of our own for tests."""

from __future__ import annotations

from enum import Enum

from isotone.core.bundles import Bundle, bundle_of
from isotone.core.choice import Choice
from isotone.core.codec import ControlCodec, ControlMessage, Fragment, Natural, split
from isotone.core.ids import SEQUENCE_MAX, ClientId, DaemonId, DaemonViewId, Stamp
from isotone.core.services import Service
from isotone.core.versions import VersionRange
from isotone.evs.links.contract import frame_of
from isotone.evs.links.packing import Packer
from isotone.evs.links.ring.token import Token as RingToken
from isotone.evs.links.ring.token import encode_token

SERVICES = tuple(Service)
LETTERS = [chr(code) for code in range(0x24, 0x7F)]


class Mood(Enum):
    CALM = "calm"
    WORRIED = "worried"


class Ping(ControlMessage, frozen=True, tag=0x3F0):
    round: Natural


class Token(ControlMessage, frozen=True, tag=0x3F1):
    view: DaemonViewId
    sequence: Natural
    missing: tuple[Natural, ...] = ()
    holder: DaemonId | None = None


class Gossip(ControlMessage, frozen=True, tag=0x3F2):
    names: tuple[str, ...]
    pairs: tuple[tuple[DaemonId, int], ...]
    nested: tuple[tuple[int, ...], ...]
    digest: bytes
    mood: Mood
    load: float
    versions: VersionRange
    sure: bool = False


CODEC: ControlCodec[Ping | Token | Gossip] = ControlCodec(Ping, Token, Gossip)


def number(choice: Choice) -> int:
    """Small, large, or at an edge."""
    return choice.pick([1, 2, 255, 256, 2**31, 2**32, SEQUENCE_MAX - 20_000, 1 + choice.below(2**40)])


def name(choice: Choice, length_max: int) -> str:
    return "".join(choice.pick(LETTERS) for _ in range(choice.between(1, length_max)))


def daemon(choice: Choice) -> DaemonId:
    return DaemonId(name(choice, 19), choice.pick([0, number(choice)]))


def client(choice: Choice) -> ClientId:
    return ClientId(daemon(choice), name(choice, 10), number(choice))


def group(choice: Choice) -> str:
    return name(choice, 31) if choice.chance(0.8) else f"#{name(choice, 10)}#{name(choice, 19)}"


def stamp(choice: Choice) -> Stamp | None:
    return None if choice.chance(0.3) else Stamp(number(choice), daemon(choice))


def body(choice: Choice, size: int) -> bytes:
    return choice.below(256**size).to_bytes(size, "little") if size else b""


def bundle(choice: Choice) -> Bundle:
    count = choice.pick([1, 1, 1, 2, 5, 40])
    bodies = [body(choice, choice.pick([0, 1, 3, 50])) for _ in range(count)]
    groups = [group(choice) for _ in range(choice.pick([1, 1, 2, 8]))]
    types = [choice.below(65536) for _ in range(count)]
    flags = choice.below(65536)
    sender, first = client(choice), number(choice)
    return bundle_of(sender, first, choice.pick(SERVICES), groups, bodies, types=types, flags=flags)


def fragment(choice: Choice) -> Fragment:
    message = body(choice, choice.pick([0, 1, 200]))
    return choice.pick(split(message, choice.between(20, 90), number=number(choice)))


def frames(choice: Choice) -> bytes:
    """The body of a packet as a link packs it: whole frames, and parts of frames that are larger than a body."""
    packer = Packer(choice.between(160, 300))
    sizes = [choice.pick([0, 1, 30, 100, 900]) for _ in range(choice.between(1, 5))]
    packer.offer([frame_of(choice.below(256), body(choice, size)) for size in sizes])
    bodies = []
    while packer:
        bodies.append(b"".join(packer.next_body()[0]))
    return choice.pick(bodies)


def ring_token(choice: Choice) -> bytes:
    top = number(choice)
    token = RingToken(
        visit=number(choice),
        link_sequence=top,
        received=choice.below(top + 1),
        received_modifier=choice.below(65536),
        flow=choice.below(2**32),
        site_sequence=number(choice),
        site_lamport=number(choice),
        site_line=number(choice),
        site_line_modifier=choice.below(65536),
        rest_with=choice.below(65536),
        jumped_at=0,
        calm=choice.below(65536),
        missing=tuple(number(choice) for _ in range(choice.below(5))),
    )
    return encode_token(token)


def control(choice: Choice) -> Ping | Token | Gossip:
    match choice.below(3):
        case 0:
            return Ping(number(choice))
        case 1:
            missing = tuple(number(choice) for _ in range(choice.below(9)))
            holder = daemon(choice) if choice.chance(0.5) else None
            return Token(DaemonViewId(number(choice), daemon(choice)), number(choice), missing, holder)
        case _:
            return Gossip(
                names=tuple(name(choice, 20) for _ in range(choice.below(4))),
                pairs=tuple((daemon(choice), number(choice) - 300) for _ in range(choice.below(3))),
                nested=tuple(tuple(range(choice.below(4))) for _ in range(choice.below(4))),
                digest=body(choice, choice.below(20)),
                mood=choice.pick(list(Mood)),
                load=choice.real(),
                versions=VersionRange(1, choice.between(1, 9)),
                sure=choice.chance(0.5),
            )

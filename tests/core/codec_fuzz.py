"""Throw random and mutated input at the decoders of the codec and of the ring's packets.

Each decodes or raises RemoteProtocolError, and nothing else. What decodes must be real: encoding the result gives the
same bytes back (control messages: the same message; frames: every byte is accounted for).

    python -m tests.core.codec_fuzz --count 10000000 --seed 1 --progress

Exit codes: 0 fine, 1 a decoder misbehaved (the input and the command that repeats it are printed), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from isotone.core.choice import Choice
from isotone.core.codec import decode_bundle, encode_bundle, parse_fragment
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.contract import FRAME_HEADER_BYTES, Frame
from isotone.evs.links.packing import Unpacker
from isotone.evs.links.ring.token import decode_token, encode_token
from tests.core import codec_samples as samples

BLOCK = 10_000  # inputs that share one stream of choices, so that any block can be repeated alone
EDGES = [0, 1, 0x7F, 0x80, 0xFE, 0xFF]
SAMPLES_PER_BLOCK = 40


@dataclass
class Tally:
    """Per decoder: how many inputs it took and how many it refused."""

    decoded: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, *, decoded: bool) -> None:
        counts = self.decoded if decoded else self.refused
        counts[name] = counts.get(name, 0) + 1


class MisbehavedError(AssertionError):
    """A decoder let another error out, or took what it should not have."""


def unpacked(data: bytes) -> tuple[list[Frame], int]:
    """The frames of a packet's body, and how many bytes of parts are held."""
    unpacker = Unpacker(frame_bytes_max=1 << 16, held_bytes_max=1 << 20)
    frames: list[Frame] = []
    unpacker.unpack(memoryview(data), frames)
    return frames, unpacker.held_bytes


def check_frames(data: bytes) -> None:
    """Every byte is a head's, a frame's or held; parts have two heads."""
    frames, held = unpacked(data)
    heads = len(data) - held - sum(frame.size for frame in frames)
    assert heads >= FRAME_HEADER_BYTES * len(frames) and heads % FRAME_HEADER_BYTES == 0


def check_token(data: bytes) -> None:
    assert encode_token(decode_token(memoryview(data))) == data


def check_bundle(data: bytes) -> None:
    assert b"".join(encode_bundle(*decode_bundle(data))) == data


def check_fragment(data: bytes) -> None:
    fragment = parse_fragment(data)
    assert fragment.header() + fragment.body == data and fragment.is_inside


def check_control(data: bytes) -> None:
    message = samples.CODEC.decode(data)
    again = samples.CODEC.decode(samples.CODEC.encode(message))
    assert again == message or "nan" in repr(message)


def sample_bundle(choice: Choice) -> bytes:
    return b"".join(encode_bundle(samples.bundle(choice), samples.stamp(choice)))


def sample_fragment(choice: Choice) -> bytes:
    fragment = samples.fragment(choice)
    return fragment.header() + bytes(fragment.body)


def sample_control(choice: Choice) -> bytes:
    return samples.CODEC.encode(samples.control(choice))


TARGETS: list[tuple[str, Callable[[bytes], None], Callable[[Choice], bytes]]] = [
    ("frames", check_frames, samples.frames),
    ("token", check_token, samples.ring_token),
    ("bundle", check_bundle, sample_bundle),
    ("fragment", check_fragment, sample_fragment),
    ("control", check_control, sample_control),
]


def mutate(source: Random, data: bytearray, other: bytes) -> bytearray:
    """Change one thing."""
    place = int(source.random() * (len(data) + 1))
    match int(source.random() * 8):
        case 0 if place < len(data):
            data[place] ^= 1 << int(source.random() * 8)
        case 1 if place < len(data):
            data[place] = EDGES[int(source.random() * len(EDGES))]
        case 2:
            width = 1 << int(source.random() * 4)
            data[place : place + width] = source.getrandbits(8 * width).to_bytes(width, "little")
        case 3:
            del data[place:]
        case 4:
            data += source.randbytes(int(source.random() * 12))
        case 5:
            data[place:place] = source.randbytes(1 + int(source.random() * 4))
        case 6:
            del data[place : place + 1 + int(source.random() * 8)]
        case _:
            cut = int(source.random() * (len(other) + 1))
            data[place:] = other[cut:]
    return data


def inputs(seed: int, block: int, count: int) -> list[tuple[int, bytes]]:
    """The inputs of one block, each with the number of its target."""
    source = Random(f"codec fuzz {seed} {block}")
    choice = Choice(f"codec fuzz {seed} {block}")
    good = [[make(choice) for _ in range(SAMPLES_PER_BLOCK)] for _, _, make in TARGETS]
    made = []
    for _ in range(count):
        target = int(source.random() * len(TARGETS))
        pool = good[target]
        if source.random() < 0.15:
            made.append((target, source.randbytes(int(source.random() * 120))))
            continue
        data = bytearray(pool[int(source.random() * len(pool))])
        for _ in range(int(source.random() * 4)):
            data = mutate(source, data, pool[int(source.random() * len(pool))])
        made.append((target, bytes(data)))
    return made


def fuzz(count: int, seed: int, *, progress: Callable[[int], None] | None = None) -> Tally:
    """Run this many inputs; the same count and seed mean the same inputs everywhere."""
    tally = Tally()
    for block, start in enumerate(range(0, count, BLOCK)):
        for target, data in inputs(seed, block, min(BLOCK, count - start)):
            name, check, _ = TARGETS[target]
            try:
                check(data)
            except RemoteProtocolError:
                tally.add(name, decoded=False)
            except Exception as error:
                again = f"python -m tests.core.codec_fuzz --count {count} --seed {seed}"
                raise MisbehavedError(f"{name} decoder, input {data.hex()}: {error!r}; repeat: {again}") from error
            else:
                tally.add(name, decoded=True)
        if progress is not None:
            progress(min(start + BLOCK, count))
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--progress", action="store_true", help="a line on standard error for each million inputs")
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error("--count must be positive")

    def report(done: int) -> None:
        if done % 1_000_000 == 0 or done == arguments.count:
            print(f"{done:,} of {arguments.count:,}", file=sys.stderr, flush=True)

    try:
        tally = fuzz(arguments.count, arguments.seed, progress=report if arguments.progress else None)
    except MisbehavedError as error:
        print(error, file=sys.stderr)
        return 1
    for name, _, _ in TARGETS:
        print(f"{name:10} decoded {tally.decoded.get(name, 0):>10,}  refused {tally.refused.get(name, 0):>10,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

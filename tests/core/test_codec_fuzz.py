"""Malformed input of any kind raises RemoteProtocolError and nothing else, and allocates little."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from isotone.core.bundles import MESSAGES_MAX
from isotone.core.choice import Choice
from isotone.core.codec import ALLOCATION_FACTOR, decode_bundle, parse_fragment
from isotone.core.codec.bundle import HEAD
from isotone.core.errors import RemoteProtocolError
from isotone.evs.links.ring.token import decode_token
from tests.core import codec_fuzz, codec_samples

KILOBYTES_BESIDES = 8


def test_a_hundred_thousand_inputs_decode_or_are_refused() -> None:
    tally = codec_fuzz.fuzz(100_000, seed=1)
    names = {name for name, _, _ in codec_fuzz.TARGETS}
    assert sum(tally.decoded.values()) + sum(tally.refused.values()) == 100_000
    for name in names:  # or the inputs would prove nothing
        assert tally.decoded[name] > 2_000 and tally.refused[name] > 2_000


def test_the_same_seed_means_the_same_inputs() -> None:
    assert codec_fuzz.inputs(3, 0, 500) == codec_fuzz.inputs(3, 0, 500)
    assert codec_fuzz.inputs(3, 0, 500) != codec_fuzz.inputs(3, 1, 500)
    assert codec_fuzz.inputs(3, 0, 500) != codec_fuzz.inputs(4, 0, 500)


@pytest.mark.parametrize("fault", [ValueError("out"), RecursionError(), MemoryError(), AssertionError()])
def test_the_fuzzer_notices_any_other_error_and_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(data: bytes) -> None:
        raise fault

    monkeypatch.setattr(codec_fuzz, "TARGETS", [("broken", broken, codec_samples.frames)])
    with pytest.raises(codec_fuzz.MisbehavedError, match="--count 10 --seed 5"):
        codec_fuzz.fuzz(10, seed=5)


def peak_bytes(decode: Callable[[bytes], object], data: bytes) -> int:
    """The most that decoding held at once, beyond what was there before."""
    tracemalloc.start()
    try:
        kept = decode(data)
        del kept
    except RemoteProtocolError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


DECODERS: dict[str, Callable[[bytes], object]] = {
    "frames": codec_fuzz.unpacked,
    "token": lambda data: decode_token(memoryview(data)),
    "bundle": decode_bundle,
    "fragment": parse_fragment,
    "control": codec_samples.CODEC.decode,
}


def test_random_and_mutated_input_allocates_no_more_than_a_small_multiple() -> None:
    for target, data in codec_fuzz.inputs(7, 0, 2_000):
        name = codec_fuzz.TARGETS[target][0]
        assert peak_bytes(DECODERS[name], data) <= ALLOCATION_FACTOR * len(data) + KILOBYTES_BESIDES * 1024, data.hex()


HOSTILE_CONTROL = {
    "a tuple that claims four thousand million elements": b"\x92\xcd\x03\xf1\xdd\xff\xff\xff\xff",
    "the message itself claims them": b"\xdd\xff\xff\xff\xff\xcd\x03\xf0\x00",
    "a text that claims four gigabytes": b"\x92\xcd\x03\xf2\x91\xdb\xff\xff\xff\xff",
    "bytes that claim four gigabytes": b"\x95\xcd\x03\xf2\x90\x90\x90\xc6\xff\xff\xff\xff",
    "a map that claims them": b"\x92\xcd\x03\xf1\xdf\xff\xff\xff\xff",
    "a tuple that claims them and brings some": b"\x94\xcd\x03\xf2\x90\x90\xdd\xff\xff\xff\xff" + b"\x91\x01" * 20_000,
    "many tiny tuples": b"\x94\xcd\x03\xf2\x90\x90\xdd\x00\x00\x4e\x20" + b"\x91\x01" * 20_000,
    "many short texts": b"\x92\xcd\x03\xf2\xdd\x00\x00\x4e\x20" + b"\xa2ab" * 20_000,
    "arrays in arrays, first": b"\x91" * 60_000,
    "arrays in arrays, as the tag": b"\x92" + b"\x91" * 60_000,
    "arrays in arrays, as a field": b"\x92\xcd\x03\xf0" + b"\x91" * 60_000,
    "arrays in arrays, in a tuple": b"\x94\xcd\x03\xf2\x90\x90\x91" + b"\x91" * 60_000,
    "arrays in arrays, behind the last field": b"\x93\xcd\x03\xf0\x00" + b"\x91" * 60_000,
    "arrays in arrays, under an unknown key": b"\x92\xcd\x03\xf1\x81\xa1b" + b"\x91" * 60_000,
    "maps in maps": b"\x81\xa1a" * 20_000,
    "an extension": b"\x92\xcd\x03\xf0\xc9\xff\xff\xff\xff\x01",
    "not UTF-8": b"\x92\xcd\x03\xf2\x91\xa1\xff",
    "a number beyond the range": b"\x92\xcd\x03\xf0\xcf" + b"\xff" * 8,
}


@pytest.mark.parametrize("name", HOSTILE_CONTROL)
def test_hostile_control_messages_are_refused_in_little_memory(name: str) -> None:
    data = HOSTILE_CONTROL[name]
    with pytest.raises(RemoteProtocolError) as caught:
        codec_samples.CODEC.decode(data)
    assert not isinstance(caught.value.__cause__, RecursionError)  # nesting was never followed
    assert peak_bytes(codec_samples.CODEC.decode, data) <= ALLOCATION_FACTOR * len(data) + KILOBYTES_BESIDES * 1024


def test_a_bundle_of_very_many_empty_messages_stays_a_small_multiple() -> None:
    names = b"c d g"
    numbers = (1, 4, 0, MESSAGES_MAX, len(names), 0, 1, 1, 1, 0, 0)
    data = HEAD.pack(*numbers) + names + b"\0" * 4 * MESSAGES_MAX + b"\xff\x7f" * MESSAGES_MAX
    bundle, _ = decode_bundle(data)
    assert bundle.count == MESSAGES_MAX
    assert peak_bytes(decode_bundle, data) <= 16 * len(data)


def test_samples_themselves_decode() -> None:
    choice = Choice("samples")
    for _, check, make in codec_fuzz.TARGETS:
        for _ in range(50):
            check(make(choice))

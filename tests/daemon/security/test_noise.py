"""The handshake against published vectors, and against everything that is not quite right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isotone.core.errors import RemoteProtocolError
from isotone.daemon.security.noise import COUNTER_MAX, Cipher, Handshake

# Published vectors of Noise_XX_25519_ChaChaPoly_SHA256: those of cacophony and of snow, and one without a prologue.
# In this order: prologue, static and ephemeral keys of the initiator, of the responder, hash of the handshake (if it is
# published), then payload and message in turn; the first three messages are the handshake.
VECTORS: dict[str, tuple[tuple[str, ...], Sequence[tuple[str, str]]]] = {
    "cacophony": (
        (
            "4a6f686e2047616c74",
            "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
            "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
            "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
            "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
            "c8e5f64e846193be2a834104c2a009868d6c9f3bd3c186299888b488b2f1f58e",
        ),
        [
            (
                "4c756477696720766f6e204d69736573",
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444c756477696720766f6e204d69736573",
            ),
            (
                "4d757272617920526f746862617264",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884381cbad1f276e038c48378ffce2b65285e08d6b68"
                "aaa3629a5a8639392490e5b9bd5269c2f1e4f488ed8831161f19b7815528f8982ffe09be9b5c412f8a0db50f8814c7194e83f23d"
                "bd8d162c9326ad",
            ),
            (
                "462e20412e20486179656b",
                "c7195ffacac1307ff99046f219750fc47693e23c3cb08b89c2af808b444850a80ae475b9df0f169ae80a89be0865b57f58c9fea0"
                "d4ec82a286427402f113e4b6ae769a1d95941d49b25030",
            ),
            ("4361726c204d656e676572", "96763ed773f8e47bb3712f0e29b3060ffc956ffc146cee53d5e1df"),
            (
                "4a65616e2d426170746973746520536179",
                "3e40f15f6f3a46ae446b253bf8b1d9ffb6ed9b174d272328ff91a7e2e5c79c07f5",
            ),
            (
                "457567656e2042f6686d20766f6e2042617765726b",
                "eb3f3515110702e047a6c9da4478b6ead94873c11c0f2d710ddb3f09fce024b3a58502ae3f",
            ),
        ],
    ),
    "snow": (
        (
            "5468657265206973206e6f20726967687420616e642077726f6e672e2054686572652773206f6e6c792066756e20616e6420626f72"
            "696e672e",
            "7dec208517a3b81a2861d7a71266d5d6dc944c5a8816634a86fe63198a0148ee",
            "a32daf21e93c0131495ce1d903181fde81cc46937daaeb990bae7c992709421e",
            "4d0aed5098e3b4ef20357e9f686ce66204c792b358da2e475017d6c485304881",
            "4eece0f195d026db035ff987597c429d3ad3bcc2944df37d649528951b2a27c5",
            "",
        ),
        [
            (
                "d03c489139e645d0711a3c9e810d776b46a84912463fafa87b884eebf242dc34",
                "f9fa868ba97ab8a2686deccfaad5a484ee10a5bb85e3d1dce015a84797f92818d03c489139e645d0711a3c9e810d776b46a84912"
                "463fafa87b884eebf242dc34",
            ),
            (
                "d8190a92f7dc0c93dbea9118ba8055751fb7c6590c416ffbd419964132b99a85",
                "8c4e6fdb7d09d501a86f7eca5c234522751706ed409182c05cdf5f827d4dae47b81c6c5f43b025692c24391eefee725c17d8cb0f"
                "be3e4abb8aedf42c4fd2592d4ea48ac08989d6ae8b4adae08b2c34087c808c7aa55a63c02b0fab9e930612336bd43eaea04d3c67"
                "0a0a146691aa9cc9d357872320dc735dbc48580cffb553db",
            ),
            (
                "77891b19dcb92ef7c055b672c4a5aa7fdf1c84146b8b303459022729473ce254",
                "933ca6b5ed60df3df66121f0ab49a09e49efa45c613a86a3cecbf4c535cef2f83f72b42837b18e3572f2fdc2b74c331e2368a545"
                "cef54bdca081678ab0e9dd5348122459e0c034c851984d88ce610963d43cde6cfe73a67fbd5a63e8bfca96d0",
            ),
            (
                "d7efdf988072881941db045a42882433817555128fbf5663e56081712ec7d212",
                "54ef0ff0629e1aaa7685a2806ab111cba76b52331f2642276736f415868eacb69ab2577f3bda0cbf72f879685f6ed25f",
            ),
            (
                "dd7bf01a588bafb52c6cfba952e5d8fe35cc2b3f92b4730ae2474615157345ce",
                "356be70f110306d5c699bb834bb9d58d909e325924dfbec972e406e6f294dc63e1daebefe8a62a334facc8048ab4ad66",
            ),
        ],
    ),
    "without a prologue": (
        (
            "",
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
            "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
            "4142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f60",
            "",
        ),
        [
            ("", "358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254"),
            (
                "",
                "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d484663414af878d3e46a2f58911a816d6e8346d4ea17a"
                "6f2a0bb4ef4ed56c133cff4560a34e36ea82109f26cf2e5a5caf992b608d55c747f615e5a3425a7a19eefb8f",
            ),
            (
                "",
                "87f864c11ba449f46a0a4f4e2eacbb7b0457784f4fca1937f572c93603e9c4d97e5ea11b16f3968710b23a3be3202dc1b5e1ce3c"
                "963347491e74f5c0768a9b42",
            ),
        ],
    ),
}


def ends(prologue: bytes = b"", *, seed: int = 1) -> tuple[Handshake, Handshake]:
    keys = [bytes([seed + index]) * 32 for index in range(4)]
    return (
        Handshake(initiator=True, static=keys[0], ephemeral=keys[1], prologue=prologue),
        Handshake(initiator=False, static=keys[2], ephemeral=keys[3], prologue=prologue),
    )


def finished() -> tuple[Handshake, Handshake]:
    one, other = ends()
    other.read(one.write())
    one.read(other.write())
    other.read(one.write())
    return one, other


@pytest.mark.parametrize("name", VECTORS)
def test_published_vectors_byte_for_byte(name: str) -> None:
    head, messages = VECTORS[name]
    prologue, static, ephemeral, other_static, other_ephemeral, digest = map(bytes.fromhex, head)
    one = Handshake(initiator=True, static=static, ephemeral=ephemeral, prologue=prologue)
    other = Handshake(initiator=False, static=other_static, ephemeral=other_ephemeral, prologue=prologue)
    for index, (payload, expected) in enumerate(messages[:3]):
        writer, reader = (one, other) if index % 2 == 0 else (other, one)
        written = writer.write(bytes.fromhex(payload))
        assert written.hex() == expected
        assert reader.read(written).hex() == payload
    assert one.hash == other.hash
    assert digest in (b"", one.hash)
    (one_sends, one_receives), (other_sends, other_receives) = one.split(), other.split()
    for index, (payload, expected) in enumerate(messages[3:], start=3):
        sends, receives = (one_sends, other_receives) if index % 2 == 0 else (other_sends, one_receives)
        sealed = sends.encrypt(bytes.fromhex(payload))
        assert sealed.hex() == expected
        assert receives.decrypt(sealed).hex() == payload


def test_both_learn_the_static_key_of_the_other() -> None:
    one, other = finished()
    assert one.remote and other.remote and one.remote != other.remote
    assert one.hash == other.hash


def test_another_prologue_is_another_handshake() -> None:
    one = Handshake(initiator=True, static=b"a" * 32, ephemeral=b"b" * 32, prologue=b"cluster one")
    other = Handshake(initiator=False, static=b"c" * 32, ephemeral=b"d" * 32, prologue=b"cluster two")
    other.read(one.write())
    with pytest.raises(RemoteProtocolError):
        one.read(other.write())


@pytest.mark.parametrize("place", [0, 31, 32, 60, 79, 80, -1])
def test_a_forged_second_message_changes_nothing(place: int) -> None:
    one, other = ends()
    other.read(one.write())
    second = other.write(b"payload")
    forged = bytearray(second)
    forged[place] ^= 1
    for bad in (bytes(forged), second[:-1], second[:40], b"", second + b"x"):
        with pytest.raises(RemoteProtocolError):
            one.read(bad)
        assert not one.remote and one.step == 1
    assert one.read(second) == b"payload"
    assert other.read(one.write(b"more")) == b"more"


def test_a_forged_third_message_changes_nothing() -> None:
    one, other = ends()
    other.read(one.write())
    one.read(other.write())
    third = one.write(b"me")
    for place in range(0, len(third), 7):
        forged = bytearray(third)
        forged[place] ^= 0x80
        with pytest.raises(RemoteProtocolError):
            other.read(bytes(forged))
        assert not other.remote
    assert other.read(third) == b"me"


def test_a_public_key_of_small_order_is_refused() -> None:
    one, other = ends()
    other.read(bytes(32))
    with pytest.raises(RemoteProtocolError):
        other.write()
    assert one.step == 0


def test_a_cipher_counts_only_what_is_authentic() -> None:
    send, receive = Cipher(b"k" * 32), Cipher(b"k" * 32)
    first, second = send.encrypt(b"first"), send.encrypt(b"second")
    for bad in (second, first[:-1], b""):
        with pytest.raises(RemoteProtocolError):
            receive.decrypt(bad)
    assert receive.decrypt(first) == b"first"
    with pytest.raises(RemoteProtocolError):
        receive.decrypt(first)
    assert receive.decrypt(second) == b"second"


def test_a_counter_is_never_used_up() -> None:
    cipher = Cipher(b"k" * 32)
    cipher.counter = COUNTER_MAX
    cipher.encrypt(b"the last")
    with pytest.raises(AssertionError):
        cipher.encrypt(b"one too many")


def test_rekey_keeps_both_ends_together_and_the_counter_going() -> None:
    send, receive, former = Cipher(b"k" * 32), Cipher(b"k" * 32), Cipher(b"k" * 32)
    send.rekey()
    receive.rekey()
    sealed = send.encrypt(b"text")
    with pytest.raises(RemoteProtocolError):
        former.decrypt(sealed)
    assert receive.decrypt(sealed) == b"text"
    assert send.counter == 1

"""Invitations: portable texts, signed with Ed25519, that let a node join a ring, or a new authority hang below it.

Implements: [Flows 3.1] (invitations). Deviations: Dw9 they are signed; the paper leaves that open.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from isotone.core.errors import InputError, MachineError
from isotone.flows.compiler import compile_text

HEAD = "isotone-flow-1:"
INVITATION_BYTES_MAX = 64 * 1024
KEY_FILE = "invitation.key"


class Invitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the paper's three elements come to: how to work (the program's name), the rules, where the authority is."""

    ring: str
    authority: str
    program: str


class _Signed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    body: bytes
    key: bytes
    signature: bytes


def load_key(directory: Path) -> Ed25519PrivateKey:
    """The key of an authority, made at its first start; only its owner can read it."""
    path = directory / KEY_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if path.exists():
            return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
        key = Ed25519PrivateKey.generate()
        path.touch(mode=0o600)
        path.write_bytes(key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))
    except OSError as error:
        raise MachineError(f"cannot use {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not a key: {error}") from error
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    """What others trust, as text."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def write_invitation(invitation: Invitation, key: Ed25519PrivateKey) -> str:
    """As one line of text."""
    body = msgspec.msgpack.encode(invitation)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return HEAD + base64.urlsafe_b64encode(msgspec.msgpack.encode(_Signed(body, public, key.sign(body)))).decode()


def read_invitation(text: str, trusted: str = "") -> Invitation:
    """The inverse. An `InputError` for what is forged or damaged, and for a signer other than the trusted one."""
    line = text.strip()
    if not line.startswith(HEAD) or len(line) > INVITATION_BYTES_MAX:
        raise InputError(f"not an invitation: it begins with {HEAD}")
    try:
        signed = msgspec.msgpack.decode(base64.urlsafe_b64decode(line[len(HEAD) :]), type=_Signed)
        Ed25519PublicKey.from_public_bytes(signed.key).verify(signed.signature, signed.body)
        invitation = msgspec.msgpack.decode(signed.body, type=Invitation)
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        raise InputError(f"not an invitation: {error}") from error
    except InvalidSignature:
        raise InputError("the signature of this invitation is wrong: it was changed on the way") from None
    if trusted and signed.key.hex() != trusted:
        raise InputError(f"this invitation is signed by {signed.key.hex()}, not by {trusted}")
    compile_text(invitation.program)
    return invitation

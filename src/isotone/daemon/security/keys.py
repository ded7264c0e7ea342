"""Who is who: the static key of a daemon, the keys of its cluster by list or by signature, and who is revoked.

Files are text and readable by their owner alone; public keys are text too, so that three lines of settings hold them.

Implements: DESIGN 3, names: a name is bound to a key, whatever the address.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from isotone.core.errors import InputError
from isotone.core.ids import DaemonId

PUBLIC, AUTHORITY, CERTIFICATE = "x25519:", "ed25519:", "isotone-cert:"
PRIVATE, AUTHORITY_PRIVATE = "x25519-private:", "ed25519-private:"
KEY_BYTES = 32
SIGNATURE_BYTES = 64


class KeyPair(msgspec.Struct, frozen=True):
    """The static key of one daemon."""

    private: bytes
    public: bytes

    @property
    def text(self) -> str:
        """The public key as it stands in settings."""
        return public_text(self.public)

    def __repr__(self) -> str:
        return f"KeyPair({self.text})"  # never the private half


class Authority(msgspec.Struct, frozen=True):
    """The key that signs the keys of a cluster's daemons; kept off the daemons."""

    private: bytes
    public: bytes

    @property
    def text(self) -> str:
        """The public key as it stands in settings."""
        return AUTHORITY + _encoded(self.public)

    def __repr__(self) -> str:
        return f"Authority({self.text})"


class Identity(msgspec.Struct, frozen=True):
    """What a daemon proves about itself."""

    me: DaemonId
    pair: KeyPair
    certificate: bytes = b""


class Roster(msgspec.Struct, frozen=True):
    """Whom a daemon believes. A listed key is the only one for its name; other names need a signature."""

    cluster: str
    listed: Mapping[str, bytes] = {}
    authority: bytes | None = None
    revoked: frozenset[str] = frozenset()
    """Names, or public keys as text."""

    def problem(self, name: str, public: bytes, certificate: bytes) -> str:
        """Why this key is not that of the daemon with this name; empty if it is."""
        if name in self.revoked or public_text(public) in self.revoked:
            return "revoked"
        known = self.listed.get(name)
        if known is not None:
            return "" if known == public else "wrong key"
        if self.authority is None:
            return "unknown daemon"
        if not _is_signed(self.authority, self.cluster, name, public, certificate):
            return "wrong certificate"
        return ""


# --- text ----------------------------------------------------------------------------------------------------------


def public_text(public: bytes) -> str:
    """A public key as it stands in settings."""
    return PUBLIC + _encoded(public)


def parse_public(text: str) -> bytes:
    """The inverse of `public_text`."""
    return _decoded(text, PUBLIC, KEY_BYTES, "a daemon's public key")


def parse_authority(text: str) -> bytes:
    """The public key of the cluster's authority."""
    return _decoded(text, AUTHORITY, KEY_BYTES, "the public key of an authority")


def parse_certificate(text: str) -> bytes:
    """The signature in a certificate."""
    return _decoded(text, CERTIFICATE, SIGNATURE_BYTES, "a certificate")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(text: str, prefix: str, size: int, what: str) -> bytes:
    try:
        data = base64.b64decode(text.strip().removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not text.strip().startswith(prefix) or len(data) != size:
        raise InputError(f"{what} is written {prefix}… with {size} bytes in base64; `isotone daemon keygen` makes one")
    return data


# --- signatures ----------------------------------------------------------------------------------------------------


def sign_key(authority: Authority, cluster: str, name: str, public: bytes) -> str:
    """The certificate of a daemon's key, as it stands in its settings."""
    signature = Ed25519PrivateKey.from_private_bytes(authority.private).sign(_statement(cluster, name, public))
    return CERTIFICATE + _encoded(signature)


def _statement(cluster: str, name: str, public: bytes) -> bytes:
    parts = (b"isotone daemon key 1", cluster.encode(), name.encode(), public)
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def _is_signed(authority: bytes, cluster: str, name: str, public: bytes, certificate: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(authority).verify(certificate, _statement(cluster, name, public))
    except (InvalidSignature, ValueError):
        return False
    return True


# --- files ---------------------------------------------------------------------------------------------------------


def pair_of(private: bytes) -> KeyPair:
    """The pair with this private half."""
    return KeyPair(private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def authority_of(private: bytes) -> Authority:
    """The same for an authority."""
    return Authority(private, Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def generate_key(path: Path | str, *, random: Callable[[int], bytes] = os.urandom) -> KeyPair:
    """Make a daemon's key and keep it in a file of its own; one that is there stays."""
    pair = pair_of(random(KEY_BYTES))
    _write_private(Path(path), f"# public: {pair.text}\n{PRIVATE}{_encoded(pair.private)}\n")
    return pair


def read_key(path: Path | str) -> KeyPair:
    """A daemon's key."""
    return pair_of(_decoded(_read_private(Path(path)), PRIVATE, KEY_BYTES, f"{path}: a daemon's private key"))


def generate_authority(path: Path | str, *, random: Callable[[int], bytes] = os.urandom) -> Authority:
    """Make the key that signs the keys of a cluster."""
    authority = authority_of(random(KEY_BYTES))
    _write_private(Path(path), f"# public: {authority.text}\n{AUTHORITY_PRIVATE}{_encoded(authority.private)}\n")
    return authority


def read_authority(path: Path | str) -> Authority:
    """The key that signs."""
    text = _read_private(Path(path))
    return authority_of(_decoded(text, AUTHORITY_PRIVATE, KEY_BYTES, f"{path}: an authority's private key"))


def _write_private(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} is there already; keys are not written over: choose another name") from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(file.fileno(), 0o600)  # whatever the mask of the process says
        file.write(text)


def _read_private(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise InputError(f"{path} can be read by others; `chmod 600 {path}` keeps it private")
            lines = file.read(4096).splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; `isotone daemon keygen` makes one") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a key file") from None
    return "".join(line for line in lines if line and not line.startswith("#"))

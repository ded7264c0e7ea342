"""Credentials of clients: a file with one line for each, which holds a salted digest and never the secret itself.

A line has five fields: id, principal, salt, digest, private names that it may use (patterns, with commas). A credential
is ``id.secret``; the secret has 144 random bits, so that one round of a fast digest is enough.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

import msgspec

from isotone.core.errors import InputError
from isotone.core.patterns import Patterns

SALT_BYTES, DIGEST_BYTES, SECRET_BYTES, ID_BYTES = 16, 32, 18, 6
CREDENTIAL_BYTES_MAX = 256
ANY_NAME = ("*",)


class Entry(msgspec.Struct, frozen=True):
    """One line of the file."""

    id: str
    principal: str
    salt: bytes
    digest: bytes
    names: tuple[str, ...] = ANY_NAME


class Credentials:
    """All of them, by id."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.id: entry for entry in entries}
        self._names = {entry.id: Patterns(entry.names) for entry in self._entries.values()}
        self._nobody = Entry("", "", bytes(SALT_BYTES), bytes(DIGEST_BYTES))

    def find(self, credential: bytes) -> Entry | None:
        """Whose credential it is. Takes as long for a wrong one as for a right one."""
        id, _, secret = credential[:CREDENTIAL_BYTES_MAX].partition(b".")
        entry = self._entries.get(id.decode("ascii", "replace"), self._nobody)
        is_right = hmac.compare_digest(_digest(entry.salt, secret), entry.digest)
        return entry if is_right and entry is not self._nobody else None

    def may_use(self, entry: Entry, name: str) -> bool:
        """Whether this private name is for the holder of this credential: any name is any that is not another's."""
        if entry.names != ANY_NAME:
            return self._names[entry.id].match(name)
        owners = self._owners(name)
        return not owners or entry.principal in owners

    def is_reserved(self, name: str) -> bool:
        """Whether this private name is for holders of certain credentials only."""
        return bool(self._owners(name))

    def _owners(self, name: str) -> list[str]:
        """Principals to whom the name was given."""
        entries = self._entries.values()
        return [each.principal for each in entries if each.names != ANY_NAME and self._names[each.id].match(name)]


def read_credentials(path: Path | str) -> Credentials:
    """The file; a line that cannot be understood is an error that names it."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a file of credentials: {error}") from None
    return Credentials(
        _entry(line, f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    )


def add_credential(
    path: Path | str,
    principal: str,
    names: tuple[str, ...] = ANY_NAME,
    *,
    random: Callable[[int], bytes] = os.urandom,
) -> str:
    """Add one to the file, which is made if it is not there; the credential itself is told once, here."""
    if not principal or any(character.isspace() for character in principal + "".join(names)):
        raise InputError("a principal and the names of a credential are written without spaces")
    id, secret = random(ID_BYTES).hex(), base64.urlsafe_b64encode(random(SECRET_BYTES))
    salt = random(SALT_BYTES)
    line = f"{id} {principal} {salt.hex()} {_digest(salt, secret).hex()} {','.join(names)}\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return f"{id}.{secret.decode('ascii')}"


def _entry(line: str, where: str) -> Entry:
    fields = line.split()
    try:
        id, principal, salt, digest, names = fields
        entry = Entry(id, principal, bytes.fromhex(salt), bytes.fromhex(digest), tuple(names.split(",")))
    except ValueError:
        raise InputError(f"{where}: a credential has five fields: id, principal, salt, digest, names") from None
    if len(entry.salt) != SALT_BYTES or len(entry.digest) != DIGEST_BYTES:
        raise InputError(f"{where}: salt and digest have {SALT_BYTES} and {DIGEST_BYTES} bytes")
    return entry


def _digest(salt: bytes, secret: bytes) -> bytes:
    return blake2b(secret, digest_size=DIGEST_BYTES, salt=salt).digest()

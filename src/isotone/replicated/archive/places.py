"""Where an archive is: its URI, and the file system behind it with what that needs from a credential file.

A URI travels through options that others see (Spark's user interface, logs, the command line), so one that holds a
secret is refused, by an error that does not repeat it.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from isotone.core.errors import InputError, MachineError

FILE_SYSTEMS = {
    "s3": "S3FileSystem",
    "gs": "GcsFileSystem",
    "gcs": "GcsFileSystem",
    "abfs": "AzureFileSystem",
    "abfss": "AzureFileSystem",
}
"""Those of `pyarrow.fs` that take a credential file, by the scheme of the URI."""
SECRETS = ("key", "secret", "token", "password", "credential", "signature")
"""A part of a URI's query whose name has one of these in it is one."""
EXPIRATION = "credential_token_expiration"


def require_pyarrow() -> Any:
    """The library, or what to do about its absence."""
    try:
        import pyarrow
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError:
        raise MachineError("an archive needs pyarrow: install isotone[trace]") from None
    return pyarrow


def check_no_secret(uri: str) -> None:
    """An `InputError` for a URI with a password or a key in it."""
    if "://" not in uri:
        return
    try:
        parts = urlsplit(uri)
        told = ["a password"] if parts.password is not None else []
    except ValueError:
        raise InputError("the URI of the archive cannot be read") from None
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    told += [name for name in names if any(secret in name.lower() for secret in SECRETS)]
    if told:
        raise InputError(
            f"the URI of an archive ({parts.scheme}://…) holds {', '.join(told)}, and others see it: in logs, and in "
            "the user interface of Spark. Write that into a credential file"
        )


def below(uri: str, folder: str) -> str:
    """The place of a folder in the archive at this URI; what stands behind a question mark is of the file system."""
    place, mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    return f"{place.rstrip('/')}/{folder}{mark}{query}"


def file_system(uri: str, credential_file: str) -> tuple[Any, str]:
    """The file system of this URI, and the path there."""
    arrow = require_pyarrow()
    check_no_secret(uri)
    arguments = _credentials(credential_file) if credential_file else {}
    try:
        if arguments:
            return _with_arguments(arrow, uri, arguments)
        if "://" not in uri:
            return arrow.fs.LocalFileSystem(), str(Path(uri).resolve())
        files, root = arrow.fs.FileSystem.from_uri(uri)
    except (OSError, TypeError, ValueError, arrow.ArrowException) as error:
        raise InputError(f"{uri!r} is no place for an archive: {str(error).splitlines()[0]}") from error
    return files, root.rstrip("/")


def _with_arguments(arrow: Any, uri: str, arguments: dict[str, Any]) -> tuple[Any, str]:
    parts = urlsplit(uri)
    if parts.scheme not in FILE_SYSTEMS:
        takers = ", ".join(f"{scheme}://" for scheme in FILE_SYSTEMS)
        raise InputError(f"{uri!r} takes no credential file: one is for {takers}")
    if EXPIRATION in arguments:
        arguments = arguments | {EXPIRATION: datetime.fromisoformat(arguments[EXPIRATION])}
    files = getattr(arrow.fs, FILE_SYSTEMS[parts.scheme])(**dict(parse_qsl(parts.query)), **arguments)
    # Azure has its container where others have a host: abfs://container@account…/folder.
    bucket = parts.username or parts.hostname or ""
    return files, f"{bucket}{parts.path}".rstrip("/")


def _credentials(path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise InputError(f"cannot read the credentials in {path}: {error.strerror}") from error
    except msgspec.MsgspecError:
        raise InputError(f"{path}: credentials are one JSON object with the arguments of the file system") from None

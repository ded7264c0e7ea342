"""The options of the data source ``isotone``, checked when they are given.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.core.errors import InputError
from isotone.replicated.archive.places import check_no_secret

KNOWN = {
    "archive": "a directory or URI with the archive of the log",
    "archiveCredentialFile": "a JSON file with the arguments of the archive's file system",
    "replica": "host:port of servers of the log, separated by commas",
    "credentialFile": "a file with the credential for the servers",
    "from": "the first position",
    "to": "the last position",
    "startingPosition": "of a stream: earliest, latest, or a position",
    "maxRecordsPerBatch": "of a stream: so many records in one micro-batch at most",
    "failOnDataLoss": "false: a stream goes on where what it wants was cut away; true: that is an error",
    "decode": "json or msgpack: records become the columns that 'columns' names",
    "columns": "names and types of decoded columns, as in 'user string, amount bigint'",
    "query": "of the sink: a name for what this query writes, the same at every start",
}
SPARKS = ("path", "checkpointlocation", "outputmode")
"""Options of Spark itself that reach a source."""
DECODERS = ("json", "msgpack")
EARLIEST, LATEST = "earliest", "latest"


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one source or sink, with their types."""

    archive: str = ""
    archive_credential_file: str = ""
    replicas: tuple[str, ...] = ()
    credential_file: str = ""
    first: int | None = None
    last: int | None = None
    starting: str | int = EARLIEST
    records_max: int | None = None
    fail_on_loss: bool = True
    decode: str = ""
    columns: str = ""
    query: str = ""


def parse_options(given: Mapping[str, str]) -> LogOptions:
    """From what a user wrote; an `InputError` names what is wrong."""
    spelt = {name.lower(): name for name in KNOWN}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in spelt and name.lower() not in SPARKS:
            raise InputError(f"the source isotone has no option {name!r}; it has {', '.join(KNOWN)}")
        found[spelt.get(name.lower(), name)] = value
    decode = found.get("decode", "")
    if decode not in ("", *DECODERS):
        raise InputError(f"option decode is {' or '.join(DECODERS)}, not {decode!r}")
    if bool(decode) != bool(found.get("columns")):
        raise InputError("the options decode and columns go together")
    options = LogOptions(
        archive=found.get("archive", "") or found.get("path", ""),
        archive_credential_file=found.get("archiveCredentialFile", ""),
        replicas=tuple(part.strip() for part in found.get("replica", "").split(",") if part.strip()),
        credential_file=found.get("credentialFile", ""),
        first=_position(found, "from"),
        last=_position(found, "to"),
        starting=_starting(found.get("startingPosition", EARLIEST)),
        records_max=_position(found, "maxRecordsPerBatch"),
        fail_on_loss=_truth(found, "failOnDataLoss"),
        decode=decode,
        columns=found.get("columns", ""),
        query=found.get("query", ""),
    )
    check_no_secret(options.archive)
    if not options.archive and not options.replicas:
        raise InputError("the source isotone needs the option archive, or replica, or both")
    if options.first is not None and options.last is not None and options.first > options.last:
        raise InputError(f"option from is {options.first}, behind to, which is {options.last}")
    return options


def _position(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise InputError(f"option {name} is a number from 1 on, not {text!r}")
    return int(text)


def _starting(text: str) -> str | int:
    if text in (EARLIEST, LATEST):
        return text
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise InputError(f"option startingPosition is earliest, latest or a position, not {text!r}")
    return int(text)


def _truth(found: Mapping[str, str], name: str) -> bool:
    text = found.get(name, "true").lower()
    if text not in ("true", "false"):
        raise InputError(f"option {name} is true or false, not {text!r}")
    return text == "true"

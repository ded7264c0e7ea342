"""What operators ask of a process of several data centres, and how: one line of JSON each way, acts signed.

The process sends a challenge; the signature is over that and the text of the act, so an act that was overheard is worth
nothing later. Questions need no signature.

Implements: [HAB 1], disasters are declared by people. Deviations: Dh9 their word is checked and recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from isotone.core.addresses import split_address
from isotone.core.errors import InputError, MachineError, RemoteProtocolError
from isotone.core.ordered_log import Refused
from isotone.daemon.security.keys import Authority
from isotone.host.hab_streams import OPERATOR_MAGIC, error_text

LINE_BYTES_MAX = 256 * 1024
STATEMENT = b"isotone centres act 1\0"
CONNECT_WITHIN_S = 3.0
ANSWER_WITHIN_S = 30.0


class Act(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``centre``: whom it concerns. ``life``: as status shows it, so that an old wish hits no new life."""

    what: Literal["found", "declare-lost", "withdraw", "handover", "rejoin"]
    centre: str
    life: int = 0
    override: bool = False


class Challenge(msgspec.Struct, frozen=True):
    """The first line, of the process."""

    process: str
    log: str
    challenge: bytes


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The line of the operator: an act with a signature, or the question how it stands."""

    act: str = ""
    operator: str = ""
    signature: bytes = b""


class Reply(msgspec.Struct, frozen=True):
    """The last line. ``outcome``: ``done``, ``waits`` or ``refused``."""

    outcome: Literal["done", "waits", "refused"]
    text: str
    status: dict[str, Any] = {}


def _statement(challenge: Challenge, act: str) -> bytes:
    parts = (challenge.log.encode(), challenge.process.encode(), challenge.challenge, act.encode())
    return STATEMENT + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def sign_act(challenge: Challenge, act: Act, operator: str, key: Authority) -> Wish:
    """The act as this operator's."""
    text = msgspec.json.encode(act).decode()
    signature = Ed25519PrivateKey.from_private_bytes(key.private).sign(_statement(challenge, text))
    return Wish(text, operator, signature)


def judge_act(challenge: Challenge, wish: Wish, operators: Mapping[str, bytes]) -> Act:
    """The act, if it is that operator's; else a `Refused` says why."""
    key = operators.get(wish.operator)
    if key is None:
        raise Refused(f"no operator is called {wish.operator!r} in the settings of this process")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(wish.signature, _statement(challenge, wish.act))
        return msgspec.json.decode(wish.act, type=Act)
    except (InvalidSignature, ValueError):
        raise Refused(f"the signature is not that of the operator {wish.operator}") from None


async def read_line(reader: asyncio.StreamReader, kind: type[Any]) -> Any:
    """One line as a struct."""
    try:
        return msgspec.json.decode(await reader.readuntil(b"\n"), type=kind)
    except (msgspec.MsgspecError, ValueError, asyncio.LimitOverrunError) as error:
        raise RemoteProtocolError(f"a malformed line: {error}") from None


def write_line(writer: asyncio.StreamWriter, value: object) -> None:
    """The inverse."""
    writer.write(msgspec.json.encode(value) + b"\n")


async def ask_process(address: str, act: Act | None = None, operator: str = "", key: Authority | None = None) -> Reply:
    """Ask the process at this address how it stands, or for an act; `MachineError` if it does not answer."""
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            reader, writer = await asyncio.open_connection(*split_address(address), limit=LINE_BYTES_MAX)
    except (OSError, TimeoutError) as error:
        raise MachineError(f"{address} cannot be reached: {error_text(error)}") from None
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            writer.write(OPERATOR_MAGIC)
            challenge = await read_line(reader, Challenge)
            wish = Wish()
            if act is not None:
                if key is None:
                    raise InputError("an act needs the key of an operator")
                wish = sign_act(challenge, act, operator, key)
            write_line(writer, wish)
            reply: Reply = await read_line(reader, Reply)
            return reply
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise MachineError(f"{address} does not answer: {error_text(error)}") from None
    finally:
        writer.close()

"""What a client hears that speaks no TLS where it has to: an answer in its own protocol, and then the end."""

from __future__ import annotations

from isotone.core.errors import RemoteProtocolError
from isotone.core.versions import PROTOCOL_VERSIONS
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.greeting import CLIENT_MAGIC, GREETING_BYTES, pack_answer, read_greeting
from isotone.evs.sessions.messages import EndCode, Farewell, server_codec

WITHOUT_TLS = "clients come by TLS here"


def farewell_to(begun: bytes) -> bytes | None:
    """For a stream that begins so: what to write before it is closed; None while its greeting is not whole."""
    if not begun.startswith(CLIENT_MAGIC[: len(begun)]):
        return b""
    if len(begun) < GREETING_BYTES:
        return None
    try:
        answer, version = pack_answer(PROTOCOL_VERSIONS, read_greeting(begun[:GREETING_BYTES]))
    except RemoteProtocolError:
        return b""
    if version is None:
        return answer
    return answer + control_frame(server_codec.encode(Farewell(EndCode.REFUSED, WITHOUT_TLS)))

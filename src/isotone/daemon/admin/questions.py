"""Questions that an operator asks of a daemon, from text to answer: message, view, exclusion.

A message is a stamp (``120!d1#3``) or a client's id with the session sequence (``#alice#d1#3#17:5``).
"""

from __future__ import annotations

from collections.abc import Mapping

from isotone.core.errors import InputError, RemoteProtocolError
from isotone.core.ids import MessageId, Stamp, parse_client_id, parse_daemon_id
from isotone.evs.explain import ExclusionAnswer, MessageAnswer, ViewAnswer, why_excluded, why_no_view, why_not_delivered
from isotone.evs.stack import Stack

Answer = MessageAnswer | ViewAnswer | ExclusionAnswer

QUESTIONS = ("message", "view", "exclusion")
NUMBER_DIGITS_MAX = 19


def answer(stack: Stack, fields: Mapping[str, str], at: int) -> Answer:
    """The answer to what ``question`` and its fields ask; raises `InputError`."""
    question = fields.get("question", "")
    known = {"message": {"question", "message"}, "view": {"question"}, "exclusion": {"question", "daemon"}}
    if question not in known:
        raise InputError(f"question is one of {', '.join(QUESTIONS)}, not {question!r}")
    wrong = sorted(known[question].symmetric_difference(fields))
    if wrong:
        raise InputError(f"a question about {question} has the fields {', '.join(sorted(known[question]))}")
    if question == "message":
        return why_not_delivered(stack, parse_message(fields["message"]), at)
    if question == "exclusion":
        return why_excluded(stack, fields["daemon"].partition("#")[0], at)
    return why_no_view(stack, at)


def parse_message(text: str) -> Stamp | MessageId:
    """A stamp, or a client's id with a sequence."""
    try:
        if text.startswith("#"):
            client, _, sequence = text.rpartition(":")
            return MessageId(parse_client_id(client), _natural(sequence))
        lamport, _, daemon = text.partition("!")
        return Stamp(_natural(lamport), parse_daemon_id(daemon))
    except RemoteProtocolError as error:
        raise InputError(
            f"not a message: {text!r}; write a stamp, 120!d1#3, or a client and its sequence, \
#alice#d1#3#17:5"
        ) from error


def _natural(digits: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > NUMBER_DIGITS_MAX:
        raise RemoteProtocolError(f"not a number: {digits!r}")
    return int(digits)

"""The journal: every event handed to a stack, in order, so that replaying it yields the same actions byte for byte.

A file of records (`isotone.trace.records`): a header, then one record per event, MessagePack ``[label, tree]`` with
the event as a tree (`isotone.trace.tree`); the label says which automaton of the process got it. Events of the
contract and of boundary B4 are known; other packages make theirs known with `register_events`. A journal replays on
the version of the code that wrote it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from isotone.core import boundary, contract
from isotone.core.contract import Action, Automaton, Event
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.trace.records import END, TornTail, frame, preamble, read_preamble, read_records
from isotone.trace.tree import Names, to_tree

JOURNAL_VERSION = 1
MAGIC = b"ISOJOURN"
_BUFFER_BYTES = 64 * 1024
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_NAMES = Names()


def register_events(*classes: type[Event]) -> None:
    """Make event classes known to `read_journal`, with all that their fields name; again is no harm."""
    for each in classes:
        if not issubclass(each, Event):
            raise LocalProtocolError(f"{each.__name__} is not an event")
    _NAMES.register(*classes)


def _events_in(module: Any) -> list[type[Event]]:
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Event)]
    return [each for each in found if each is not Event and each.__module__ == module.__name__]


register_events(*_events_in(contract), *_events_in(boundary))


class JournalWriter:
    """Appends events to a file. A machine that refuses ends the journal, never the protocol: see ``problem``."""

    def __init__(self, path: Path) -> None:
        self.problem = ""
        self._buffer = bytearray(preamble(MAGIC, JOURNAL_VERSION))
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise MachineError(f"{path}: cannot write the journal: {error.strerror}") from None

    def append(self, label: str, event: Event) -> None:
        """Add an event that is handed to the automaton of this label; written when there is enough, or on flush."""
        if self.problem:
            return
        try:
            self._buffer += frame(_encode([label, to_tree(event)]))
        except (ValueError, OverflowError, LocalProtocolError) as error:
            self.flush()
            self.problem = f"{type(event).__name__} cannot be written: {error}"
            return
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand all to the kernel. After an error nothing more is written, since a journal with a hole is none."""
        try:
            while self._buffer and not self.problem:
                del self._buffer[: os.write(self._descriptor, self._buffer)]
        except OSError as error:
            self.problem = str(error)
            self._buffer.clear()

    def abandon(self) -> None:
        """Give the file back without the mark of its end."""
        self.flush()
        os.close(self._descriptor)

    def close(self) -> None:
        """Mark the clean end."""
        self._buffer += frame(END)
        self.flush()
        os.close(self._descriptor)


def read_journal(path: Path, *, on_torn: Callable[[str], None] | None = None) -> Iterator[tuple[str, Event]]:
    """The events with their labels. One that was not closed is an error at its end, unless ``on_torn`` takes it."""
    try:
        with path.open("rb") as file:
            version = read_preamble(file, MAGIC, str(path), "a journal")
            if version != JOURNAL_VERSION:
                raise InputError(f"{path}: journal version {version} is unknown here, only {JOURNAL_VERSION} is known")
            for body in read_records(file):
                if body == END:
                    if not file.read(1):
                        return
                    raise TornTail("bytes behind its end")
                yield _event(body, path)
        torn = "the writer did not close it"
    except TornTail as tail:
        torn = str(tail)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if on_torn is None:
        raise InputError(f"{path}: the journal is not whole: {torn}")
    on_torn(torn)


def encode_actions(actions: Iterable[Action]) -> bytes:
    """The canonical bytes of actions: equal for equal actions, different for different ones."""
    return _encode([to_tree(action, canonical=True) for action in actions])


def replay(automaton: Automaton, events: Iterable[Event]) -> bytes:
    """Hand the events to the automaton and return the digest of all it did, event by event."""
    digest = blake2b(digest_size=32)
    for event in events:
        digest.update(frame(encode_actions(automaton.handle(event))))
    return digest.digest()


def _event(body: bytes, path: Path) -> tuple[str, Event]:
    try:
        label, tree = _decode(body)
        event = _NAMES.from_tree(tree)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not an event: {error}") from None
    if not isinstance(event, Event) or not isinstance(label, str):
        raise InputError(f"{path}: not an event: {type(event).__name__}")
    return label, event

"""The journal of a running daemon: every event that its stack gets, so that a replay does the same, byte for byte.

Optional, for finding out what happened: it costs about as much as the protocol itself. Written to the kernel after
every wake-up; a disk that refuses ends the journal and never the daemon. `isotone.sim.stack_journal` replays it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from isotone.core import boundary as b4
from isotone.core.contract import Action, Address, Event
from isotone.core.errors import MachineError
from isotone.core.ids import DaemonId
from isotone.daemon.engine import Engine, Lane
from isotone.evs.sessions.admission import Admit, Admitted, Denied
from isotone.evs.sessions.handing import Permit
from isotone.evs.sessions.settings import ServerSettings
from isotone.evs.stack import StackSettings
from isotone.sim.stack_journal import (
    NODE_LABEL,
    STACK_LABEL,
    Acted,
    Composed,
    Digest,
    Judged,
    Numbered,
    pack_settings,
)
from isotone.trace.journal import JournalWriter

log = logging.getLogger("isotone.daemon")

SUFFIX = ".journal"


class Journal:
    """Of one incarnation."""

    def __init__(self, writer: JournalWriter, me: DaemonId, identity: bytes, address: Address) -> None:
        self._writer, self._me, self._identity, self._address = writer, me, identity, address
        self._digest = Digest()
        self._at = 0
        self._told = 0  # events up to the last digest in the file
        self._stack: Lane | None = None
        self._complained = False

    @classmethod
    def begin(cls, directory: Path, me: DaemonId, *, identity: bytes, address: Address) -> Journal:
        """A new file in this directory."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"cannot make {directory}: {error.strerror}") from error
        return cls(JournalWriter(directory / f"{me.name}-{me.incarnation}{SUFFIX}"), me, identity, address)

    def compose(self, *, site: str, stack: StackSettings, sessions: ServerSettings, secret: bytes) -> None:
        """What the stack is made of."""
        composed = Composed(
            0, str(self._me), self._identity, site, self._address, pack_settings(stack), pack_settings(sessions), secret
        )
        self._writer.append(NODE_LABEL, composed)

    def judging(self, admit: Admit, permit: Permit) -> tuple[Admit, Permit]:
        """The same judges, with their answers written down."""

        def admitted(name: str, credential: bytes, peer: Address) -> Admitted | Denied:
            answer = admit(name, credential, peer)
            denied = isinstance(answer, Denied)
            principal = "" if denied else cast(Admitted, answer).principal
            reason = (cast(Denied, answer).reason or "denied") if denied else ""
            self._writer.append(NODE_LABEL, Judged(self._at, principal, reason))
            return answer

        def permitted(principal: str, request: b4.Request) -> str:
            reason = permit(principal, request)
            self._writer.append(NODE_LABEL, Judged(self._at, principal, reason))
            return reason

        return admitted, permitted

    def attach(self, engine: Engine, stack: Lane) -> None:
        """Write down all that this lane gets from now on."""
        self._stack = stack
        engine.before = self._before
        engine.after.insert(0, self._after)
        engine.when_drained.append(self._flush)

    def numbered(self, at: int, name: str) -> None:
        """Somebody beside the stack took the next number of a session."""
        self._writer.append(NODE_LABEL, Numbered(at, name))

    def close(self, *, clean: bool) -> None:
        """Mark the end, or leave it as a kill would."""
        self._flush(self._at)
        self._stack = None
        if clean:
            self._writer.close()
        else:
            self._writer.abandon()

    def _before(self, lane: Lane, event: Event) -> None:
        if lane is self._stack:
            self._at = event.at
            self._writer.append(STACK_LABEL, event)

    def _after(self, lane: Lane, event: Event, actions: Sequence[Action]) -> None:
        del event
        if lane is self._stack:
            self._digest.add(list(actions))

    def _flush(self, at: int) -> None:
        """At the end of every wake-up: so a kill loses nothing that was handled in an earlier one."""
        if self._stack is None or self._digest.handled == self._told:
            return
        self._told = self._digest.handled
        self._writer.append(NODE_LABEL, Acted(at, self._told, self._digest.value))
        self._writer.flush()
        if self._writer.problem and not self._complained:
            self._complained = True
            log.error("daemon %s: the journal ends here: %s", self._me, self._writer.problem)

"""What can be set for a client."""

from __future__ import annotations

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.evs.sessions.settings import MIB, ClientSettings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one `Session`; `session` has those of the protocol below."""

    session: ClientSettings = ClientSettings()
    inbox_bytes_max: int = 8 * MIB
    """Events that the program did not read yet; above it, nothing more is read from the daemon."""
    overrun_bytes_max: int = 32 * MIB
    """The same while the program waits for its daemon, which needs reading; above it, the waiting fails."""
    private_unread_max: int = MIB
    """Bytes of private messages and notices for a program that never looked at `Session.events()`; the oldest go."""
    reconnect_within_s: float = 300.0
    """How long to look for a daemon for the next session after one ended; 0: never."""
    wait_for_daemon_s: float = 0.0
    """How long the first session looks for a daemon where nobody listens: 0 fails at once, more says so in the log and
    tries again."""
    resume_within_s: float = 3.0
    """How long to look for the daemon of a session whose stream broke, when others are named too; then one of them
    opens another session, and what happened in between is missed. Nothing is missed with the old one."""
    pause_max_s: float = 2.0
    """Between two attempts to open it."""
    close_within_s: float = 5.0
    """How long closing waits for the daemon to take what was sent before."""
    server_name: str = ""
    """The name in the daemon's certificate, when it is not the host of the address."""

    def __post_init__(self) -> None:
        if not 0 < self.inbox_bytes_max <= self.overrun_bytes_max:
            raise LocalProtocolError("overrun_bytes_max is at least inbox_bytes_max, which is above 0")
        times = (self.reconnect_within_s, self.resume_within_s, self.pause_max_s, self.close_within_s)
        if min(*times, self.wait_for_daemon_s, self.private_unread_max) < 0:
            raise LocalProtocolError("times and bounds are not negative")

"""Whether a master of Spark is there at all: Spark itself says so only after more than a minute.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import socket

from isotone.core.errors import InputError, MachineError

SPARK = "spark://"
ANSWER_WITHIN_S = 10.0


def require_master(master: str, *, within_s: float = ANSWER_WITHIN_S) -> None:
    """Of a standalone cluster one of its masters must answer; all other places are Spark's affair."""
    if not master.startswith(SPARK):
        return
    places = [place.rpartition(":") for place in master.removeprefix(SPARK).split(",")]
    if not all(host and port.isascii() and port.isdigit() for host, _, port in places):
        raise InputError(f"no place for Spark: {master!r}; write spark://HOST:PORT, several with commas between")
    reasons = []
    for host, _, port in places:
        try:
            socket.create_connection((host.strip("[]"), int(port)), within_s).close()
            return
        except (OSError, OverflowError, UnicodeError) as error:
            reasons.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
    raise MachineError(f"no master of Spark answers at {master} ({'; '.join(reasons)})")

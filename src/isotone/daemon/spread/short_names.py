"""Short forms of names that are too long for Spread's clients, and the way back.

Names of native clients and groups have up to 64 bytes, a name in Spread's frames 31, and in it a client 10 and a daemon
19. A longer part is told as its beginning, ``~`` and five digits of a digest: ``#inventory-service#d1`` is told like
``#inve~3f2c9#d1``. What a Spread client sends to a short form that this daemon has told goes to whom it stands for.

Implements: Spread's client protocol, names. Deviations: D-short those short forms, which Spread does not need.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from isotone.core.names import PRIVATE_GROUP_MARK, is_private_group
from isotone.daemon.spread.constants import DAEMON_NAME_MAX, NAME_MAX, PRIVATE_NAME_MAX

DIGITS = 5
KNOWN_MAX = 4_096
"""Short forms that a daemon remembers; beyond it the oldest are forgotten, and what is sent to them reaches nobody."""


@lru_cache(1_024)
def short_name(name: str) -> str:
    """The name itself if it fits into a slot, else its short form."""
    if len(name) <= NAME_MAX and not is_private_group(name):
        return name
    if not is_private_group(name):
        return _cut(name, NAME_MAX)
    client, _, daemon = name[1:].partition(PRIVATE_GROUP_MARK)
    return f"#{_cut(client, PRIVATE_NAME_MAX)}#{_cut(daemon, DAEMON_NAME_MAX)}"


def _cut(part: str, length_max: int) -> str:
    if len(part) <= length_max:
        return part
    digest = blake2b(part.encode("ascii"), digest_size=8).hexdigest()
    return f"{part[: length_max - DIGITS - 1]}~{digest[:DIGITS]}"


class ShortNames:
    """What the short forms stand for that were told here."""

    def __init__(self) -> None:
        self._full: dict[str, str] = {}  # by short form, the oldest first; at most KNOWN_MAX

    def note(self, name: str) -> None:
        """Remember what a short form stands for, if the name needs one."""
        short = short_name(name)
        if short == name:
            return
        self._full.pop(short, None)
        self._full[short] = name
        if len(self._full) > KNOWN_MAX:
            del self._full[next(iter(self._full))]

    def full_name(self, name: str) -> str:
        """The name that a short form stands for; any other name is its own."""
        return self._full.get(name, name)

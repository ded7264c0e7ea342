"""The services a message may ask for, weakest first.

Implements: [Spread 2.2.3.2]. Deviations: Dc CAUSAL is a service of its own between FIFO and AGREED, because treating it
as AGREED makes it wait for silent sites; UNRELIABLE stands below the hierarchy and owes 2.1, 2.5 and 2.6 only.
"""

from __future__ import annotations

from enum import IntEnum


class Service(IntEnum):
    """What a message is promised, the least first; each from RELIABLE on keeps the promises of those before it.

    docs/guide/services.md has a table. The letters R < F < C < A < S are those of the paper.
    """

    UNRELIABLE = 0
    RELIABLE = 1
    FIFO = 2
    CAUSAL = 3
    AGREED = 4
    SAFE = 5

    @property
    def is_reliable(self) -> bool:
        """[Spread 2.10]."""
        return self >= Service.RELIABLE

    @property
    def is_fifo(self) -> bool:
        """[Spread 2.11.1]."""
        return self >= Service.FIFO

    @property
    def is_causal(self) -> bool:
        """[Spread 2.12.1] with C of its own."""
        return self >= Service.CAUSAL

    @property
    def is_agreed(self) -> bool:
        """[Spread 2.13.1]."""
        return self >= Service.AGREED

    @property
    def is_safe(self) -> bool:
        """[Spread 2.14.1]."""
        return self is Service.SAFE

"""What settings of the simulated world may be: probabilities from 0 to 1, amounts that are not negative."""

from __future__ import annotations

from collections.abc import Iterable

from isotone.core.errors import LocalProtocolError


def check_ranges(settings: object, *, probabilities: Iterable[str], amounts: Iterable[str]) -> None:
    """Raise for the first setting out of its range, naming it."""
    for name in probabilities:
        value = getattr(settings, name)
        if not 0 <= value <= 1:
            raise LocalProtocolError(f"{name} is a probability, from 0 to 1, not {value}")
    for name in amounts:
        value = getattr(settings, name)
        if value < 0:
            raise LocalProtocolError(f"{name} cannot be negative: {value}")

"""Who a process is: the home that its id names, and the name that stays over sessions. As `isotone.spec` has it."""

from __future__ import annotations

from functools import lru_cache

CLIENTS, DAEMONS = 0, 1
_CLIENT_PARTS = 5


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@lru_cache(maxsize=65536)
def home(boundary: int, text: str) -> tuple[str, int]:
    """Node and incarnation; -1 where the text names none."""
    if boundary == DAEMONS:
        name, sign, number = text.rpartition("#")
        return (name if sign else "", int(number) if _is_number(number) else -1)
    parts = text.split("#")
    if len(parts) == _CLIENT_PARTS and _is_number(parts[3]):
        return parts[2], int(parts[3])
    return "", -1


@lru_cache(maxsize=65536)
def lasting_name(boundary: int, text: str) -> str:
    """What stays over sessions and incarnations."""
    if boundary == DAEMONS:
        return text.rpartition("#")[0]
    parts = text.split("#")
    if len(parts) == _CLIENT_PARTS and _is_number(parts[3]):
        return f"#{parts[1]}#{parts[2]}"
    return text

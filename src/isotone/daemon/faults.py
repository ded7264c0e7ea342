"""Faults on purpose, for tests and drills: traffic with named daemons is cut, delayed or dropped by this daemon.

Only where the settings enable it. A cut works on what is sent and on what arrives; a stream with a daemon that is cut
stands still until it is mended. A stream that the other one opened is found by its host, where it is alone there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.daemon.offload import Parts

DELAY_US_MAX = 60_000_000
DELAYED_MAX = 10_000  # batches under way


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to traffic with one daemon."""

    daemon: str
    cut: bool = False
    receive_only: bool = False
    """Of a cut: what we send is lost, what it sends arrives."""
    send_only: bool = False
    delay_us: int = 0
    """Of what we send."""
    drop: float = 0.0
    """The share of batches that we send and that are lost."""

    @property
    def told(self) -> str:
        """In words, for logs and traces."""
        way = " sending" if self.receive_only else " receiving" if self.send_only else ""
        parts = [f"cut{way}"] * self.cut + [f"delay {self.delay_us} us"] * bool(self.delay_us)
        return f"{self.daemon}: {', '.join(parts + [f'drop {self.drop:g}'] * bool(self.drop)) or 'nothing'}"


class Faults:
    """The rules that stand now."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        name_of: Callable[[Address], str],
        is_known: Callable[[str], bool],
        send: Callable[[Address, Sequence[Parts]], None],
        changed: Callable[[], None],
    ) -> None:
        self.dropped = 0
        self.delayed = 0
        self.standing: dict[str, FaultRule] = {}
        self._loop, self._name_of, self._is_known = loop, name_of, is_known
        self._send, self._changed = send, changed
        self._random = Random(0)
        self._under_way = 0

    # --- what administration asks ----------------------------------------------------------------------------------

    def rules(self) -> list[FaultRule]:
        """Those that stand."""
        return list(self.standing.values())

    def replace(self, rules: Sequence[FaultRule]) -> None:
        """These and no others; all or nothing."""
        for rule in rules:
            if not self._is_known(rule.daemon):
                raise InputError(f"no daemon {rule.daemon!r} is known here")
            if not 0 <= rule.delay_us <= DELAY_US_MAX or not 0.0 <= rule.drop <= 1.0:
                raise InputError(f"{rule.daemon}: a delay is at most {DELAY_US_MAX} us, a share is from 0 to 1")
        self.standing = {rule.daemon: rule for rule in rules}
        self._changed()

    def cut(self, *names: str) -> None:
        """Cut these besides what stands."""
        self.replace([*(self.standing | {name: FaultRule(daemon=name, cut=True) for name in names}).values()])

    def heal(self) -> None:
        """None stands any more."""
        self.replace([])

    # --- what traffic meets ----------------------------------------------------------------------------------------

    def takes(self, destination: Address, datagrams: Sequence[Parts]) -> bool:
        """Whether a fault takes what is sent there."""
        rule = self.standing.get(self._name_of(destination)) if self.standing else None
        if rule is None:
            return False
        lost = rule.drop and self._random.random() < rule.drop
        if lost or (rule.cut and not rule.send_only) or self._under_way >= DELAYED_MAX:
            self.dropped += len(datagrams)
            return True
        if not rule.delay_us:
            return False
        self.delayed += len(datagrams)
        self._under_way += 1
        self._loop.call_later(rule.delay_us / 1e6, self._send_late, destination, datagrams)
        return True

    def _send_late(self, destination: Address, datagrams: Sequence[Parts]) -> None:
        self._under_way -= 1
        self._send(destination, datagrams)

    def loses(self, source: Address) -> bool:
        """Whether a fault takes what came from there."""
        rule = self.standing.get(self._name_of(source)) if self.standing else None
        if rule is None or not rule.cut or rule.receive_only:
            return False
        self.dropped += 1
        return True

    def is_cut(self, address: Address) -> bool:
        """Whether streams with this address stand still."""
        rule = self.standing.get(self._name_of(address)) if self.standing else None
        return rule is not None and rule.cut

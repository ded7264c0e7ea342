"""A replicated dict: keys are text; reads are linearizable unless asked otherwise; changes can be watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from isotone.replicated.caller import Caller, Encoding, ReplicatedObject, checked_key
from isotone.replicated.dict_state import DictState
from isotone.replicated.errors import ChangesForgotten


class Changed(msgspec.Struct, frozen=True):
    """A key was set or, where ``deleted``, deleted; ``revision`` is the place in the order."""

    revision: int
    key: str
    value: Any
    deleted: bool = False


class ReplicatedDict(ReplicatedObject):
    """``of``: the type of values, for `msgspec`; `bytes` keeps them as they are."""

    kind = "dict"

    def __init__(self, caller: Caller, name: str, of: type[Any] | None = None) -> None:
        super().__init__(caller, name)
        self._encoding = Encoding(of)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Any, *, owned: bool = False, within_s: float | None = None) -> int:
        """Set a key; its new revision. ``owned``: it is deleted when this program's session ends."""
        encoded = self._encoding.encode(value)
        return int((await self._call("set", checked_key(key), encoded, owned, within_s=within_s)).value)

    async def delete(self, key: str, *, within_s: float | None = None) -> bool:
        """Delete a key; whether it was there."""
        return bool((await self._call("delete", checked_key(key), within_s=within_s)).value)

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, within_s: float | None = None) -> bool:
        """Set the key if it has this value; None stands for a key that is not there. Whether it was set."""
        known = None if expected is None else self._encoding.encode(expected)
        encoded = self._encoding.encode(value)
        reply = await self._call("compare_and_set", checked_key(key), known, encoded, within_s=within_s)
        return bool(reply.value)

    async def transact(
        self,
        *,
        when: Mapping[str, Any] | None = None,
        revisions: Mapping[str, int] | None = None,
        then: Mapping[str, Any],
        otherwise: Mapping[str, Any] | None = None,
        within_s: float | None = None,
    ) -> bool:
        """Several keys at one place in the order. If every key of ``when`` has its value and every key of ``revisions``
        its revision (0: not there), all of ``then`` is set, else all of ``otherwise``; None deletes. Whether it held.
        """
        conditions: list[list[Any]] = [
            ["value", checked_key(key), self._maybe(value)] for key, value in (when or {}).items()
        ]
        conditions += [["revision", checked_key(key), int(number)] for key, number in (revisions or {}).items()]
        operations = [
            [[checked_key(key), self._maybe(value)] for key, value in wanted.items()]
            for wanted in (then, otherwise or {})
        ]
        reply = await self._call("transact", conditions, *operations, within_s=within_s)
        return bool(reply.value[0])

    def _maybe(self, value: Any) -> bytes | None:
        return None if value is None else self._encoding.encode(value)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def get(
        self,
        key: str,
        default: Any = None,
        *,
        stale_ok: bool = False,
        at_least: int | None = None,
        within_s: float | None = None,
    ) -> Any:
        """The value. By default behind everything that was ordered before; ``stale_ok``: as it is known here;
        ``at_least``: as soon as this position is known here, such as the revision of one's own `set`.
        """
        value = await self._read(
            "get",
            checked_key(key),
            lambda: self._value(key),
            stale_ok=stale_ok,
            at_least=at_least,
            within_s=within_s,
        )
        return default if value is None else self._encoding.decode(value)

    def _value(self, key: str) -> bytes | None:
        entry = self._state(DictState).entries.get(key)
        return None if entry is None else entry.value

    async def items(
        self, prefix: str = "", *, stale_ok: bool = False, at_least: int | None = None, within_s: float | None = None
    ) -> dict[str, Any]:
        """All keys that begin so, with their values, sorted by key: at one place in the order."""
        found = await self._read(
            "items",
            prefix,
            lambda: self._state(DictState).values(prefix),
            stale_ok=stale_ok,
            at_least=at_least,
            within_s=within_s,
        )
        return {key: self._encoding.decode(value) for key, value in found.items()}

    async def revision(self, key: str, *, stale_ok: bool = False, within_s: float | None = None) -> int:
        """The revision of a key, 0 if it is not there."""
        await self._caller.go_behind(stale_ok=stale_ok, within_s=within_s)
        entry = self._state(DictState).entries.get(checked_key(key))
        return 0 if entry is None else entry.revision

    async def watch(self, prefix: str = "", *, after: int | None = None) -> AsyncIterator[Changed]:
        """Changes behind this revision (else from now on) of keys that begin so, in their order, each once.

        `ChangesForgotten` if they are not kept any more; the last 1,024 are.
        """
        seen = self._caller.machine.state.position if after is None else after
        known = self._state(DictState)
        while True:
            position, current = self._caller.machine.state.position, self._state(DictState)
            gone = known.removed_at
            for state, until in ((known, gone), (current, 0)) if gone else ((current, 0),):
                if seen < state.forgotten:
                    raise ChangesForgotten(
                        f"changes of {self.name} behind revision {seen} are not kept; the oldest kept is behind "
                        f"{state.forgotten}: read items() and watch from there"
                    )
                for change in [each for each in state.changes if each.revision > seen and each.key.startswith(prefix)]:
                    gone = change.value is None
                    value = None if change.value is None else self._encoding.decode(change.value)
                    yield Changed(change.revision, change.key, value, gone)
                seen = max(seen, until)
            known, seen = current, max(seen, position)
            await self._caller.applied_beyond(position)

"""The state of a replicated dict: entries with revisions, conditions, and the last changes for those who watch."""

from __future__ import annotations

from typing import Any

import msgspec

from isotone.replicated.outcome import CommandRefused, Context
from isotone.replicated.sorted_keys import SortedKeys

CHANGES_MAX = 1024
CHANGES_BYTES_MAX = 4 * 1024 * 1024
ENTRIES_MAX = 4_000_000
OPERATIONS_MAX = 1024


class Entry(msgspec.Struct, array_like=True, gc=False):
    """A value, the position of the record that set it, and the session that it belongs to, if any."""

    value: bytes
    revision: int
    owner: int = 0


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key was set, or deleted if there is no value."""

    revision: int
    key: str
    value: bytes | None


class DictState(msgspec.Struct, tag="dict", dict=True):
    """Of one dict. What finds keys by order or owner is made when it is first needed and is no part of the state."""

    entries: dict[str, Entry] = {}
    changes: list[Change] = []  # the last ones
    changes_bytes: int = 0
    forgotten: int = 0  # changes up to this revision are not kept
    removed_at: int = 0  # of one that is in no state any more, for those who watch it

    def apply(self, context: Context, method: str, arguments: tuple[Any, ...]) -> Any:
        """Set, delete, compare and set, or a transaction."""
        match method, arguments:
            case "set", (str(key), bytes(value), bool(owned)):
                return self._set(context, key, value, owned=owned)
            case "delete", (str(key),):
                return self._delete(context, key)
            case "compare_and_set", (str(key), expected, bytes(value)) if expected is None or type(expected) is bytes:
                entry = self.entries.get(key)
                if (None if entry is None else entry.value) != expected:
                    return False
                self._set(context, key, value)
                return True
            case "transact", (list() as conditions, list() as then, list() as otherwise):
                return self._transact(context, conditions, then, otherwise)
        raise CommandRefused(f"a dict has no command {method} with these arguments")

    def _set(self, context: Context, key: str, value: bytes, *, owned: bool = False) -> int:
        known = self.entries.get(key)
        if known is None and len(self.entries) >= ENTRIES_MAX:
            raise CommandRefused(f"the dict is full: {ENTRIES_MAX} keys")
        entry = self.entries[key] = Entry(value, context.position, context.session if owned else 0)
        self._index(key, known, entry)
        self._note(Change(context.position, key, value))
        return context.position

    def _delete(self, context: Context, key: str) -> bool:
        known = self.entries.pop(key, None)
        if known is None:
            return False
        self._index(key, known, None)
        self._note(Change(context.position, key, None))
        return True

    def _transact(self, context: Context, conditions: list[Any], then: list[Any], otherwise: list[Any]) -> list[Any]:
        """All conditions hold and all of ``then`` happens, or all of ``otherwise`` does: at one place of the order."""
        if max(len(conditions), len(then), len(otherwise)) > OPERATIONS_MAX:
            raise CommandRefused(f"a transaction has at most {OPERATIONS_MAX} conditions and operations")
        holds = all(self._holds(each) for each in conditions)
        operations = then if holds else otherwise
        for each in operations:  # before anything changes
            if not (isinstance(each, list) and len(each) == 2 and isinstance(each[0], str)):
                raise CommandRefused("an operation of a transaction is a key and a value, or None to delete it")
        new = {key for key, value in operations if value is not None} - self.entries.keys()
        if len(self.entries) + len(new) > ENTRIES_MAX:
            raise CommandRefused(f"the dict is full: {ENTRIES_MAX} keys")
        for key, value in operations:
            if value is None:
                self._delete(context, key)
            else:
                self._set(context, key, bytes(value))
        return [holds, context.position]

    # --- by order and by owner ---------------------------------------------------------------------------------------

    def values(self, prefix: str) -> dict[str, bytes]:
        """Of the keys that begin so, in their order."""
        keys = self.__dict__.get("keys")
        if keys is None:
            keys = self.__dict__["keys"] = SortedKeys(self.entries)
        return {key: self.entries[key].value for key in keys.beginning(prefix)}

    def _owned(self) -> dict[int, set[str]]:
        owned: dict[int, set[str]] | None = self.__dict__.get("owned")
        if owned is None:
            owned = self.__dict__["owned"] = {}
            for key, entry in self.entries.items():
                if entry.owner:
                    owned.setdefault(entry.owner, set()).add(key)
        return owned

    def _index(self, key: str, before: Entry | None, after: Entry | None) -> None:
        """A key came, changed or went."""
        keys, owned = self.__dict__.get("keys"), self.__dict__.get("owned")
        if keys is not None and before is None:
            keys.add(key)
        elif keys is not None and after is None:
            keys.remove(key)
        if owned is None:
            return
        if before is not None and before.owner:
            owned[before.owner].discard(key)
            if not owned[before.owner]:
                del owned[before.owner]
        if after is not None and after.owner:
            owned.setdefault(after.owner, set()).add(key)

    def clear(self, context: Context) -> None:
        """Delete all keys: the dict goes."""
        for key in list(self.entries):
            self._delete(context, key)
        self.removed_at = context.position

    def _holds(self, condition: Any) -> bool:
        match condition:
            case ["value", str(key), expected]:
                entry = self.entries.get(key)
                return bool((None if entry is None else entry.value) == expected)
            case ["revision", str(key), int(revision)]:
                entry = self.entries.get(key)
                return (0 if entry is None else entry.revision) == revision
        raise CommandRefused("a condition of a transaction compares a value or a revision")

    def _note(self, change: Change) -> None:
        self.changes.append(change)
        self.changes_bytes += len(change.value or b"") + len(change.key)
        if len(self.changes) > 2 * CHANGES_MAX or self.changes_bytes > 2 * CHANGES_BYTES_MAX:
            self._forget()

    def _forget(self) -> None:
        """Down to half of what may be kept, whole revisions at a time."""
        while len(self.changes) > CHANGES_MAX or self.changes_bytes > CHANGES_BYTES_MAX:
            self.forgotten = self.changes[0].revision
            kept = 0
            while kept < len(self.changes) and self.changes[kept].revision == self.forgotten:
                change = self.changes[kept]
                self.changes_bytes -= len(change.value or b"") + len(change.key)
                kept += 1
            del self.changes[:kept]

    def release(self, context: Context, session: int) -> None:
        """What belongs to a session that is over goes with it."""
        for key in sorted(self._owned().get(session, ())):
            self._delete(context, key)

"""Hypothesis strategies that follow the vocabulary: an entry type added later is tested without a change here."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from isotone.core.ids import DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.services import Service
from isotone.trace.events import Entry, Row
from isotone.trace.vocabulary import entry_types, fields_of

naturals = st.integers(0, 2**63 - 1)
names = st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E), max_size=8)
texts = st.text(max_size=12)
daemons = st.builds(DaemonId, names, naturals)
daemon_views = st.builds(DaemonViewId, naturals, daemons)
group_views = st.builds(GroupViewId, daemon_views) | st.builds(
    GroupViewId, daemon_views, daemon_views, st.builds(Stamp, naturals, daemons)
)

# Numbers whose range is narrower or wider than that of all others.
_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "first_sequence": st.integers(0, 2**63 - 4),  # and those of up to four messages
    "lengths": st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
    "digests": st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple),
    "digest": st.integers(0, 2**64 - 1),
}
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: naturals,
    bool: st.booleans(),
    tuple[str, ...]: st.lists(texts, max_size=4).map(tuple),
    tuple[int, ...]: st.lists(naturals, max_size=4).map(tuple),
    tuple[tuple[str, ...], ...]: st.lists(st.lists(texts, max_size=3).map(tuple), max_size=3).map(tuple),
    Service: st.sampled_from(Service),
    GroupViewId: group_views,
    DaemonViewId: daemon_views,
}


def entries_of(entry_type: type[Entry]) -> st.SearchStrategy[Entry]:
    """Entries of one type with any values that it allows."""
    built = st.builds(entry_type, **{name: _values(name, form) for name, form in fields_of(entry_type).items()})
    return built.map(_paired) if {"lengths", "digests"} <= set(fields_of(entry_type)) else built


def _paired(entry: Any) -> Any:
    """As many digests as lengths."""
    count = min(len(entry.lengths), len(entry.digests))
    return msgspec.structs.replace(entry, lengths=entry.lengths[:count], digests=entry.digests[:count])


def _values(name: str, form: Any) -> st.SearchStrategy[Any]:
    if name in _BY_NAME:
        return _BY_NAME[name]
    return _BY_TYPE[form] if form in _BY_TYPE else st.from_type(form)


entries = st.one_of([entries_of(entry_type) for entry_type in entry_types().values()])


def records(node: str = "d1", incarnation: int = 1, max_size: int = 8) -> st.SearchStrategy[list[Row]]:
    """One record: rows with dense indices."""
    ordinary = entries.filter(lambda entry: type(entry).__name__ not in ("Gap", "Truncated"))
    return st.lists(st.tuples(naturals, ordinary), max_size=max_size).map(
        lambda pairs: [Row(node, incarnation, index, at, entry) for index, (at, entry) in enumerate(pairs)]
    )

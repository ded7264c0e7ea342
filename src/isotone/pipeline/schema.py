"""The tables of the pipeline: which columns there are. Text forms, so that nothing of Spark is needed at import.

*Bronze* has the columns of a trace file (docs/trace.md), digests as signed numbers of the same bits, and which file a
row came from. *Silver* is typed: services and ids have the order that checkers compare by; rows that no file has (gaps,
ends) name none.
"""

from __future__ import annotations

DAEMON = "name: string, incarnation: bigint"
DAEMON_VIEW = f"struct<epoch: bigint, {DAEMON}>"
STAMP = f"struct<lamport: bigint, {DAEMON}>"
VIEW = f"struct<daemon_view: {DAEMON_VIEW}, next_daemon_view: {DAEMON_VIEW}, stamp: {STAMP}>"
"""Structs compare field by field, as the ids of `isotone.core.ids` do."""
EVENT = "struct<node: string, incarnation: bigint, index: bigint>"
WITNESS = f"array<{EVENT}>"

_TRACE_VIEW = (
    "struct<epoch: bigint, coordinator: string, next_epoch: bigint, next_coordinator: string, "
    "lamport: bigint, stamper: string>"
)
BRONZE = (
    "run string, version int, node string, incarnation bigint, index bigint, at bigint, kind string, "
    "clients array<string>, groups array<string>, service string, sender string, first_sequence bigint, "
    f"lengths array<int>, digests array<bigint>, lamport bigint, stamper string, view {_TRACE_VIEW}, "
    "members array<string>, transitional array<string>, cause string, subject string, network string, "
    "servers array<string>, reason string, extra string, file string, is_part boolean"
)
RECORD = ("run", "node", "incarnation")
PROBLEM = "_problem"
"""The kind of a bronze row that tells why its file, or the rest of it, was not read."""
PART = "_part"
"""The kind of a bronze row that tells which part of a record its file is, and how it ended."""
RUN = "_run"
"""The kind of a bronze row that tells of which run its file is, and of a silver row of a run that has no other."""
SPAN = "_span"
"""The kind of a bronze row that tells which indices of a record its file has (`isotone.pipeline.spans`)."""
LOST = "_lost"
"""The kind of a note on a file that is gone, and that nothing else is known of (`isotone.pipeline.retained`)."""

SILVER = (
    "run string, node string, incarnation bigint, index bigint, at bigint, kind string, clients array<string>, "
    "groups array<string>, service int, sender string, first bigint, count int, lengths array<int>, "
    f"digests array<bigint>, content bigint, stamp {STAMP}, view {VIEW}, members array<string>, "
    "transitional array<string>, network string, servers array<string>, lost bigint, reason string, "
    "components array<array<string>>, quiet boolean, extra string, file string, is_part boolean"
)
VERDICTS = f"run string, label string, state string, witness {WITNESS}, place int"

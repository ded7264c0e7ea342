"""Files that are gone: daemons remove old parts of their records, and a cluster is one run that never ends.

Beside the rows of a run stands what was told of its files. So when more of the run comes, the rows of files that are
gone are taken from the table, with what was told of them, and all of it together is what reading all files would have
given. Of a table that an earlier version wrote nobody knows which rows came from where: then the files are lost, and
the run is one with lost rows. Files that were gone before are told of as one (`isotone.pipeline.merged`).

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isotone.pipeline import schema
from isotone.pipeline.bronze import together
from isotone.pipeline.merged import Merged, Note, files_in, merge_kept
from isotone.pipeline.silver import Older
from isotone.pipeline.tables import FORMAT, Manifest, read_notes, read_table
from isotone.trace.events import TRACE_VERSION
from isotone.trace.layout import SPOOL_SUFFIX
from isotone.trace.spool import rotated_path


class Retained(NamedTuple):
    """What is left of files that are gone, what these looked like, and what to say of it."""

    older: Older | None
    notes: tuple[Note, ...]
    names: Mapping[Path, str]
    told: tuple[str, ...]


def notes_of_runs(notes: Iterable[Note], files: Mapping[str, Iterable[Path]]) -> dict[str, bytes]:
    """What is to stand beside the rows of each run: the notes of its files."""
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for run, paths in files.items():
        for path in paths:
            owners[str(path)].append(run)
    found: dict[str, list[Note]] = {run: [] for run in files}
    for note in notes:
        told = {name: value for name, value in note.items() if value is not None}
        for run in owners[note["file"]] if note["kind"] == schema.PROBLEM else [note["run"]]:
            found[run].append(told)
    return {run: msgspec.json.encode(some) for run, some in found.items()}


def retained(spark: SparkSession, table: Path, runs: Iterable[Manifest]) -> Retained:
    """Of these runs, which are to be made anew, what is left of the files that are gone."""
    notes: list[Note] = []
    rows: list[DataFrame] = []
    told: list[str] = []
    names: dict[Path, str] = {}
    for manifest in runs:
        gone = {path: name for path, name in input_files(manifest).items() if not still(path).exists()}
        if not gone:
            continue
        files = sorted(map(str, gone))
        known = _known(spark, table, manifest, files)
        notes += [_lost(manifest.run, file) for file in files] if known is None else known.notes
        told += _told(manifest.run, len(files), known)
        if known is not None:
            mine = read_table(spark, table, [manifest.run]).where(F.col("file").isin(*files))
            rows.append(_renamed(mine, known.names))
            names |= {Path(name): f"0:0:{name}" for name in known.names.values()}  # as `printed` has it
        names |= {path: name for path, name in gone.items() if known is None or str(path) not in known.names}
    if not names:
        return Retained(None, (), {}, ())
    listed = together(spark.createDataFrame(notes, schema.BRONZE))
    kept = reduce(DataFrame.unionByName, rows) if rows else None
    return Retained(Older(kept, listed, tuple(map(str, names))), tuple(notes), names, tuple(told))


def _renamed(rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
    if not names:
        return rows
    told = rows.sparkSession.createDataFrame([*names.items()], "file string, _name string")
    named = rows.join(F.broadcast(told), on="file", how="left")
    return named.withColumn("file", F.coalesce("_name", "file")).select(*rows.columns)


def _known(spark: SparkSession, table: Path, manifest: Manifest, gone: list[str]) -> Merged | None:
    """What was told of these files; None if nothing was written down."""
    written = read_notes(table, manifest) if manifest.format == FORMAT else None
    if written is None:
        return None
    ends = read_table(spark, table, [manifest.run]).where("file IS NULL AND kind = 'crash'")
    crashed = {(row["node"], row["incarnation"]) for row in ends.select("node", "incarnation").collect()}
    files = set(gone)
    merged = merge_kept(note for note in msgspec.json.decode(written) if note["file"] in files)
    notes = [_kept(note, crashed) if note["kind"] == schema.PART else note for note in merged.notes]
    return merged._replace(notes=notes)


def _kept(note: Note, crashed: set[tuple[str, int]]) -> Note:
    """Of a part that is gone: how its record ended when it was there."""
    about = json.loads(note["extra"])
    about |= {"kept": True, "died": (note["node"], note["incarnation"]) in crashed}
    return {**note, "extra": json.dumps(about)}


def _lost(run: str, file: str) -> Note:
    place = {"node": "", "incarnation": 0, "index": -1, "at": 0, "is_part": False}
    return {"run": run, "version": TRACE_VERSION, "kind": schema.LOST, "file": file, **place}


def _told(run: str, count: int, known: Merged | None) -> list[str]:
    gone = "files that it was made from are gone"
    if known is None:
        return [f"run {run!r}: {count} {gone}, and its rows are of an older form: it is judged as one with lost rows"]
    mine = [note for note in known.notes if note["kind"] != schema.LOST]  # others were told of when it was found
    counts = {note["file"]: 1 for note in mine} | {n["file"]: files_in(n) for n in mine if n["kind"] == schema.PART}
    kept = sum(counts.values())
    return [f"run {run!r}: {kept} {gone}; their rows are kept"] if kept else []


def input_files(manifest: Manifest) -> dict[Path, str]:
    """What a run was made from, and what that looked like: `printed`."""
    return {Path(name.split(":", 2)[2]): name for name in manifest.inputs}


def printed(paths: Iterable[Path]) -> dict[Path, str]:
    """Files, and what they look like now: one is another when its size or time changes."""
    found = {}
    for each in paths:
        with suppress(FileNotFoundError):  # who was listed and is gone even as Parquet was removed
            path = still(each)
            stat = path.stat()
            found[path] = f"{stat.st_size}:{stat.st_mtime_ns}:{path}"
    return found


def still(path: Path) -> Path:
    """What the file is now: a spool that its writer has rotated is Parquet."""
    return rotated_path(path) if path.suffix == SPOOL_SUFFIX and not path.exists() else path

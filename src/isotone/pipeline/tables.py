"""Tables on disk: Parquet by run, whole or not there.

A run's rows are written aside and then named by a *manifest*, one small file per run that is replaced by a rename. Who
reads goes by the manifests alone, so a job that is killed leaves nothing that a reader takes for a table, and a run
that is written again replaces what was there. The directory is of a local or shared file system with atomic renames.
One process writes at a time, and none while others read: it sweeps away what no manifest names any more, be it what
another is about to name or what a reader still reads.

Implements: [DESIGN 5]. Deviations: none.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from isotone.core.errors import InputError, MachineError
from isotone.pipeline.failures import FULL
from isotone.trace.layout import sync_directory
from isotone.trace.reader import DATA, MANIFESTS

FORMAT = 3
"""2: silver has the column ``extra``; 3: the columns ``file`` and ``is_part``, and the notes of files beside its rows.

Tables of an earlier format are read, and made anew where their files are.
"""
_ASIDE = ".aside-"
_UNFINISHED = "."
"""Before the name of a manifest until it is written; no other begins so."""
_LOCK = ".lock"
_LEGIBLE = 80
"""So much of a run's name is in the names of its files; all of it is in its manifest."""
_NOTES = "_notes.json"
"""What stands beside the rows of a run; Spark looks past such names."""
_PATTERN = re.compile(r"[][{}*?\\]")
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""How a file system says that it knows no locks: then nobody can be kept out."""


class Manifest(msgspec.Struct, frozen=True):
    """Which directory holds the rows of a run, and what they were made from."""

    run: str
    directory: str
    rows: int
    schema: str
    inputs: tuple[str, ...] = ()
    format: int = 1  # of tables that do not say
    problems: tuple[tuple[str, str], ...] = ()
    """Which of the inputs could not be read to their end, and why."""


class Held(NamedTuple):
    """The lock of a directory of tables."""

    out: Path
    file: BinaryIO

    def share(self) -> None:
        """This process only reads from now on; others may, too, and none may write."""
        _lock(self.out, self.file, fcntl.LOCK_SH, "writes")


@contextmanager
def writing(out: Path) -> Iterator[Held]:
    """While this process writes tables below the directory; no other may read or write there, until it shares that."""
    if ":" in str(out.absolute()) and _PATTERN.search(str(out.absolute())):
        raise InputError(f"{out.absolute()}: Spark reads no path that has a colon and one of []{{}}*?\\ too")
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = _lock_file(out)
    except OSError as error:
        raise MachineError(f"{out}: {error.strerror or error}") from None
    with file:
        _lock(out, file, fcntl.LOCK_EX, "reads or writes")
        yield Held(out, file)


def _lock_file(out: Path) -> BinaryIO:
    """To be written to or, if somebody else made it, only read: a lock needs no more."""
    try:
        return (out / _LOCK).open("ab")
    except PermissionError:
        return (out / _LOCK).open("rb")


@contextmanager
def reading(out: Path) -> Iterator[None]:
    """While this process reads tables below the directory; others may read too, and none may write.

    Where there is no lock that this process may open, as in a directory of somebody else, it goes without.
    """
    with suppress(OSError):
        (out / _LOCK).touch()
    try:
        file = (out / _LOCK).open("rb")
    except OSError:
        yield
        return
    with file:
        _lock(out, file, fcntl.LOCK_SH, "writes")
        yield


def _lock(out: Path, file: BinaryIO, kind: int, does: str) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MachineError(f"{out}: another process {does} there; wait for it, or name another directory") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise MachineError(f"{out}: {error.strerror or error}") from None


def write_runs(
    table: Path,
    rows: DataFrame,
    *,
    inputs: Mapping[str, tuple[str, ...]] | None = None,
    problems: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType({}),
    notes: Mapping[str, bytes] = MappingProxyType({}),
    check: Callable[[Mapping[str, int]], None] = lambda counts: None,
) -> list[Manifest]:
    """Replace the runs that these rows are of; each becomes visible as a whole. ``rows`` has a column ``run``.

    ``inputs`` says by run what the rows were made from; it is kept in the manifest. A run that it names and that has no
    row is an empty one, and rows of other runs are left out. ``notes`` are put beside the rows (`read_notes`). Before
    anything is replaced ``check`` is told how many rows each run has; if it raises, what was there stays.
    """
    made_from = inputs or {}
    if inputs is not None:
        rows = rows.where(F.col("run").isin(*inputs))
    aside = table / DATA / f"{_ASIDE}{uuid.uuid4().hex}"
    try:
        (table / MANIFESTS).mkdir(parents=True, exist_ok=True)  # so nobody takes what a killed job leaves for traces
        found = {**dict.fromkeys(made_from, 0), **_write(rows, aside, made_from)}
        form = rows.schema.json()
        check(found)
        plans = [
            Manifest(
                run,
                f"{place_of(run)}-{uuid.uuid4().hex}",
                found[run],
                form,
                made_from.get(run, ()),
                FORMAT,
                problems.get(run, ()),
            )
            for run in sorted(found)
        ]
        for manifest in plans:
            _commit(table, aside, manifest, notes.get(manifest.run))
    except OSError as error:
        raise MachineError(f"{table}: {error.strerror or error}; what was there is as it was") from None
    except Exception as error:
        if FULL not in str(error):
            raise
        raise MachineError(f"{table}: {FULL}; what was there is as it was") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    sweep(table)
    return plans


def _write(rows: DataFrame, aside: Path, runs: Iterable[str]) -> dict[str, int]:
    """By run; a single one needs no sorting by run first. Says how many rows of each are there."""
    match list(runs):
        case [run]:
            rows.write.parquet(str(aside.absolute() / _partition_of(run)))
        case _:
            rows.withColumn("_run", F.sha2("run", 256)).write.partitionBy("_run").parquet(str(aside.absolute()))
    counts = rows.sparkSession.read.schema(rows.schema).parquet(_to_read(aside)).groupBy("run").count().collect()
    return {row["run"]: row["count"] for row in counts}


def _partition_of(run: str) -> str:
    """Where Spark writes the rows of a run: a name that every file system takes, whatever the run is called."""
    return f"_run={_hashed(run)}"


def _hashed(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()


def place_of(run: str) -> str:
    """How the files of a run begin: legible, of ASCII and never too long, and of no other run."""
    return f"{quote(run, safe='').replace('.', '%2E')[:_LEGIBLE]}-{_hashed(run)[:16]}"


def _manifest_name(run: str) -> str:
    return f"{place_of(run)}.json"


def _commit(table: Path, aside: Path, manifest: Manifest, notes: bytes | None) -> None:
    """Give the run's rows their name, and then say so."""
    if manifest.rows:
        written = aside / _partition_of(manifest.run)
        if notes is not None:
            (written / _NOTES).write_bytes(notes)
        _sync_files(written)
        target = table / DATA / manifest.directory
        os.rename(written, target)
        sync_directory(target.parent)
    _write_manifest(table / MANIFESTS / _manifest_name(manifest.run), manifest)


def _sync_files(directory: Path) -> None:
    """Make its files durable: what they replace is swept away, and may be all there is of traces that are gone."""
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_directory(directory)


def _write_manifest(path: Path, manifest: Manifest) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{_UNFINISHED}{path.name}.{uuid.uuid4().hex}")
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def read_notes(table: Path, manifest: Manifest) -> bytes | None:
    """What was put beside the rows of a run, if it is there."""
    try:
        return (table / DATA / manifest.directory / _NOTES).read_bytes()
    except OSError:
        return None


def manifests(table: Path) -> dict[str, Manifest]:
    """The runs that the table has; one whose rows somebody has removed it does not have."""
    all_there = _all_manifests(table)
    there = (each for path, each in all_there.items() if not _is_replaced(path, all_there))
    return {each.run: each for each in there if not each.rows or (table / DATA / each.directory).is_dir()}


def _is_replaced(path: Path, among: Mapping[Path, Manifest]) -> bool:
    """Whether it has the name that an earlier version gave it, and its run another of this version."""
    current = path.with_name(_manifest_name(among[path].run))
    return path != current and current in among


def _all_manifests(table: Path) -> dict[Path, Manifest]:
    found = {}
    for path in sorted((table / MANIFESTS).glob("*.json")):
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (msgspec.MsgspecError, OSError) as error:
            raise InputError(f"{path}: not a manifest: {error}") from None
        if manifest.format > FORMAT:
            raise InputError(f"{path}: format {manifest.format} is newer than this program knows ({FORMAT})")
        found[path] = manifest
    return found


def read_table(spark: SparkSession, table: Path, runs: Iterable[str] | None = None) -> DataFrame:
    """The rows of these runs, or of all."""
    known = manifests(table)
    wanted = [known[run] for run in (known if runs is None else runs)]
    if not wanted:
        raise InputError(f"{table}: no runs")
    forms = {each.schema: None for each in sorted(wanted, key=lambda each: -each.format)}
    alike = [_read(spark, table, form, [each for each in wanted if each.schema == form]) for form in forms]
    return reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), alike)


def _read(spark: SparkSession, table: Path, form: str, runs: Iterable[Manifest]) -> DataFrame:
    """Runs that were written with the same columns."""
    columns = StructType.fromJson(json.loads(form))
    places = [_to_read(table / DATA / each.directory) for each in runs if each.rows]
    return spark.read.schema(columns).parquet(*places) if places else spark.createDataFrame([], columns)


def _to_read(path: Path) -> str:
    """The path for Spark, which takes one to be read for a pattern, and what is before a colon for a file system."""
    return _PATTERN.sub(r"\\\g<0>", str(path.absolute()))


def sweep(table: Path) -> None:
    """Drop what no manifest names: replaced runs, and what killed jobs left."""
    all_there = _all_manifests(table)
    for path in all_there:
        if _is_replaced(path, all_there):
            path.unlink(missing_ok=True)
    named = {manifest.directory for manifest in manifests(table).values()}
    for path in (table / DATA).iterdir() if (table / DATA).is_dir() else ():
        if path.name not in named:
            shutil.rmtree(path, ignore_errors=True)
    for path in (table / MANIFESTS).glob(f"{_UNFINISHED}*"):
        path.unlink(missing_ok=True)

"""``isotone pipeline tables``: replicated objects and databases as Parquet tables, all as of one position."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.core.errors import InputError, IsotoneError, MachineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBJECTS, DATABASES = "objects", "databases"


@click.command("tables")
@click.argument("archive", required=False, default="")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory to write.")
@click.option("--as-of", type=click.IntRange(1), metavar="POSITION", help="Of the log (default: the last).")
@click.option("--replica", metavar="HOST:PORT[,…]", default="", help="Servers of the log, for its live end.")
@click.option("--archive-credential-file", "credential_file", default="", help="JSON, for the archive.")
@click.option("--master", metavar="URL", help="Where Spark runs (default: local[*], all cores of this machine).")
@json_option
def tables_command(
    *,
    archive: str,
    out: Path,
    as_of: int | None,
    replica: str,
    credential_file: str,
    master: str | None,
    as_json: bool,
) -> int:
    """Write the dicts, sets, counters and SQLite tables of the log in ARCHIVE, all as they were at one position.

    DIR/objects is one Parquet table with the columns object, kind, key, value, json, number, revision, as_of,
    partitioned by object. DIR/databases/DATABASE/TABLE is each table of a database. Where there are databases, the last
    position is the last one whose row changes are archived. What was there is replaced as a whole.

    \b
    Examples:
      isotone pipeline tables /srv/archive --out tables
      isotone pipeline tables /srv/archive --replica a:4816,b:4816 --as-of 120000 --out tables
    """
    if not archive and not replica:
        raise InputError("name an archive, or --replica, or both")
    try:
        from pyspark.errors import PySparkException

        from isotone.pipeline.failures import failures_named
        from isotone.pipeline.log.source import register
        from isotone.pipeline.session import session
    except ImportError:
        raise MachineError("tables need pyspark: install isotone[pipeline]") from None
    changes, position = _changes_of(archive, credential_file, as_of)
    options = {"archive": archive, "archiveCredentialFile": credential_file, "replica": replica}

    @failures_named()
    def write() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        spark = session(master, is_small=True)
        register(spark)
        told = _write_objects(spark, options, position, out / OBJECTS)
        shutil.rmtree(out / DATABASES, ignore_errors=True)
        if not changes:
            return told, []
        told_changes = {"archive": changes, "archiveCredentialFile": credential_file}
        return told, _write_databases(_read(spark, told_changes, position), position, out / DATABASES)

    with progress_bar("tables", total=None) as advance:
        advance("applying the log")
        try:
            objects, tables = write()
        except PySparkException as error:
            raise _own_error(error) from error
    _tell(out, position, objects, tables, as_json=as_json)
    return 0


def _changes_of(archive: str, credential_file: str, as_of: int | None) -> tuple[str, int | None]:
    """Where the changes of databases are, if there are any, and the position of all tables."""
    from isotone.replicated.archive.store import Archive
    from isotone.replicated.database.change_log import FOLDER

    if not archive:
        return "", as_of
    place = f"{archive.rstrip('/')}/{FOLDER}"
    end = Archive(place, credential_file).listing().end
    return (place, as_of or end) if end else ("", as_of)


def _read(spark: SparkSession, options: dict[str, str], position: int | None) -> DataFrame:
    reader = spark.read.format("isotone")
    for name, value in (*options.items(), ("from", "1"), ("to", str(position or ""))):
        reader = reader.option(name, value) if value else reader
    return reader.load()


def _write_objects(
    spark: SparkSession, options: dict[str, str], position: int | None, place: Path
) -> list[dict[str, Any]]:
    from isotone.pipeline.log.objects import objects_as_of

    rows = objects_as_of(_read(spark, options, position), position)
    rows.write.mode("overwrite").partitionBy("object").parquet(str(place))
    counted = (
        spark.read.schema(rows.schema).parquet(str(place)).groupBy("object", "kind").count().orderBy("object").collect()
    )
    return [row.asDict() for row in counted]


def _write_databases(log: DataFrame, position: int | None, place: Path) -> list[dict[str, Any]]:
    from isotone.pipeline.log.databases import row_changes, rows_as_of, table_of_rows, tables_in

    rows = rows_as_of(row_changes(log), position).persist()
    told = []
    for database, form in tables_in(rows):
        path = place / quote(database, safe="") / quote(form.name, safe="")
        table_of_rows(rows, database, form).write.parquet(str(path))
        own = (rows["database"] == database) & (rows["table"] == form.name) & rows["key"].isNotNull()
        told.append({"database": database, "table": form.name, "path": str(path), "count": rows.where(own).count()})
    rows.unpersist()
    return told


def _tell(
    out: Path, position: int | None, objects: list[dict[str, Any]], tables: list[dict[str, Any]], *, as_json: bool
) -> None:
    if as_json:
        print_json({"out": str(out / OBJECTS), "as_of": position, "objects": objects, "tables": tables})
        return
    lines = [f"{each['object']}  {each['kind']}  {each['count']} rows" for each in objects]
    lines.append(f"written: {out / OBJECTS}")
    lines += [f"{each['database']}  {each['table']}  {each['count']} rows: {each['path']}" for each in tables]
    for line in lines if position is None else [*lines, f"as of position {position}"]:
        results().print(line, markup=False)


def _own_error(error: Exception) -> IsotoneError:
    """What our own code said in a task or a driver of Spark, without the stacks around it."""
    found = re.search(r"isotone\.core\.errors\.(InputError|MachineError): (.+)", str(error))
    if found is None:
        return MachineError(f"Spark failed: {str(error).splitlines()[0]}")
    return (InputError if found[1] == "InputError" else MachineError)(found[2])

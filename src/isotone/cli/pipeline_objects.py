"""``isotone pipeline tables``: replicated objects as Parquet tables, all as of one position of the log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from isotone.cli.output import json_option, print_json, progress_bar, results
from isotone.core.errors import InputError, IsotoneError, MachineError


@click.command("tables")
@click.argument("archive", required=False, default="")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory to write.")
@click.option("--as-of", type=click.IntRange(1), metavar="POSITION", help="Of the log (default: the last).")
@click.option("--replica", metavar="HOST:PORT[,…]", default="", help="Servers of the log, for its live end.")
@click.option("--master", metavar="URL", help="Where Spark runs (default: local[*], all cores of this machine).")
@json_option
def tables_command(
    *, archive: str, out: Path, as_of: int | None, replica: str, master: str | None, as_json: bool
) -> int:
    """Write the dicts, sets and counters of the log in ARCHIVE as one Parquet table, as they were at one position.

    DIR/objects has the columns object, kind, key, value, json, number, revision, as_of; it is partitioned by object.
    What was there is replaced as a whole.

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
        from isotone.pipeline.log.objects import objects_as_of
        from isotone.pipeline.log.source import register
        from isotone.pipeline.session import session
    except ImportError:
        raise MachineError("tables need pyspark: install isotone[pipeline]") from None

    @failures_named()
    def write() -> list[dict[str, Any]]:
        spark = session(master, is_small=True)
        register(spark)
        reader = spark.read.format("isotone")
        for name, value in (("archive", archive), ("replica", replica), ("to", str(as_of or ""))):
            reader = reader.option(name, value) if value else reader
        rows = objects_as_of(reader.load(), as_of)
        rows.write.mode("overwrite").partitionBy("object").parquet(str(out / "objects"))
        written = spark.read.parquet(str(out / "objects"))
        counted = written.groupBy("object", "kind").count().orderBy("object").collect()
        return [row.asDict() for row in counted]

    with progress_bar("tables", total=None) as advance:
        advance("applying the log")
        try:
            found = write()
        except PySparkException as error:
            raise _own_error(error) from error
    if as_json:
        print_json({"out": str(out / "objects"), "as_of": as_of, "objects": found})
        return 0
    for each in found:
        results().print(f"{each['object']}  {each['kind']}  {each['count']} rows", markup=False)
    results().print(f"written: {out / 'objects'}", markup=False)
    return 0


def _own_error(error: Exception) -> IsotoneError:
    """What our own code said in a task or a driver of Spark, without the stacks around it."""
    found = re.search(r"isotone\.core\.errors\.(InputError|MachineError): (.+)", str(error))
    if found is None:
        return MachineError(f"Spark failed: {str(error).splitlines()[0]}")
    return (InputError if found[1] == "InputError" else MachineError)(found[2])

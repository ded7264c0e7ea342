"""The words of the checks: keys, event ids, witnesses, and what the text of a process says.

Implements: [Spread 2.2.1], as far as names go. Deviations: none.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.schema import WITNESS
from isotone.pipeline.silver import daemon_incarnation, daemon_name

CLIENTS, DAEMONS = 0, 1
"""The column ``boundary``; the network's checks use `NETWORK`."""
NETWORK = 2

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = range(6)
NEVER = 1 << 62
KEYS_MAX = 200_000
"""Keys for an exact look that every worker is told."""

SIDE = ("run", "boundary")
HOME = ("run", "node", "incarnation")
PROCESS = ("run", "boundary", "node", "incarnation", "process")
PLACE = (*PROCESS, "group")
"""One process in one group."""
VIEW = ("run", "boundary", "group", "view", "members_hash")
"""Views are the same when id and members agree."""
STAY = (*PLACE, "at")
TOGETHER = (*VIEW, "next")
"""Who leave one view for one next view."""
MESSAGE = ("run", "boundary", "sender", "first", "is_early")
"""A piece of a bundle; what was delivered before its send at the same node is a message of its own."""
BUNDLE = ("run", "boundary", "sender", "bundle")

INSTALL, LEAVE, END, LOSS, SIGNAL, SEND, DELIVER, JOIN, ASK = "I", "V", "E", "X", "S", "T", "D", "J", "L"


def event(index: str | Column = "index", node: str = "node", incarnation: str = "incarnation") -> Column:
    """The id of a row."""
    place = F.col(index) if isinstance(index, str) else index
    return F.struct(F.col(node).alias("node"), F.col(incarnation).alias("incarnation"), place.alias("index"))


def witness(*events: Column) -> Column:
    """A set of event ids, as a sorted tuple without repetitions and nulls."""
    told = F.array_sort(F.array_distinct(F.array_compact(F.array(*events))))
    return told.cast(WITNESS).alias("witness")


def is_daemons() -> Column:
    return F.col("boundary") == DAEMONS


def sane_from() -> Column:
    """From which service on nothing is delivered in a view before that of the send."""
    return F.when(is_daemons(), RELIABLE).otherwise(AGREED)


def _parts(text: Column) -> Column:
    return F.split(text, "#")


def _is_client(text: Column) -> Column:
    return (F.size(_parts(text)) == 5) & F.get(_parts(text), F.lit(3)).rlike("^[0-9]+$")


def home_node(text: Column) -> Column:
    """The node that the id of a process names."""
    client = F.when(_is_client(text), F.get(_parts(text), F.lit(2))).otherwise("")
    return F.when(is_daemons(), daemon_name(text)).otherwise(client)


def home_incarnation(text: Column) -> Column:
    """The incarnation that the id of a process names; -1 where it names none."""
    client = F.when(_is_client(text), F.get(_parts(text), F.lit(3)).try_cast("bigint")).otherwise(F.lit(-1))
    return F.when(is_daemons(), daemon_incarnation(text, -1)).otherwise(client)


def lasting_name(text: Column) -> Column:
    """What stays over sessions and incarnations."""
    parts = _parts(text)
    client = F.concat(F.lit("#"), F.get(parts, F.lit(1)), F.lit("#"), F.get(parts, F.lit(2)))
    return F.when(is_daemons(), daemon_name(text)).otherwise(F.when(_is_client(text), client).otherwise(text))


def comparable(view: Column) -> Column:
    """What orders a view among those of other components: the next daemon view orders nothing."""
    return F.struct(view["daemon_view"].alias("daemon_view"), view["stamp"].alias("stamp"))


def two_first(rows: DataFrame, keys: tuple[str, ...], differ: str, by: str = "event") -> DataFrame:
    """The witness of two rows with the same keys that differ in a column: the first of all, and the first beside."""
    firsts = rows.groupBy(*keys, differ).agg(F.min(by).alias("_first"))
    found = firsts.groupBy(*keys).agg(F.array_sort(F.collect_list("_first")).alias("_firsts"), F.count("*").alias("_n"))
    two = witness(F.get("_firsts", F.lit(0)), F.get("_firsts", F.lit(1)))
    return found.where("_n > 1").select(*keys, two)


def few(rows: DataFrame) -> DataFrame:
    """What is left where summaries differ: little, looked at several times, so computed now and kept by its rows."""
    return rows.localCheckpoint(eager=True)


def kept(rows: DataFrame) -> DataFrame:
    """Computed now, and known from here on by its rows alone: plans that carry their whole past grow beyond measure."""
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def told_to_all(keys: DataFrame) -> DataFrame:
    """Keys to join with: every worker is told them if they are few; else the rows of the other side are moved."""
    return F.broadcast(keys) if keys.count() <= KEYS_MAX else keys


def no_findings(like: DataFrame) -> DataFrame:
    """No witness."""
    blank = F.lit(None).cast(WITNESS).alias("witness")
    return like.select(*SIDE, blank).where(F.lit(False))


def findings(exercised: DataFrame, accused: DataFrame) -> DataFrame:
    """What a check found: one row per run and boundary where the premise was true, with the first witness or null."""
    blank = F.lit(None).cast(WITNESS).alias("witness")
    premise = exercised.select(*SIDE).distinct().select(*SIDE, blank)
    broken = accused.select(*SIDE, "witness")
    return premise.unionByName(broken).groupBy(*SIDE).agg(F.min("witness").alias("witness"))

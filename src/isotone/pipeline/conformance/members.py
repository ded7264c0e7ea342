"""Whether a member of a view has a SAFE message, owes it, or is excused; and the row that says so.

Implements: the deadlines and excuses of [Spread 2.14.2] and [Spread 2.14.3]. Deviations: D-other-side.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.conformance.lives import is_ghost
from isotone.pipeline.conformance.normal import Normal
from isotone.pipeline.conformance.terms import (
    CLIENTS,
    DAEMONS,
    END,
    LEAVE,
    LOSS,
    MESSAGE,
    PLACE,
    PROCESS,
    VIEW,
    comparable,
    event,
    few,
    home_incarnation,
    home_node,
)

_BODY = MESSAGE[2:]
_MEMBER = (*VIEW, "member")


def states(n: Normal, messages: DataFrame) -> DataFrame:
    """For each message of a view and each member: ``is_fine`` (true, false, null: excused) and ``row``."""
    wanted = few(messages.select(*VIEW, *_BODY, F.explode("members").alias("member")))
    about = few(_about(n, few(wanted.select(*_MEMBER).distinct())))
    known = wanted.join(about, on=list(_MEMBER), how="inner")
    firsts = n.deliveries.where("turn = 1").select(*PROCESS, *_BODY, F.col("index").alias("delivered"))
    known = known.join(firsts, on=[*PROCESS, *_BODY], how="left")
    in_view, anywhere, absent = _in_view(), _anywhere(), _absent()
    daemons = F.when(F.col("at").isNotNull(), in_view).otherwise(absent)
    clients = F.when(F.col("at").isNotNull() | ~F.col("is_disputed"), anywhere)
    met = F.when(F.col("boundary") == DAEMONS, daemons).otherwise(clients)
    state = F.when(F.col("is_met"), met).otherwise(_verdict(F.when(F.col("is_unheard_owing"), F.lit(False))))
    judged = known.withColumn("_state", state)
    return few(
        judged.select(*VIEW, *_BODY, "member", F.col("_state.fine").alias("is_fine"), F.col("_state.row").alias("row"))
    )


def _verdict(fine: Column, row: Column | None = None) -> Column:
    form = "struct<fine: boolean, row: struct<node: string, incarnation: bigint, index: bigint>>"
    told = F.lit(None) if row is None else row
    return F.struct(fine.alias("fine"), told.alias("row")).cast(form)


def _is_owing_at_end() -> Column:
    return F.col("is_settled") & F.col("end").isNull() & F.col("loss").isNull()


def _in_view() -> Column:
    """A daemon that installed the view: in time before it left."""
    delivered, left = F.col("delivered"), F.col("left")
    in_time = delivered.isNotNull() & (F.col("left_at").isNull() | (delivered < F.col("left_at")))
    unknown = left.isin(END, LOSS) | (left.isNotNull() & ~F.coalesce("is_complete", F.lit(False)))
    going_on = left.isNull() & (F.col("loss").isNotNull() | ~F.col("is_settled"))
    fine = F.when(in_time, True).when(unknown | going_on, F.lit(None).cast("boolean")).otherwise(False)
    return _verdict(fine, F.when(~fine, event("at")))


def _absent() -> Column:
    """A daemon that never came to the view."""
    later = F.coalesce(F.col("surely") > F.col("view"), F.lit(False))
    return _verdict(F.when(~F.col("is_disputed") & (later | _is_owing_at_end()), F.lit(False)))


def _anywhere() -> Column:
    """A client: in whatever view, before the step by which it is too late."""
    delivered, step = F.col("delivered"), F.col("step")
    in_time = delivered.isNotNull() & (step.isNull() | (delivered < step["index"]))
    lost = step["code"] == LOSS
    late = F.when(~lost, F.lit(False))
    fine = F.when(in_time, True).when(step.isNotNull(), late).when(_is_owing_at_end(), F.lit(False))
    return _verdict(fine, F.when(~fine & step.isNotNull(), event(step["index"])))


# --- what is known of a member -------------------------------------------------------------------------------------


def _about(n: Normal, members: DataFrame) -> DataFrame:
    text = F.col("member")
    homed = members.withColumn("node", home_node(text)).withColumn("incarnation", home_incarnation(text))
    homed = homed.withColumn("process", text)
    lives = _lives(n)
    stays = n.regular.select(*VIEW, *PROCESS[2:], "at", "left", "left_at", "is_complete")
    known = (
        homed.join(lives, on=list(PROCESS), how="left")
        .join(stays, on=[*VIEW, *PROCESS[2:]], how="left")
        .join(_surely(n), on=list(PLACE), how="left")
        .join(n.runs.select("run", "is_settled"), on="run", how="left")
    )
    known = _with_disputes(n, few(_with_homes(n, known)))
    return known.join(_steps(n, homed), on=list(_MEMBER), how="left").withColumn(
        "is_met", F.coalesce("is_met", F.lit(False))
    )


def _lives(n: Normal) -> DataFrame:
    """True processes of which anything is recorded."""
    heard = n.deliveries.where("turn = 1").select(*PROCESS).distinct().where(~is_ghost())
    named = n.processes.where("NOT is_ghost").select(*PROCESS, "end")
    both = named.unionByName(heard, allowMissingColumns=True)
    return both.groupBy(*PROCESS).agg(F.max("end").alias("end"), F.lit(True).alias("is_met"))


def _surely(n: Normal) -> DataFrame:
    """The highest view that a process installed in a group before any row of its home was lost."""
    sure = n.stays.where("is_regular AND (loss IS NULL OR index < loss)")
    return sure.groupBy(*PLACE).agg(F.max("view").alias("surely"))


def _with_homes(n: Normal, known: DataFrame) -> DataFrame:
    """The loss at the member's home; and whether one of which nothing is recorded owes something at the end."""
    own = n.boundary_homes.select("boundary", "run", "node", "incarnation", "loss", "is_over", "is_newest")
    newest = n.boundary_homes.where("is_newest").select(
        "boundary",
        "run",
        "node",
        F.col("incarnation").alias("new"),
        F.col("is_over").alias("new_over"),
        F.col("loss").alias("new_loss"),
    )
    joined = known.join(own, on=["boundary", "run", "node", "incarnation"], how="left")
    joined = joined.join(newest, on=["boundary", "run", "node"], how="left")
    left_over = F.coalesce(~F.col("is_newest") & ~F.col("is_over"), F.lit(False))
    same = F.col("new") == F.col("incarnation")
    over = ~left_over & F.coalesce((F.col("new") > F.col("incarnation")) | (same & F.col("new_over")), F.lit(False))
    owing = F.col("is_settled") & F.col("new_loss").isNull() & ~over
    return joined.withColumn("is_unheard_owing", owing)


def _with_disputes(n: Normal, known: DataFrame) -> DataFrame:
    """Whether the id of the view was installed at the member's home with other members, or is compared with none."""
    keys = ["run", "boundary", "node", "incarnation", "group", "view"]
    is_irregular = (F.col("boundary") == DAEMONS) & ~F.col("is_regular")
    others = n.stays.select(
        *keys, F.xxhash64("members").alias("other_hash"), is_irregular.alias("is_irregular")
    ).distinct()
    disputed = known.select(*_MEMBER, "node", "incarnation").join(others, on=keys, how="inner")
    disputed = (
        disputed.where("other_hash != members_hash OR is_irregular")
        .select(*_MEMBER, F.lit(True).alias("is_disputed"))
        .distinct()
    )
    joined = known.join(disputed, on=list(_MEMBER), how="left")
    return joined.withColumn("is_disputed", F.coalesce("is_disputed", F.lit(False)))


def _steps(n: Normal, members: DataFrame) -> DataFrame:
    """Per view and member, of clients: the step by which it was too late, or by which rows were lost."""
    stays = n.stays.where((F.col("boundary") == CLIENTS) & ~F.col("is_ghost") & ~F.col("is_ended")).drop("highest")
    bare = (F.col("view.next_daemon_view.epoch") == 0) & (F.col("view.next_daemon_view.name") == "")
    came = stays.where(bare).select(*PLACE, "index", "code", F.col("view").alias("step_view"))
    highest = stays.groupBy(*PLACE, "membership").agg(F.max(comparable(F.col("view"))).alias("highest"))
    went = stays.where(F.col("left") == LEAVE).join(highest, on=[*PLACE, "membership"], how="inner")
    went = went.select(
        *PLACE, F.col("left_at").alias("index"), F.lit(LEAVE).alias("code"), F.col("view").alias("step_view"), "highest"
    )
    lost = n.turns.where(F.col("code") == LOSS).select(*PLACE, "index", "code")
    steps = came.unionByName(went, allowMissingColumns=True).unionByName(lost, allowMissingColumns=True)
    joined = members.join(steps, on=list(PLACE), how="inner")
    past = (
        F.when(F.col("code") == LOSS, True)
        .when(
            F.col("code") == LEAVE,
            (F.col("step_view") >= F.col("view")) & (F.col("highest") >= comparable(F.col("view"))),
        )
        .otherwise(F.col("step_view.daemon_view") > F.col("view.daemon_view"))
    )
    return joined.where(past).groupBy(*_MEMBER).agg(F.min(F.struct("index", "code")).alias("step"))

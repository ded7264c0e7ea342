"""``isotone sim trace``: the traces of many runs as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from isotone.cli.output import json_option
from isotone.cli.sim import setting_from, setting_options, show_summary, swarm_progress
from isotone.sim.swarm import default_workers, parse_seeds, summarise_swarm
from isotone.sim.tracing import trace_seeds


@click.command("trace")
@click.option("--seeds", default="1..20", show_default=True, metavar="N|N..M", help="Which seeds, both ends included.")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The directory for them.")
@setting_options
@click.option("--workers", type=click.IntRange(1), default=None, help="Processes; one for each core when left out.")
@json_option
def trace_command(*, seeds: str, out: Path, workers: int | None, as_json: bool, **chosen: Any) -> int:
    """Run one cluster per seed, judge it, and write its trace to DIR as <system>-<stack>-<seed>.parquet.

    The options that shape a run are those of `isotone sim swarm`; the same seed is the same run.

    \b
    Examples:
      isotone sim trace --seeds 1..50 --out traces
      isotone sim trace --seeds 7 --stack full --size large --out traces
    """
    setting = setting_from(chosen)
    wanted = parse_seeds(seeds)
    with swarm_progress(setting, wanted) as heard:
        found = trace_seeds(setting, wanted, out, workers=workers or default_workers(), progress=heard)
    return show_summary(summarise_swarm(setting, found), as_json=as_json)

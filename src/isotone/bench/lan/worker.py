"""A client process of the bench: ``python -m isotone.bench.lan.worker JOB``."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

from isotone.bench.lan.board import Slot, State, Word
from isotone.bench.lan.jobs import Job, Outcome, read_job, write_outcome
from isotone.bench.lan.sampler import Sampler
from isotone.core.errors import IsotoneError


def main() -> None:
    """Do the job, say what became of it, and end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the bench ends us
    job = read_job(Path(sys.argv[1]))
    board = job.open_board()
    slot = board.slot(job.index)
    try:
        with Sampler(Path(job.profile) if job.profile else None):
            outcome = work(job, slot)
    except IsotoneError as error:
        outcome = Outcome(problem=f"{type(error).__name__}: {error}")
    except Exception:
        outcome = Outcome(problem=traceback.format_exc())
    write_outcome(outcome, Path(job.report))
    slot.set(Word.STATE, State.FAILED if outcome.problem else State.DONE)
    sys.stdout.flush()
    os._exit(0)  # libraries of peers have threads that would hold us


def work(job: Job, slot: Slot) -> Outcome:
    """By the client library of its system."""
    if job.cell.system == "isotone":
        from isotone.bench.lan.isotone_client import run

        return run(job, slot)
    if job.cell.system.startswith("corosync"):
        from isotone.bench.lan.corosync_client import run_corosync

        return run_corosync(job, slot)
    from isotone.bench.lan.spread_client import run_spread

    return run_spread(job, slot)


if __name__ == "__main__":
    main()

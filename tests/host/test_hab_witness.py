"""Two data centres and a witness, which is a process of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from isotone.hab.centre import Role
from isotone.host.hab_acts import Act
from tests.host.centres import Centres
from tests.host.test_hab_log import run_with

ROOT = Path(__file__).parents[2]


def test_one_of_two_centres_goes_on_by_the_word_of_the_witness(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        words = ["-m", "isotone.cli", "site", "witness", str(centres.path), "--state", str(tmp_path / "w1")]
        witness = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        try:
            assert witness.stdout is not None and b"listens at" in await witness.stdout.readline()
            await centres.start("a1", "b1")
            await centres.found()
            await centres.running["a1"].dict("stock").set("apples", 3)
            await centres.stop("a1")
            await centres.act("b1", Act("declare-lost", "a"))
            assert centres.running["b1"].centre_log.hab.centre.role in (Role.PRIMARY, Role.TRANSITION)
            await centres.running["b1"].dict("stock").set("late", 1)
        finally:
            witness.terminate()
            assert await witness.wait() == 0

    run_with(tmp_path, {"a": 1, "b": 1}, main, witness="w1")

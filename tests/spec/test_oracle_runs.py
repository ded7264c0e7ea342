"""Random runs of the oracle: every checker holds, every freedom is taken, the same seed gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from isotone.core.services import Service
from isotone.spec.check import check
from isotone.spec.oracle import CHOICES, OracleSettings
from isotone.spec.properties import BY_ID, Boundary, Form
from isotone.spec.verdicts import State
from tests.spec.oracle_driver import OracleWorld, RandomRun

HASTY = (
    OracleSettings(disturb_every=8, form_us_max=3_000, step_us_max=3_000),
    OracleSettings(disturb_every=4, form_us_max=500, step_us_max=20_000),
    OracleSettings(disturb_every=30, form_us_max=60_000, step_us_max=300, early_chance=0.9, hold_chance=0.6),
    OracleSettings(disturb_every=20, form_us_max=8_000, step_us_max=30_000, early_window=30, batch_max=2),
)
"""Other tempers: view changes on top of each other, slow steps, much early delivery, much waiting."""


def explained(run: RandomRun) -> list[str]:
    report = check(run.play())
    broken = [verdict.violation for verdict in report.verdicts.values() if verdict.violation]
    return [f"{violation.property}: {violation.explanation}" for violation in broken]


def test_every_property_holds_and_every_freedom_is_taken() -> None:
    taken: Counter[str] = Counter()
    exercised: set[str] = set()
    for seed in range(60):
        run = RandomRun(seed)
        report = check(run.play())
        broken = {label: verdict.violation for label, verdict in report.verdicts.items() if verdict.violation}
        assert not broken, f"seed {seed}: {broken}"
        exercised |= {label for label, verdict in report.verdicts.items() if verdict.state is State.HOLDS}
        taken += run.world.oracle.taken
    assert [kind for kind in CHOICES if not taken[kind]] == []
    assert [kind for kind in taken if kind not in CHOICES] == []
    owed = [
        each.id for each in BY_ID.values() if Boundary.CLIENTS in each.boundaries and each.form is not Form.DEFINITION
    ]
    assert [id for id in owed if id not in exercised] == []


@pytest.mark.parametrize("settings", HASTY)
def test_every_property_holds_whatever_the_temper(settings: OracleSettings) -> None:
    for seed in range(10):
        assert explained(RandomRun(f"hasty {seed}", rounds=250, settings=settings)) == []


def test_without_a_stable_end_the_world_still_becomes_quiet() -> None:
    for seed in range(10):
        run = RandomRun(f"unstable {seed}", rounds=150)
        run._heal = lambda: None  # type: ignore[method-assign]
        for name in run.names:
            run.world.start(name)
        for _ in range(run.rounds):
            run.world.run_until(run.world.now + run.choice.below(5_000))
            run._request()
        run.world.run_until(run.world.now + 60_000_000)
        assert run.world.is_quiet


def test_it_settles_within_its_bound() -> None:
    for seed in range(20):
        run = RandomRun(f"bound {seed}", rounds=200)
        run.play()  # asserts that all is quiet within the bound after the last request
        calm = run.world
        calm.connect_links(*[(name,) for name in run.names])
        calm.run_until(calm.now + calm.oracle._world.settings.settle_within_us)
        assert calm.is_quiet


# --- the same bytes ------------------------------------------------------------------------------------------------

DIGEST = "from tests.spec.test_oracle_runs import digest_of; print(digest_of(7))"


def digest_of(seed: int) -> str:
    run = RandomRun(seed)
    rows = run.play()
    taken = sorted(run.world.oracle.taken.items())
    return hashlib.blake2b(msgspec.json.encode([rows, taken])).hexdigest()


def test_the_same_seed_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, cwd=root, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert digests == {digest_of(7)}


# --- bounded memory ------------------------------------------------------------------------------------------------


def test_a_long_view_does_not_grow() -> None:
    world = OracleWorld("long", OracleSettings(disturb_every=0))
    for name in ("d1", "d2", "d3"):
        world.start(name)
    world.stabilise(("d1", "d2", "d3"))
    world.end()
    clients = [world.connect(name, "c") for name in ("d1", "d2", "d3")]
    for client in clients:
        world.join(client, "g")
    for number in range(6_000):
        world.send(clients[number % 3], Service(1 + number % 5), "g")
        world.run_until(world.now + 200)
    view = world.oracle._world.alive["d1"].view
    assert view is not None and len(view.log) < 2_000
    world.end()
    assert check(world.rows).verdicts["EVS-2.15"].state is State.HOLDS


def test_a_view_that_nobody_is_in_keeps_nothing() -> None:
    world = OracleWorld("left")
    world.start("d1")
    world.start("d2")
    world.stabilise(("d1", "d2"))
    world.end()
    old = world.oracle._world.alive["d1"].view
    world.connect_links(("d1",), ("d2",))
    world.end()
    assert old is not None and old.log == []

"""A user's counter that forgets the transitional signal is found out and replayed; the right one passes."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from examples.replicated_counter import test_counter
from examples.replicated_counter.counter import NEVER, Counted, Counter, Increment

import isotone
from isotone.core.ids import ClientId, DaemonId, DaemonViewId, GroupViewId, Stamp
from isotone.core.views import Cause
from tests.testing import plugin

ROOT = Path(__file__).resolve().parents[2]
FORGETFUL = "examples/replicated_counter/test_forgetful.py"
R1, R2, R3 = (ClientId(DaemonId(f"d{n}", 1), f"r{n}", 1) for n in (1, 2, 3))
REPLAY = re.compile(r"^(pytest \S+test_forgetful.py::\S+ --isotone-seed=(\d+))$", re.MULTILINE)


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin.arguments(), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


class Silence:
    """A group to which everything may be said."""

    async def send(self, body: bytes, *, service: object) -> None:
        del body, service


def view_of(id: GroupViewId, members: tuple[ClientId, ...], stay: tuple[ClientId, ...]) -> isotone.View:
    return isotone.View("counter", id, members, stay, Cause.NETWORK)


async def hear_the_end_of_a_view(counter: Counter, *, last_told_before_the_cut: bool) -> None:
    """As r1 hears it: r3 is cut off, and had heard everything that it sent before any signal, so it was confirmed."""
    before, after = DaemonViewId(2, R1.daemon), DaemonViewId(3, R1.daemon)
    all_three, way_out = GroupViewId(before), GroupViewId(before, after, Stamp(0, R1.daemon))
    await counter._on_view(view_of(all_three, (R1, R2, R3), (R1, R2, R3)))
    for sender in (R1, R2):
        await counter._on_message(sender, Counted(all_three, NEVER, []))
    last = Counted(all_three, NEVER, ["r3.1"])
    if last_told_before_the_cut:
        await counter._on_message(R3, last)
    counter._on_transitional()
    await counter._on_view(view_of(way_out, (R1, R2, R3), (R1, R2)))
    counter._on_transitional()
    if not last_told_before_the_cut:
        await counter._on_message(R3, last)
    await counter._on_message(R3, Increment("r3.2"))
    two = GroupViewId(after)
    await counter._on_view(view_of(two, (R1, R2), (R1, R2)))
    for sender in (R1, R2):
        await counter._on_message(sender, Counted(two, counter._up_to, sorted(counter.operations)))


@pytest.mark.parametrize("last_told_before_the_cut", [True, False])
def test_what_comes_in_a_view_of_the_transition_is_counted(last_told_before_the_cut: bool) -> None:
    """SAFE promises that members hear it, and not that it is in the same view (2.14.2)."""
    counter = Counter(cast("isotone.Group", Silence()), replicas=3)
    asyncio.run(hear_the_end_of_a_view(counter, last_told_before_the_cut=last_told_before_the_cut))
    assert counter.counts
    assert counter.operations == {"r3.1", "r3.2"}


def test_the_counter_passes_a_hundred_seeds() -> None:
    test_counter.test_no_confirmed_increment_is_lost()


def test_the_forgetful_counter_is_found_out_and_replayed() -> None:
    found = run_pytest(FORGETFUL)
    assert found.returncode == 1, found.stdout + found.stderr
    line, seed = REPLAY.findall(found.stdout)[0]
    lost = re.findall(r"AssertionError: confirmed, and lost: .*", found.stdout)
    assert lost
    again = run_pytest(*shlex.split(line)[1:])
    assert again.returncode == 1
    replayed = {*re.findall(r"AssertionError: confirmed, and lost: .*", again.stdout)}
    assert replayed and replayed <= {*lost}, "each block of seeds that fails tells its own"
    assert f"seed {seed} fails" in again.stdout

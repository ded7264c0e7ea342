"""Atomic commitment [COReL 8.3] with a participant that crashes in each phase: the others decide, and alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

import isotone
import isotone.testing
from isotone.core.errors import IsotoneError
from isotone.replicated.locks import Commitment
from isotone.replicated.state import ReplicatedState

PARTICIPANTS = ["d1", "d2", "d3"]


@asynccontextmanager
async def programs() -> AsyncIterator[tuple[isotone.testing.Cluster, dict[str, ReplicatedState]]]:
    """A program at each of three servers."""
    cluster = isotone.testing.cluster(daemons=3, log="deals")
    async with cluster as c, c.replica("d1") as one, c.replica("d2") as two, c.replica("d3") as three:
        yield c, {"d1": one, "d2": two, "d3": three}


def deal_of(program: ReplicatedState) -> Commitment:
    return program.commitment("deal", PARTICIPANTS)


async def vote_and_crash(c: isotone.testing.Cluster, program: ReplicatedState, phase: str) -> None:
    """What the participant d1 does until it crashes."""
    deal = deal_of(program)
    if phase != "before it began":
        await deal.begin("d1", within_s=30)
    if phase == "while its vote is under way":
        voting = asyncio.ensure_future(deal.vote("d1", yes=True))
        await asyncio.sleep(0)
        c.crash("d1")
        with suppress(IsotoneError):
            await voting
        return
    if phase == "after its vote":
        with suppress(IsotoneError):
            await deal.vote("d1", yes=True, within_s=0.5)
    c.crash("d1")


@pytest.mark.parametrize(
    ("phase", "decisions"),
    [
        ("before it began", {False}),
        ("before its vote", {False}),
        ("while its vote is under way", {True, False}),
        ("after its vote", {True}),
    ],
)
@isotone.testing.seeds(2)
async def test_a_participant_crashes(phase: str, decisions: set[bool]) -> None:
    async with programs() as (c, program):
        await program["d2"].counter("warm").add(within_s=30)
        await vote_and_crash(c, program["d1"], phase)
        votes = [asyncio.ensure_future(deal_of(program[each]).vote(each, yes=True)) for each in ("d2", "d3")]
        if phase == "before it began":  # nobody knows that it ever will: one of the others does not wait longer
            assert not await deal_of(program["d2"]).abort(within_s=60)
        told = {await asyncio.wait_for(vote, 120) for vote in votes}
        assert len(told) == 1 and told <= decisions
        c.restart("d1")
        async with c.replica("d1") as again:
            assert {await deal_of(again).decision(within_s=60)} == told


@isotone.testing.seeds(2)
async def test_all_crash_behind_their_votes() -> None:
    async with programs() as (c, program):
        votes = [asyncio.ensure_future(deal_of(program[each]).vote(each, yes=True)) for each in PARTICIPANTS]
        told = {await asyncio.wait_for(vote, 60) for vote in votes}
        assert told == {True}
        for each in PARTICIPANTS:
            c.crash(each)
        for each in PARTICIPANTS:
            c.restart(each)
        async with c.replica("d1") as one, c.replica("d2"), c.replica("d3"):
            assert await deal_of(one).decision(within_s=60)
            assert await deal_of(one).abort(within_s=60), "too late: it stays committed"


@isotone.testing.seeds(2)
async def test_a_majority_decides_without_a_participant_that_is_cut_off() -> None:
    async with programs() as (c, program):
        for each in PARTICIPANTS:
            await deal_of(program[each]).begin(each, within_s=30)
        c.partition(["d1", "d2"], ["d3"])
        votes = [asyncio.ensure_future(deal_of(program[each]).vote(each, yes=True)) for each in ("d1", "d2")]
        late = asyncio.ensure_future(deal_of(program["d3"]).vote("d3", yes=True, within_s=300))
        told = {await asyncio.wait_for(vote, 120) for vote in votes}
        assert told == {False}, "its lease ran out"
        c.heal()
        with suppress(IsotoneError):  # its session is over
            assert await late in told
        assert await deal_of(program["d3"]).decision(within_s=120) in told

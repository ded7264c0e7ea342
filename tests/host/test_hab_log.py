"""Processes of data centres in one program: one order, a disaster, a take-over, a return; who may say what."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from isotone.core.addresses import split_address
from isotone.core.errors import InputError
from isotone.core.ordered_log import Refused
from isotone.daemon.security.keys import authority_of, generate_key
from isotone.hab.centre import Role
from isotone.host.hab_acts import Act, Challenge, Wish, ask_process, judge_act, sign_act
from isotone.host.hab_streams import Proof
from tests.host.centres import Centres

DEADLINE_S = 120.0


def run_with(directory: Path, sizes: dict[str, int], main: Callable[[Centres], Awaitable[None]], **more: str) -> None:
    """One test; all that runs is stopped in any case."""

    async def timed() -> None:
        centres = Centres(directory, sizes, **more)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await main(centres)
        finally:
            await centres.stop(*centres.running)

    asyncio.run(timed())


def test_a_dict_on_three_centres_through_a_disaster_and_back(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        await centres.found()
        for name in ("a1", "b1", "c1"):
            await centres.running[name].dict("stock").set(name, name)
        assert await centres.running["c1"].dict("stock").get("a1") == "a1"

        await centres.stop("a1")
        status = (await centres.ask("b1")).status
        life = next(each["life"] for each in status["centres"] if each["name"] == "a")
        writing = asyncio.create_task(centres.running["c1"].dict("stock").set("late", 1))
        reply = await centres.ask("c1", Act("declare-lost", "a", life))
        assert reply.outcome == "done", reply
        await writing
        assert centres.running["b1"].centre_log.hab.centre.role is Role.PRIMARY
        assert await centres.running["b1"].dict("stock").get("late") == 1

        await centres.start("a1")
        rejoined = await centres.ask("a1", Act("rejoin", "a"))  # it still takes itself for the primary
        assert rejoined.outcome == "done" and "is back as a backup" in rejoined.text
        assert await centres.running["a1"].dict("stock").get("late") == 1
        await centres.stop("a1")
        await centres.start("a1")
        await centres.running["a1"].ready()
        assert await centres.running["a1"].dict("stock").get("late") == 1
        await centres.running["a1"].dict("stock").set("back", 1)
        assert (await centres.ask("b1", Act("handover", "a"))).outcome == "done"
        await centres.running["c1"].dict("stock").set("after", 1)
        assert await centres.running["a1"].dict("stock").get("after") == 1

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)


def test_a_centre_whose_disks_are_lost_comes_back_by_itself_and_is_never_taken_for_a_new_one(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        assert "no state" in centres.running["a1"].why_not_ready()
        await centres.found()
        await centres.running["a1"].dict("stock").set("apples", 3)
        await centres.stop("a1")
        for kept in ("node", "log"):
            shutil.rmtree(tmp_path / "a1" / kept)
        await centres.start("a1")
        assert await centres.running["a1"].dict("stock").get("apples", within_s=DEADLINE_S) == 3
        status = (await centres.ask("a1")).status
        assert status["role"] == "backup" and status["number"] == 4
        assert (await centres.ask("a1", Act("found", "a"))).outcome == "done"  # it has begun long ago: nothing happens
        assert (await centres.ask("a1")).status["number"] == 4

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)


def test_only_operators_act_each_with_a_key_of_his_own(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        await centres.start("b1")
        act = Act("found", "b")
        wide = centres.file.processes["b1"].wide
        stranger = await ask_process(wide, act, "carl", centres.keys["anna"])
        assert stranger.outcome == "refused" and "no operator is called 'carl'" in stranger.text
        borrowed = await ask_process(wide, act, "ben", centres.keys["anna"])
        assert borrowed.outcome == "refused" and "signature" in borrowed.text
        assert (await centres.ask("b1")).status["epoch"] == 0
        other = await centres.ask("b1", Act("found", "a"))
        assert other.outcome == "refused" and "this process is of b" in other.text

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)


def test_a_signature_is_for_one_process_and_one_moment() -> None:
    key = authority_of(b"k" * 32)
    challenge = Challenge("b1", "shop", b"c" * 32)
    wish = sign_act(challenge, Act("handover", "b"), "anna", key)
    assert judge_act(challenge, wish, {"anna": key.public}) == Act("handover", "b")
    for other in (
        Challenge("b2", "shop", b"c" * 32),
        Challenge("b1", "shop", b"d" * 32),
        Challenge("b1", "x", b"c" * 32),
    ):
        with pytest.raises(Refused):
            judge_act(other, wish, {"anna": key.public})
    with pytest.raises(Refused):
        judge_act(challenge, Wish(wish.act.replace("b", "c"), "anna", wish.signature), {"anna": key.public})


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("confirmations = 3", "confirmations = 3, and there are 2 operators"),
        ('mode = "soon"', "Invalid enum value 'soon'"),
        ("patience = 3", "unknown field `patience`"),
    ],
)
def test_a_wrong_settings_file_says_what_is_wrong(tmp_path: Path, head: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Centres(tmp_path, {"a": 1, "b": 1}, head=head)


def test_a_process_with_the_key_of_another_is_not_let_in(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        await centres.start("b1")
        thief = Proof("a1", generate_key(tmp_path / "thief.key"), centres.file.roster())
        reader, writer = await asyncio.open_connection(*split_address(centres.file.processes["b1"].wide))
        await thief.call(reader, writer)
        assert await reader.read() == b""  # it was closed
        writer.close()
        streams = centres.running["b1"].centre_log.streams
        assert streams.refused == 1

    run_with(tmp_path, {"a": 1, "b": 1}, main)

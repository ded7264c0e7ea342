"""Processes of data centres in one program: one order, a disaster, a take-over, a return; who may say what."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import isotone
from isotone.core.addresses import split_address
from isotone.core.errors import InputError
from isotone.core.ordered_log import Refused
from isotone.daemon.security.keys import authority_of, generate_key
from isotone.hab.centre import Role
from isotone.hab.settings import HabSettings
from isotone.host import hab_settings
from isotone.host.hab_acts import Act, Challenge, Wish, ask_process, judge_act, sign_act
from isotone.host.hab_log import AtRisk
from isotone.host.hab_settings import CentresFile, read_centres
from isotone.host.hab_streams import Proof
from tests.host.centres import Centres

DEADLINE_S = 300.0


def run_with(directory: Path, sizes: dict[str, int], main: Callable[[Centres], Awaitable[None]], **more: Any) -> None:
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
        await centres.act("c1", Act("declare-lost", "a", life))
        await writing
        assert centres.running["b1"].centre_log.hab.centre.role is Role.PRIMARY
        assert await centres.running["b1"].dict("stock").get("late") == 1

        await centres.start("a1")
        await centres.act("a1", Act("rejoin", "a"))  # it still takes itself for the primary
        assert centres.running["a1"].centre_log.hab.centre.role is Role.BACKUP
        assert await centres.running["a1"].dict("stock").get("late") == 1
        await centres.stop("a1")
        await centres.start("a1")
        await centres.running["a1"].ready()
        assert await centres.running["a1"].dict("stock").get("late") == 1
        await centres.running["a1"].dict("stock").set("back", 1)
        await centres.act("b1", Act("handover", "a"))
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
        await centres.act("a1", Act("found", "a"))  # it has begun long ago: nothing happens
        assert (await centres.ask("a1")).status["number"] == 4

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)


def orders() -> isotone.Procedures:
    made = isotone.Procedures("orders")

    @made.procedure
    def place(db: Any, name: str) -> None:
        db.execute("CREATE TABLE IF NOT EXISTS placed (name TEXT PRIMARY KEY)")
        db.execute("INSERT INTO placed VALUES (?)", name)

    return made


def test_a_database_in_files_of_which_each_life_of_a_centre_has_its_own(tmp_path: Path) -> None:
    def on_disk(name: str) -> dict[str, list[str]]:
        """By life: the rows that any other program sees."""
        found = {}
        for file in (tmp_path / name / "databases").glob("*/orders.sqlite"):
            with closing(sqlite3.connect(file)) as connection:
                rows = connection.execute("SELECT name FROM placed ORDER BY name").fetchall()
                found[file.parent.name] = [name for (name,) in rows]
        return found

    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        await centres.found()
        for name in ("a1", "b1"):
            await centres.running[name].database("orders").call("place", name)
        await centres.stop("a1")
        assert on_disk("a1") == {"life-0": ["a1", "b1"]}
        (tmp_path / "a1" / "databases" / "life-0" / "orders.sqlite-wal").unlink(missing_ok=True)
        with closing(sqlite3.connect(tmp_path / "a1" / "databases" / "life-0" / "orders.sqlite")) as connection:
            connection.execute("INSERT INTO placed VALUES ('of an order that nobody else has')")
            connection.commit()
        await centres.act("c1", Act("declare-lost", "a"))
        await centres.running["c1"].database("orders").call("place", "c1")
        await centres.start("a1")
        await centres.act("a1", Act("rejoin", "a"))
        database = centres.running["a1"].database("orders")
        assert await database.read("SELECT name FROM placed ORDER BY name") == [("a1",), ("b1",), ("c1",)]
        ((life, rows),) = on_disk("a1").items()
        assert life != "life-0" and rows == ["a1", "b1", "c1"]
        await centres.stop("a1")
        await centres.start("a1")
        await centres.running["a1"].database("orders").call("place", "after")
        assert on_disk("a1") == {life: ["a1", "after", "b1", "c1"]} and set(on_disk("b1")) == {"life-0"}

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main, databases=(orders(),))


def test_a_broadcast_costs_two_messages_to_each_other_centre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As [HAB Table 1] has it, one broadcast at a time; and nothing beside them but keep-alives."""
    monkeypatch.setattr(hab_settings, "ANSWER_US", 600_000_000)  # no answer is late, on however busy a machine

    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        await centres.found()
        logs = {name: objects.centre_log for name, objects in centres.running.items()}
        for objects in centres.running.values():
            await objects.ready()
            await objects.close()  # what they do by themselves is ordered too
        for log in logs.values():
            await log.until(lambda log=log: not log.hab.submissions.pending)  # type: ignore[misc]
        end = await logs["a1"].append(b"the last before we count")
        await asyncio.gather(*(log.wait_for(end) for log in logs.values()))

        async def counted(name: str, count: int) -> dict[str, Counter[str]]:
            before = {each: Counter(log.crossed) for each, log in logs.items()}
            for number in range(count):
                await logs[name].append(b"%d" % number)
            found = {each: log.crossed - before[each] for each, log in logs.items()}
            for each in found.values():
                del each["Alive"]
            return found

        stored = {"OkStored": 5}
        assert await counted("a1", 5) == {"a1": {"Store": 10}, "b1": stored, "c1": stored}
        # From a backup it is sent there, and that is answered: before it is delivered here.
        count = logs["a1"].settings.stores_under_way_max  # more may have to wait for c, and travel together then
        told = await counted("b1", count)
        assert told["b1"]["Send"] == told["a1"]["OkSent"] == count and told["a1"]["Store"] == 2 * count
        status = (await centres.ask("a1")).status
        assert status["crossed"]["Store"] == logs["a1"].crossed["Store"]

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main)


def test_at_once_says_what_can_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = CentresFile.settings

    def with_a_long_lease(file: CentresFile) -> HabSettings:
        return msgspec.structs.replace(made(file), lease_us=600_000_000)

    monkeypatch.setattr(CentresFile, "settings", with_a_long_lease)

    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1", "c1")
        await centres.found()
        primary = centres.running["a1"]
        await primary.ready()
        await primary.dict("stock").set("apples", 3)
        await primary.confirmed()
        log = primary.centre_log
        told = await log.append(b"at once")
        assert isinstance(told, AtRisk) and await log.read(told, told) != []
        await log.until_confirmed(told)
        assert log.confirmed >= told
        await centres.stop("b1", "c1")
        lacking = await log.append(b"nobody else hears of it")
        assert isinstance(lacking, AtRisk)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await log.until_confirmed(lacking)

    run_with(tmp_path, {"a": 1, "b": 1, "c": 1}, main, head='confirmations = 1\nmode = "at-once"')


def test_in_the_mode_waiting_an_answer_of_the_primary_is_sure(tmp_path: Path) -> None:
    async def main(centres: Centres) -> None:
        await centres.start("a1", "b1")
        await centres.found()
        log = centres.running["a1"].centre_log
        await centres.running["a1"].ready()
        told = await log.append(b"stored at b")
        assert not isinstance(told, AtRisk) and log.confirmed >= told

    run_with(tmp_path, {"a": 1, "b": 1}, main)


def test_an_automatic_detector_is_a_setting_that_says_what_it_is(tmp_path: Path) -> None:
    usual = Centres(tmp_path, {"a": 1, "b": 1}).file
    assert usual.settings().declare_unsafely_after_us == 0
    path = tmp_path / "automatic.toml"
    path.write_text("declare_unsafely_after_seconds = 30\n" + (tmp_path / "centres.toml").read_text())
    assert read_centres(path).settings().declare_unsafely_after_us == 30_000_000


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
        ("declare_unsafely_after_seconds = 0.5", "a busy data centre counts as lost"),
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

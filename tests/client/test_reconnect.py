"""Streams that break, daemons that are restarted, readers that do not read: what the program hears of it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import pytest

import isotone
from isotone.client import Disconnected, NoAnswer, Overrun, Settings, UnknownFate
from isotone.client.events import Interrupted, Resumed
from isotone.client.group import Membership
from isotone.core import boundary as b4
from isotone.evs.sessions.messages import EndCode
from isotone.evs.sessions.settings import ClientSettings, ServerSettings, SlowPolicy
from tests.client.daemon import Daemon, run, within

QUICK = Settings(session=ClientSettings(retry_first_us=2_000, retry_max_us=20_000), pause_max_s=0.02)


def test_within_the_time_to_resume_nothing_is_lost() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat = await me.join("chat")
            bodies = [b"%d" % number for number in range(300)]

            async def send_all() -> None:
                for body in bodies:
                    await chat.send(body)

            sending = asyncio.create_task(send_all())
            heard: list[bytes] = []
            async for event in chat:
                assert isinstance(event, isotone.View | isotone.Message)
                if isinstance(event, isotone.Message):
                    heard.append(event.body)
                    if len(heard) % 50 == 0:
                        daemon.cut()
                if len(heard) == len(bodies):
                    break
            await within(sending)
            assert heard == bodies == daemon.sent("alice")
            assert daemon.sessions.counters.resumed >= 5
            notices = [await within(me.receive()) for _ in range(2)]
            assert isinstance(notices[0], Interrupted) and notices[1] == Resumed()

    run(main)


def test_a_restarted_daemon_is_a_new_session_and_tells_what_was_missed() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat, quiet = await me.join("chat"), await me.join("quiet")
            await chat.send(b"heard")
            await chat.receive()
            old, before = chat.view, me.id
            assert isinstance(await chat.receive(), isotone.Message)
            daemon.held = deque()
            await chat.send(b"taken and not heard", type=3)
            await me.send("elsewhere", b"taken elsewhere")
            confirming = asyncio.create_task(chat.send(b"unconfirmed", confirm=True))
            calling = asyncio.create_task(chat.call(b"call", deadline=20.0))
            await daemon.until(lambda: len(daemon.sent("alice")) == 5)
            daemon.held = None
            daemon.restart()
            with pytest.raises(isotone.Unconfirmed) as lost:
                await within(confirming)
            assert lost.value.reason == "disconnected"
            with pytest.raises(NoAnswer, match="disconnected"):
                await within(calling)
            again = await within(chat.receive())
            assert isinstance(again, isotone.Reconnected)
            assert again.old_view == old and again.new_view == chat.view
            told = [(each.body, each.type, each.taken) for each in again.unknown]
            assert told[:2] == [(b"taken and not heard", 3, True), (b"unconfirmed", 0, told[1][2])]
            assert told[2][0] == b"call" and len(told) == 3
            assert await within(chat.receive()) == chat.view
            assert me.id != before and me.id.daemon.incarnation == 2
            await quiet.receive()
            unhurt = await within(quiet.receive())
            assert isinstance(unhurt, isotone.Reconnected) and unhurt.unknown == ()
            await chat.send(b"goes on", confirm=True)
            assert daemon.sent("alice") == [b"goes on"]

    run(main)


def test_what_never_left_is_sent_in_the_next_session() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat = await me.join("chat")
            await daemon.deafen()
            daemon.restart()
            while me.is_connected:
                await asyncio.sleep(0)
            waiting = [asyncio.create_task(chat.send(b"%d" % number)) for number in range(5)]
            many = asyncio.create_task(me.send_many("chat", [bytes(50_000)] * 30))
            await asyncio.sleep(0)
            waiting[3].cancel()
            await daemon.listen()
            came = await within(asyncio.gather(*waiting, many, return_exceptions=True))
            assert [each for each in came if not isinstance(each, isotone.Receipt)] == [came[3]]
            assert daemon.sent("alice")[:4] == [b"0", b"1", b"2", b"4"] and len(daemon.sent("alice")) == 34
            await chat.receive()
            again = await within(chat.receive())
            assert isinstance(again, isotone.Reconnected)
            assert [each.body for each in again.unknown] == [b"3"]

    run(main)


def test_what_may_have_left_is_of_unknown_fate() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat = await me.join("chat")
            sending = asyncio.create_task(chat.send(b"x"))
            await asyncio.sleep(0)
            daemon.restart()
            with pytest.raises(UnknownFate):
                await within(sending)
            await chat.receive()
            again = await within(chat.receive())
            assert isinstance(again, isotone.Reconnected)
            assert [(each.body, each.taken) for each in again.unknown] == [(b"x", False)]

    run(main)


def test_another_daemon_takes_over_when_the_first_is_gone() -> None:
    async def main() -> None:
        brief = Settings(
            session=ClientSettings(retry_first_us=2_000, retry_max_us=10_000, resume_within_us=50_000), pause_max_s=0.02
        )
        async with Daemon() as one, Daemon() as other:
            places = [one.address, other.address]
            async with isotone.connect(places, name="alice", settings=brief) as me:
                chat = await me.join("chat")
                await one.deafen()
                one.cut()
                await chat.receive()
                assert isinstance(await within(chat.receive()), isotone.Reconnected)
                await chat.send(b"there")
                assert other.sent("alice") == [b"there"] and one.sent("alice") == []

    run(main)


def test_time_runs_out() -> None:
    async def main() -> None:
        brief = Settings(
            session=ClientSettings(retry_first_us=2_000, retry_max_us=10_000, resume_within_us=20_000),
            reconnect_within_s=0.05,
        )
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=brief) as me:
            chat = await me.join("chat")
            await daemon.deafen()
            daemon.cut()
            await chat.receive()
            with pytest.raises(Disconnected) as over:
                await within(chat.receive())
            assert over.value.code == "unreachable"
            for deed in (chat.send(b"x"), me.send("g", b"x"), me.join("more")):
                with pytest.raises(isotone.ClientError):
                    await deed
            notices = [type(event) async for event in _until_error(me)]
            assert notices == [Interrupted]

    async def _until_error(me: isotone.Session):  # type: ignore[no-untyped-def]
        try:
            async for event in me.events():
                yield event
        except Disconnected:
            return

    run(main)


def test_who_lost_the_name_does_not_fight_for_it() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as first:
            chat = await first.join("chat")
            await daemon.deafen()
            daemon.cut()
            await daemon.until(lambda: not daemon.peers)
            await daemon.listen()
            session = next(iter(daemon.sessions._table.admission.sessions.values()))
            daemon.sessions._table.end(session, EndCode.REPLACED, "another client came", daemon.now(), [])
            await chat.receive()
            with pytest.raises(Disconnected, match="another client came"):
                await within(chat.receive())

    run(main)


def test_a_name_in_use_is_waited_for_when_it_was_ours(caplog: pytest.LogCaptureFixture) -> None:
    """And not silently: the log has the reason, once however often it is tried."""

    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat = await me.join("chat")
            daemon.groups.refuses["alice"] = "not now"
            daemon.restart()
            daemon.groups.refuses["alice"] = "not now"
            await daemon.until(lambda: daemon.sessions.counters.ended[EndCode.REFUSED] >= 3)
            daemon.groups.refuses.clear()
            await chat.receive()
            assert isinstance(await within(chat.receive()), isotone.Reconnected)

    run(main)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "alice opens another session: not now (refused)"
    ]


SMALL = Settings(inbox_bytes_max=100_000, overrun_bytes_max=400_000)


def test_a_program_that_does_not_read_is_slow_and_a_policy_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        settings = ServerSettings(buffer_bytes_max=1_000_000, policy=SlowPolicy.DISCONNECT)
        async with (
            Daemon(settings=settings) as daemon,
            isotone.connect(daemon.address, name="slow", settings=SMALL) as slow,
            isotone.connect(daemon.address, name="alice") as alice,
        ):
            chat = await slow.join("chat")
            while not daemon.sessions.counters.ended[EndCode.SLOW]:
                await within(alice.send("chat", bytes(60_000)))
            assert slow._pressure.paused and slow._pressure.held < 1_000_000
            kinds: list[type] = []
            async for event in chat:
                kinds.append(type(event))
                if isinstance(event, isotone.Reconnected):
                    assert event.code == "slow" and "bytes" in event.reason
                    break
            assert isotone.Message in kinds
            assert "most of chat" in caplog.text

    with caplog.at_level(logging.WARNING, "isotone.client"):
        run(main)


def test_a_program_that_reads_again_goes_on() -> None:
    async def main() -> None:
        settings = ServerSettings(buffer_bytes_max=1_000_000, policy=SlowPolicy.BLOCK)
        async with (
            Daemon(settings=settings) as daemon,
            isotone.connect(daemon.address, name="slow", settings=SMALL) as slow,
            isotone.connect(daemon.address, name="alice") as alice,
        ):
            chat = await slow.join("chat")
            sending = asyncio.create_task(alice.send_many("chat", [bytes(50_000)] * 400))
            await daemon.until(lambda: daemon.sessions.counters.blocked > 0)
            assert not sending.done()
            count, warned = 0, 0
            while count < 400:
                event = await within(chat.receive())
                count += isinstance(event, isotone.Message)
                warned += isinstance(event, isotone.Slow)
            await within(sending)
            assert warned and not slow._pressure.paused and slow._pressure.held < 10_000

    run(main)


def test_a_session_is_resumed_also_while_the_program_does_not_read() -> None:
    async def main() -> None:
        small = Settings(session=QUICK.session, inbox_bytes_max=100_000, overrun_bytes_max=400_000)
        async with (
            Daemon(settings=ServerSettings(heartbeat_us=200_000)) as daemon,  # who does not read notices a break then
            isotone.connect(daemon.address, name="slow", settings=small) as slow,
            isotone.connect(daemon.address, name="alice") as alice,
        ):
            chat = await slow.join("chat")
            await alice.send_many("chat", [bytes(50_000)] * 200)
            await daemon.until(lambda: slow._pressure.paused)
            for times in range(1, 4):
                cut = next(each.stream for each in daemon.sessions._table.streams.values() if each.client == slow.id)
                assert cut is not None
                daemon.peers[cut].transport.abort()
                await daemon.until(lambda wanted=times: daemon.sessions.counters.resumed == wanted)  # type: ignore[misc]
            heard = [await within(chat.receive()) for _ in range(201)]
            assert [isinstance(each, isotone.Message) for each in heard] == [False] + [True] * 200

    run(main)


def test_sending_inside_the_loop_does_not_wait_for_its_own_reading() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="loop", settings=Settings(inbox_bytes_max=100_000)) as me,
            isotone.connect(daemon.address, name="alice") as alice,
        ):
            chat = await me.join("chat")
            flood = asyncio.create_task(alice.send_many("chat", [bytes(1_000)] * 2_000))
            seen = 0
            async for event in chat:
                if isinstance(event, isotone.Message) and event.sender == alice.id:
                    seen += 1
                    if seen % 100 == 0:
                        await within(chat.send(b"still here"))
                    if seen == 2_000:
                        break
            await within(flood)

    run(main)


def test_waiting_without_reading_fails_before_memory_does() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="deaf", settings=SMALL) as me,
            isotone.connect(daemon.address, name="alice") as alice,
        ):
            chat = await me.join("chat")
            calling = asyncio.create_task(chat.call(b"anybody?", answers=1, deadline=60.0))
            await alice.join("chat")
            flood = asyncio.create_task(alice.send_many("chat", [bytes(50_000)] * 100))
            with pytest.raises((Overrun, NoAnswer)):
                await within(calling)
            flood.cancel()
            assert me._pressure.held < 3_000_000

    run(main)


def test_private_messages_that_nobody_ever_reads_do_not_stop_the_session() -> None:
    async def main() -> None:
        frugal = Settings(private_unread_max=10_000)
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="bob", settings=frugal) as bob,
            isotone.connect(daemon.address, name="alice") as alice,
        ):
            chat = await bob.join("chat")
            for number in range(50):
                await alice.send(bob.id, b"%d" % number + bytes(1_000))
            await alice.send("chat", b"end")
            while not isinstance(await within(chat.receive()), isotone.Message):
                pass
            assert bob.dropped_private > 30
            last = [await bob.receive() for _ in range(50 - bob.dropped_private)][-1]
            assert isinstance(last, isotone.Message) and last.body.startswith(b"49")

    run(main)


def test_a_leave_that_meets_the_end_of_the_session_is_a_leave() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat = await me.join("chat")
            leaving = asyncio.create_task(chat.leave())
            await asyncio.sleep(0)
            daemon.restart()
            await within(leaving)
            assert [type(event) async for event in chat] == [isotone.View, isotone.SelfLeave]
            again = await within(me.join("chat"))
            assert again.is_member and isinstance(await again.receive(), isotone.View)
            assert [type(request) for _, request in daemon.asked].count(b4.Join) == 2

    run(main)


def holds_view_of(group: str) -> Callable[[b4.Indication], bool]:
    return lambda indication: isinstance(indication, b4.View) and indication.view.group == group


def test_no_message_of_a_new_session_comes_before_the_group_is_back() -> None:
    """A message to several groups comes once, when we are in one of them; the other has not told its view yet."""

    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            first, second = await me.join("first"), await me.join("second")
            daemon.held, daemon.holds = deque(), holds_view_of("second")
            daemon.restart()
            await daemon.until(lambda: bool(daemon.held) and first.is_member)
            async with isotone.connect(daemon.address, name="bob", settings=QUICK) as bob:
                await bob.send(("first", "second"), b"early")
                heard = [type(await within(first.receive())) for _ in range(4)]
                assert heard == [isotone.View, isotone.Reconnected, isotone.View, isotone.Message]
                daemon.release()
                await bob.send(("first", "second"), b"later")
                heard = [await within(second.receive()) for _ in range(4)]
                kinds = [type(event) for event in heard]
                assert kinds == [isotone.View, isotone.Reconnected, isotone.View, isotone.Message]
                assert isinstance(heard[3], isotone.Message) and heard[3].body == b"later"

    run(main)


def test_who_leaves_before_the_new_view_came_hears_of_the_new_session() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat = await me.join("chat")
            old = chat.view
            daemon.held = deque()
            await chat.send(b"taken and not heard")
            daemon.holds = holds_view_of("chat")
            daemon.restart()
            await daemon.until(lambda: any(isinstance(each.indication, b4.View) for each in daemon.held or ()))
            leaving = asyncio.create_task(chat.leave())
            while chat._membership is not Membership.LEAVING:
                await asyncio.sleep(0)
            daemon.release()
            await within(leaving)
            heard = [event async for event in chat]
            kinds = [type(event) for event in heard]
            assert kinds == [isotone.View, isotone.Reconnected, isotone.View, isotone.SelfLeave]
            assert isinstance(heard[1], isotone.Reconnected) and heard[1].old_view == old != heard[1].new_view
            assert [each.body for each in heard[1].unknown] == [b"taken and not heard"]

    run(main)


def test_what_was_sent_to_a_group_whose_leave_met_the_end_is_told_by_the_session() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=QUICK) as me:
            chat, other = await me.join("chat"), await me.join("other")
            daemon.held = deque()
            await me.send(("chat", "other"), b"both")
            await chat.send(b"chat alone")
            leaving = asyncio.create_task(chat.leave())
            await asyncio.sleep(0)
            daemon.restart()
            await within(leaving)
            assert [type(event) async for event in chat] == [isotone.View, isotone.SelfLeave]
            told = await within(me.receive())
            while not isinstance(told, isotone.Reconnected):
                told = await within(me.receive())
            assert [each.body for each in told.unknown] == [b"chat alone"]
            await other.receive()
            again = await within(other.receive())
            assert isinstance(again, isotone.Reconnected) and [each.body for each in again.unknown] == [b"both"]

    run(main)


def test_a_join_that_is_refused_in_the_new_session_does_not_hide_what_is_unknown() -> None:
    async def main() -> None:
        banned: list[str] = []

        def permit(principal: str, request: b4.Request) -> str:
            return "not allowed" if isinstance(request, b4.Join) and request.group in banned else ""

        async with (
            Daemon(permit=permit) as daemon,
            isotone.connect(daemon.address, name="alice", settings=QUICK) as me,
        ):
            chat = await me.join("chat")
            daemon.held = deque()
            await chat.send(b"lost")
            banned.append("chat")
            daemon.restart()
            await chat.receive()
            told = await within(chat.receive())
            assert isinstance(told, isotone.Reconnected) and told.new_view is None
            assert [each.body for each in told.unknown] == [b"lost"]
            with pytest.raises(isotone.IsotoneError, match="not allowed"):
                await within(chat.receive())

    run(main)


def test_groups_that_were_left_unread_weigh_nothing() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=SMALL) as me:
            for _ in range(30):
                chat = await within(me.join("chat"))
                await within(chat.send(bytes(20_000)))
                await within(chat.leave())
                assert me._pressure.held == 0 and len(chat._inbox) == 3
            kinds = [type(event) async for event in chat]
            assert kinds == [isotone.View, isotone.Message, isotone.SelfLeave] and me._pressure.held == 0

    run(main)

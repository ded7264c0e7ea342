"""The public client against a daemon on loopback: joining, sending, hearing, leaving, closing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import pytest

import isotone
from isotone.client import Closed, NotAMember, NotSent, Refused, Settings
from isotone.client.errors import ConnectFailed
from isotone.core import boundary as b4
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId, DaemonId, MessageId
from isotone.evs.sessions.admission import Admitted, Denied
from isotone.evs.sessions.notices import GroupsHeld
from isotone.evs.sessions.settings import ClientSettings, ServerSettings
from tests.client.daemon import Daemon, run, within
from tests.ports import free_port


def test_the_example_of_the_front_page() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            await chat.send(b"hello", service=isotone.AGREED)
            heard = []
            async for event in chat:
                heard.append(event)
                if isinstance(event, isotone.Message):
                    break
            view, message = heard
            assert isinstance(view, isotone.View) and view.members == (me.id,) == chat.members
            assert isinstance(message, isotone.Message)
            assert (message.body, message.sender, message.groups, message.type) == (b"hello", me.id, ("chat",), 0)
            assert message.service is isotone.AGREED and message.sequence == 1 and message.stamp.lamport

    run(main)


def test_a_session_can_be_awaited_and_a_name_is_found_if_none_is_given() -> None:
    async def main() -> None:
        async with Daemon() as daemon:
            one, other = await isotone.connect([daemon.address]), await isotone.connect([daemon.address])
            assert one.name != other.name and one.private_group == f"#{one.name}#d"
            await one.close()
            await one.close()
            with pytest.raises(Closed):
                await one.send("chat", b"late")
            await other.close()

    run(main)


def test_unix_sockets(tmp_path: object) -> None:
    async def main() -> None:
        async with Daemon(unix=f"{tmp_path}/socket") as daemon, isotone.connect(daemon.address) as me:
            await (await me.join("chat")).send(b"x")
            assert daemon.sent(me.name) == [b"x"]

    run(main)


def test_nobody_there_and_not_let_in() -> None:
    def admit(name: str, credential: bytes, peer: object) -> Admitted | Denied:
        return Admitted("user") if credential == b"right" else Denied("a wrong credential")

    async def main() -> None:
        async with Daemon(admit=admit) as daemon:
            with pytest.raises(ConnectFailed, match="a wrong credential") as refused:
                await isotone.connect(daemon.address, credential="wrong")
            assert refused.value.code == "refused"
            async with isotone.connect(daemon.address, credential="right"):
                pass
            await daemon.deafen()
            brief = Settings(session=ClientSettings(connect_within_us=50_000))
            with pytest.raises(ConnectFailed) as unreachable:
                await isotone.connect(daemon.address, settings=brief)
            assert unreachable.value.code == "unreachable"

    run(main)


def test_many_messages_open_groups_and_private_ones() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="alice") as alice,
            isotone.connect(daemon.address, name="bob") as bob,
        ):
            left, right = await bob.join("left"), await bob.join("right")
            bodies = [b"%d" % number for number in range(20_000)]
            await alice.send_many(["left", "right"], bodies, types=[number % 7 for number in range(20_000)])
            for group in (left, right):
                await group.receive()
                heard = [await group.receive() for _ in bodies]
                assert [event.body for event in heard] == bodies  # type: ignore[union-attr]
                assert [event.type for event in heard[:8]] == [0, 1, 2, 3, 4, 5, 6, 0]  # type: ignore[union-attr]
            await alice.send(bob.private_group, b"by name")
            await alice.send(bob.id, b"by id", type=9)
            first, second = await bob.receive(), await bob.receive()
            assert isinstance(first, isotone.Message) and first.body == b"by name"
            assert isinstance(second, isotone.Message) and (second.body, second.type) == (b"by id", 9)
            assert len(daemon.groups.bundles("alice")) < 20

    run(main)


def test_bundles_are_given_as_a_whole_or_what_is_left_of_them() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address) as me:
            chat = await me.join("chat")
            await chat.send_many([b"a", b"bc", b"", b"d"], types=[1, 2, 3, 4])
            assert isinstance(await chat.receive(), isotone.View)
            first = await chat.receive()
            assert isinstance(first, isotone.Message) and first.body == b"a"
            async for event in chat.bundles():
                assert isinstance(event, isotone.Bundle)
                assert (event.count, event.lengths, event.types) == (3, (2, 0, 1), (2, 3, 4))
                assert bytes(event.payload) == b"bcd" and event.bundle.first_sequence == 2
                assert [each.body for each in event.messages()] == [bytes(each) for each in event.bodies()]
                break

    run(main)


def test_sends_inside_the_loop_and_from_many_tasks() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            await asyncio.gather(*(chat.send(b"%d" % number) for number in range(500)))
            assert daemon.sent("alice") == [b"%d" % number for number in range(500)]
            assert len(daemon.groups.bundles("alice")) < 50, "what is sent in one turn is bundled"
            echoes = 0
            async for event in chat:
                if isinstance(event, isotone.Message):
                    if len(event.body) <= 3:
                        await chat.send(b"again " + event.body)
                    else:
                        echoes += 1
                        if echoes == 500:
                            break

    run(main)


def test_leaving_ends_the_iteration_and_one_may_come_back() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            with pytest.raises(LocalProtocolError, match="already"):
                await me.join("chat")
            await chat.leave()
            kinds = [type(event) async for event in chat]
            assert kinds == [isotone.View, isotone.SelfLeave]
            for deed in (chat.leave(), chat.send(b"x"), chat.receive()):
                with pytest.raises(Closed):
                    await deed
            again = await me.join("chat")
            assert again is not chat and list(me.groups) == ["chat"]

    run(main)


def test_what_is_refused_is_refused_to_whom_it_concerns() -> None:
    def permit(principal: str, request: b4.Request) -> str:
        if isinstance(request, b4.Join) and request.group.startswith("secret"):
            return "not for you"
        if isinstance(request, b4.Leave) and request.group == "a":
            return "not today"
        sends_there = isinstance(request, b4.Send) and "secret" in request.bundle.groups
        return "not for you" if sends_there else ""

    async def main() -> None:
        async with Daemon(permit=permit) as daemon, isotone.connect(daemon.address) as me:
            names = ["a", "secret1", "b", "secret2"]
            came = await asyncio.gather(*map(me.join, names), return_exceptions=True)
            assert [isinstance(each, Refused) for each in came] == [False, True, False, True]
            assert str(came[3]) == "join secret2: not for you" and sorted(me.groups) == ["a", "b"]
            with pytest.raises(NotSent, match="not for you"):
                await me.send("secret", b"x")
            await me.send("a", b"y")
            with pytest.raises(LocalProtocolError, match="private"):
                await me.join("#a#d")
            with pytest.raises(LocalProtocolError, match="encode it"):
                await me.send("a", "text")  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="bound"):
                await me.send("a", bytes(17 * 1024 * 1024))
            await me.send("a", bytes(16 * 1024 * 1024))
            with pytest.raises(Refused, match="leave a: not today"):
                await me.groups["a"].leave()
            assert me.groups["a"].is_member
            await me.groups["b"].leave()

    run(main)


def test_a_join_that_is_cancelled_is_undone() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address) as me:
            joining = asyncio.create_task(me.join("chat"))
            await daemon.until(lambda: any(isinstance(request, b4.Join) for _, request in daemon.asked))
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            again = await within(me.join("chat"))
            kinds = [type(request) for _, request in daemon.asked]
            assert kinds[1:] in ([b4.Join, b4.Leave, b4.Join], [b4.Join]) and again.is_member
            unasked = asyncio.create_task(me.join("other"))
            unasked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await unasked
            assert list(me.groups) == ["chat"]

    run(main)


def test_a_receive_that_is_cancelled_takes_nothing() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address) as me:
            chat = await me.join("chat")
            await chat.receive()
            with pytest.raises(TimeoutError):
                await chat.receive(timeout=0)
            waiting = [asyncio.create_task(chat.receive()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await chat.send_many([b"1", b"2"])
            heard = await within(asyncio.gather(*waiting[1:]))
            assert sorted(each.body for each in heard) == [b"1", b"2"]  # type: ignore[union-attr]

    run(main)


def test_deadlines_credit_and_room() -> None:
    async def main() -> None:
        brief = Settings(session=ClientSettings(queue_bytes_max=50_000))
        narrow = Daemon(settings=ServerSettings(wide_windows_max=0))
        async with narrow as daemon, isotone.connect(daemon.address, name="alice", settings=brief) as me:
            daemon.room(0)
            senders = [asyncio.create_task(me.send("g", b"%03d" % number + bytes(3000))) for number in range(100)]
            late = asyncio.create_task(me.send("g", b"late", deadline=0.02))
            with pytest.raises(NotSent, match="deadline"):
                await within(late)
            assert me._link.room == 0
            senders[90].cancel()
            daemon.room(1 << 30)
            await within(asyncio.gather(*senders, return_exceptions=True))
            assert [each.cancelled() for each in senders].count(True) == 1
            numbers = [int(each[:3]) for each in daemon.sent("alice")]
            assert numbers == [number for number in range(100) if number != 90]

    run(main)


def test_a_turn_that_was_hardly_used_is_passed_on() -> None:
    async def main() -> None:
        brief = Settings(session=ClientSettings(queue_bytes_max=20_000))
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=brief) as me:
            daemon.room(0)
            deeds: list[asyncio.Task[object]] = []
            for number in range(60):
                deeds.append(asyncio.create_task(me.send("g", bytes(10_000))))
                deeds.append(asyncio.create_task(me.join(f"group{number}")))
                deeds.append(asyncio.create_task(me.send("g", bytes(17 * 1024 * 1024))))
            await asyncio.sleep(0)
            daemon.room(1 << 30)
            came = await within(asyncio.gather(*deeds, return_exceptions=True))
            assert [type(each) for each in came[:3]] == [isotone.Receipt, isotone.Group, LocalProtocolError]
            assert len(daemon.sent("alice")) == len(me.groups) == 60

    run(main)


def test_closing_lets_what_was_sent_before_go() -> None:
    async def main() -> None:
        async with Daemon() as daemon:
            me = await isotone.connect(daemon.address, name="alice")
            chat = await me.join("chat")
            reader = asyncio.create_task(_all(chat))
            sends = [asyncio.create_task(chat.send(bytes(30_000))) for _ in range(50)]
            await asyncio.sleep(0)
            await me.close()
            came = await within(asyncio.gather(*sends, return_exceptions=True))
            waited = [each for each in came if isinstance(each, Closed)]
            taken = [each for each in came if isinstance(each, isotone.Receipt)]
            assert waited and len(waited) + len(taken) == 50, "those who had room were taken, others were told"
            assert len(daemon.sent("alice")) == len(taken)
            assert isotone.View in await within(reader)
            with pytest.raises(Closed):
                await me.join("more")

    async def _all(chat: isotone.Group) -> list[type]:
        return [type(event) async for event in chat]

    run(main)


def test_confirmation() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            receipt = await chat.send(b"1", confirm=True)
            await chat.receive()
            message = await chat.receive()
            assert isinstance(message, isotone.Message) and receipt == isotone.Receipt(message.id, message.stamp)
            assert message.service is isotone.SAFE
            assert (await chat.send(b"2")).stamp is None
            with pytest.raises(LocalProtocolError, match="only SAFE"):
                await chat.send(b"x", service=isotone.AGREED, confirm=True)
            with pytest.raises(NotAMember, match="join other first"):
                await me.send(["chat", "other"], b"x", confirm=True)
            assert chat.view is not None
            daemon.say(b4.Transitional("chat", chat.view.id), "alice")
            with pytest.raises(isotone.Unconfirmed) as lost:
                await chat.send(b"3", confirm=True)
            assert lost.value.reason == "transitional"
            assert lost.value.id == MessageId(me.id, 3) and str(lost.value.id) in str(lost.value)
            async with isotone.connect(daemon.address) as other:
                await other.join("chat")
                assert await chat.send(b"4", confirm=True), "a view ends the transition"
            daemon.held = None
            assert await chat.send_many([bytes(40_000)] * 5, confirm=True)

    run(main)


def test_where_nobody_listens_the_first_session_fails_at_once() -> None:
    address = f"127.0.0.1:{free_port()}"

    async def main() -> None:
        patient = Settings(session=ClientSettings(connect_within_us=3_600_000_000))
        with pytest.raises(ConnectFailed, match=f"{address}: Connection refused") as failed:
            await isotone.connect([address, "unix:/nowhere/isotone"], settings=patient)
        assert failed.value.code == "unreachable" and "No such file" in str(failed.value)

    run(main)


def test_who_asks_to_wait_finds_a_daemon_that_comes_later(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Daemon() as daemon:
            await daemon.deafen()
            patient = Settings(wait_for_daemon_s=3_600)
            opening = asyncio.ensure_future(isotone.connect(daemon.address, settings=patient)._open())
            while "Connection refused" not in caplog.text:
                await asyncio.sleep(0)
            await daemon.listen()
            me = await within(opening)
            await me.close()

    run(main)


def test_every_send_returns_the_name_that_readers_hear() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            await chat.receive()
            names = [(await chat.send(b"0")).id, *[await chat.post(b"%d" % number) for number in range(1, 4)]]
            last = await chat.send_many([b"4", b"5"])
            assert last is not None and await chat.send_many([]) is None
            names += [MessageId(me.id, last.id.sequence - 1), last.id, (await me.send("chat", b"6")).id]
            heard = [await within(chat.receive()) for _ in range(7)]
            assert [each.body for each in heard if isinstance(each, isotone.Message)] == [b"%d" % n for n in range(7)]
            assert [each.id for each in heard if isinstance(each, isotone.Message)] == names

    run(main)


def test_names_after_a_message_was_dropped() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            await chat.receive()
            with pytest.raises(NotSent):
                await chat.send(b"too late", deadline=0)
            sent = await chat.send(b"1")
            message = await within(chat.receive())
            assert isinstance(message, isotone.Message) and message.id == sent.id == MessageId(me.id, 1)

    run(main)


def test_who_waits_for_a_slow_reader_is_told_its_name(caplog: pytest.LogCaptureFixture) -> None:
    slow = ClientId(DaemonId("d2", 1), "slow", 4)

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)

    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            daemon.hand(GroupsHeld(daemon.now(), ("chat",), (slow,)))
            await chat.send(b"taken, and it waits")
            await within(until(lambda: chat.held == me.held == (slow,)))
            await within(until(lambda: "do not read: #slow#d2#1#4" in caplog.text))
            daemon.hand(GroupsHeld(daemon.now(), (), ()))
            await within(until(lambda: not chat.held))
            assert isinstance(await within(chat.receive()), isotone.View)
            assert isinstance(await within(chat.receive()), isotone.Message)

    run(main)


def test_confirmation_that_does_not_come() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            chat = await me.join("chat")
            daemon.held = deque()
            with pytest.raises(isotone.Unconfirmed) as late:
                await chat.send(b"1", confirm=True, deadline=0.2)
            assert late.value.reason == "deadline"
            waiting = asyncio.create_task(chat.send(b"2", confirm=True))
            await daemon.until(lambda: daemon.sent("alice") == [b"1", b"2"])
            await chat.leave()
            with pytest.raises(isotone.Unconfirmed) as left:
                await within(waiting)
            assert left.value.reason == "left"

    run(main)


def test_one_may_choose_not_to_hear_oneself() -> None:
    async def main() -> None:
        async with (
            Daemon() as daemon,
            isotone.connect(daemon.address, name="alice") as alice,
            isotone.connect(daemon.address, name="bob") as bob,
        ):
            here, there = await alice.join("chat"), await bob.join("chat")
            assert await here.send(b"quiet", self_discard=True, confirm=True)
            await here.send(b"loud")
            for chat, expected in ((here, [b"loud"]), (there, [b"quiet", b"loud"])):
                heard: list[bytes] = []
                while b"loud" not in heard:
                    event = await within(chat.receive())
                    heard += [event.body] if isinstance(event, isotone.Message) else []
                assert heard == expected
            assert len(alice._sending.ledger) == 0

    run(main)


def test_nothing_is_kept_of_what_was_heard_or_will_not_be() -> None:
    async def main() -> None:
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice") as me:
            joining = asyncio.create_task(me.join("chat"))
            await asyncio.sleep(0)
            for service in (isotone.UNRELIABLE, isotone.RELIABLE, isotone.FIFO, isotone.CAUSAL, isotone.SAFE):
                await me.send(["chat", "other"], b"early", service=service)
            chat = await joining
            for service in isotone.Service:
                await me.send(["chat", me.private_group], b"member", service=service)
                await me.send("other", b"outside", service=service)
            while not (isinstance(event := await within(chat.receive()), isotone.Message) and event.type == 9):
                if isinstance(event, isotone.Message) and event.body == b"member" and event.service is isotone.SAFE:
                    await chat.send(b"end", type=9)
            assert len(me._sending.ledger) == 0 and not me._sending.ledger._untaken

    run(main)


def test_a_turn_that_was_not_used_at_all_is_passed_on() -> None:
    async def main() -> None:
        brief = Settings(session=ClientSettings(queue_bytes_max=20_000))
        async with Daemon() as daemon, isotone.connect(daemon.address, name="alice", settings=brief) as me:
            chat = await me.join("chat")
            daemon.room(0)
            deeds: list[asyncio.Task[object]] = [asyncio.create_task(me.send("g", bytes(5_000))) for _ in range(20)]
            deeds += [asyncio.create_task(chat.leave()) for _ in range(400)]
            deeds.append(asyncio.create_task(me.send("g", b"behind them")))
            await asyncio.sleep(0)
            daemon.room(1 << 30)
            came = await within(asyncio.gather(*deeds, return_exceptions=True))
            assert {type(each) for each in came} == {type(None), isotone.Receipt} and not me.groups
            assert daemon.sent("alice")[-1] == b"behind them"

    run(main)


def test_a_join_that_is_cancelled_and_then_refused_leaves_nothing_behind() -> None:
    def permit(principal: str, request: b4.Request) -> str:
        return "not for you" if isinstance(request, b4.Join) else ""

    async def main() -> None:
        async with Daemon(permit=permit) as daemon, isotone.connect(daemon.address) as me:
            joining = asyncio.create_task(me.join("secret"))
            while "secret" not in me._hearing.groups or not me._hearing.groups["secret"]._asked:
                await asyncio.sleep(0)
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            for _ in range(2):
                with pytest.raises(Refused, match="join secret: not for you"):
                    await within(me.join("secret"))
            assert not me._hearing.groups and not me._tasks

    run(main)

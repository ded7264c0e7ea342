"""The client on a simulated cluster under faults: what it says about its messages is true."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import isotone
import isotone.testing
from isotone.client import NotSent, Settings, UnknownFate
from isotone.evs.sessions.settings import ClientSettings

SENDS = 60
PATIENT = Settings(session=ClientSettings(connect_within_us=5_000_000), reconnect_within_s=600.0)


class Account:
    """What one client sent, what it was told of that, and what it heard."""

    def __init__(self) -> None:
        self.confirmed: dict[bytes, object] = {}
        self.accepted: list[bytes] = []  # taken by a daemon, as far as `send` said
        self.not_sent: list[bytes] = []
        self.doubtful: list[bytes] = []  # `UnknownFate` or `Unconfirmed`
        self.unknown: list[bytes] = []  # as `Reconnected` told
        self.heard: dict[bytes, isotone.Message] = {}  # of ourselves
        self.doubled: list[bytes] = []
        self.behind_signal: set[bytes] = set()
        self.kinds: Counter[str] = Counter()
        self.done = asyncio.Event()  # it heard its own last word

    def hear(self, event: isotone.GroupEvent, me: isotone.Session, transition: bool) -> bool:
        """Whether the group is in transition behind it."""
        self.kinds[type(event).__name__] += 1
        if isinstance(event, isotone.Reconnected):
            self.unknown += [each.body for each in event.unknown]
        if isinstance(event, isotone.Message):
            if event.sender.name == me.name:
                if event.body in self.heard:
                    self.doubled.append(event.body)
                self.heard[event.body] = event
                if transition:
                    self.behind_signal.add(event.body)
                if event.body == b"last":
                    self.done.set()
            return transition
        return isinstance(event, isotone.Transitional) or (transition and isinstance(event, isotone.Slow))


async def later(seconds: float) -> None:
    """Let virtual time pass."""
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


async def talk(me: isotone.Session, account: Account) -> None:
    chat = await me.join("chat")

    async def read() -> None:
        transition = False
        async for event in chat:
            transition = account.hear(event, me, transition)

    reader = asyncio.create_task(read())
    for number in range(SENDS):
        body = b"%d" % number
        confirm = number % 2 == 0
        try:
            receipt = await chat.send(body, confirm=confirm, deadline=2.0 if number % 5 == 0 else None)
            if confirm:
                account.confirmed[body] = receipt.stamp
            account.accepted.append(body)
        except NotSent:
            account.not_sent.append(body)
        except (UnknownFate, isotone.Unconfirmed):
            account.doubtful.append(body)
        await later(0.05)
    while not account.done.is_set():
        try:
            await chat.send(b"last", confirm=True)
        except (UnknownFate, isotone.Unconfirmed):
            await later(0.2)
        account.heard.pop(b"last", None)
    reader.cancel()


def judge(account: Account) -> None:
    assert not [body for body in account.doubled if body != b"last"]
    for body, stamp in account.confirmed.items():
        assert account.heard[body].stamp == stamp and body not in account.behind_signal
    assert not account.heard.keys() & set(account.not_sent)
    missed = [body for body in account.accepted if body not in account.heard]
    assert set(missed) <= set(account.unknown), "what was taken and not heard was told"
    told = [body for body in account.unknown if body in account.heard and body != b"last"]
    assert not told, "what was heard is not unknown"


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_about_messages_is_true(seed: int) -> None:
    async def main() -> None:
        async with isotone.testing.cluster(daemons=3, seed=seed) as cluster:
            accounts = [Account() for _ in range(3)]
            storm = cluster.storm(duration=4.0, faults=("partition", "crash", "pause"))

            async def client(place: int) -> None:
                address = cluster.address(f"d{place + 1}")
                async with isotone.connect(address, name=f"c{place}", settings=PATIENT) as me:
                    await talk(me, accounts[place])

            await asyncio.gather(*(client(place) for place in range(3)))
            await storm
            for account in accounts:
                judge(account)
            for account in accounts:
                kinds.update(account.kinds)

    kinds: Counter[str] = Counter()
    isotone.testing.run(main, seed=seed)
    assert kinds["View"] and kinds["Message"]

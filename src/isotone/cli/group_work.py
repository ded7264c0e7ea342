"""What ``isotone group`` does with a client's session: the ordinary client API and nothing else."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from isotone.cli.output import print_text
from isotone.cli.typed_lines import typed_lines
from isotone.client import Bundle, Group, GroupEvent, Message, Session, Settings, View, connect
from isotone.client.connecting import Connecting
from isotone.core.ids import ClientId
from isotone.core.services import Service
from isotone.evs.sessions.settings import ClientSettings

BATCH_BYTES = 64 * 1024
BATCH_MESSAGES = 512
END_TYPE = 65_535
CONNECT_WITHIN_S = 5.0
"""Somebody sits there and waits."""


class Caller(msgspec.Struct, frozen=True):
    """How to connect."""

    addresses: tuple[str, ...]
    name: str = ""
    credential: str = ""
    tls: str = ""
    connect_within_s: float = CONNECT_WITHIN_S

    def session(self) -> Connecting:
        """A session, to be entered."""
        within_us = int(self.connect_within_s * 1_000_000)
        attempt_us = min(ClientSettings().attempt_us, within_us // (len(self.addresses) + 1))  # so each is tried once
        within = ClientSettings(connect_within_us=within_us, attempt_us=attempt_us)
        return connect(
            list(self.addresses),
            name=self.name or None,
            credential=self.credential.encode(),
            tls=self.tls or None,
            settings=Settings(session=within),
        )


class SendReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent."""

    text: str
    sent: int
    group: str
    service: str
    id: str
    """The name of the last one, for `isotone explain message`."""
    stamp: str
    """Of the last one, when it was confirmed."""


class PingReport(msgspec.Struct, frozen=True, kw_only=True):
    """Times from send to delivery at the sender, in milliseconds."""

    text: str
    sent: int
    received: int
    service: str
    minimum_ms: float
    median_ms: float
    maximum_ms: float


class FloodReport(msgspec.Struct, frozen=True, kw_only=True):
    """What passed."""

    text: str
    sent: int
    received: int
    seconds: float
    messages_per_second: float
    bytes_per_second: float
    service: str


async def send(
    caller: Caller, group: str, bodies: Sequence[bytes], service: Service, *, confirm: bool, kind: int, within_s: float
) -> SendReport:
    """Send each body; with ``confirm`` each is safe everywhere when this returns."""
    receipt = None
    due = asyncio.get_running_loop().time() + within_s
    async with caller.session() as me:
        if confirm:  # only members hear what they send, and so when it is safe
            await me.join(group)
        for body in bodies:
            left_s = due - asyncio.get_running_loop().time()
            receipt = await me.send(group, body, service=service, type=kind, confirm=confirm, deadline=left_s)
    stamp = "" if receipt is None or receipt.stamp is None else str(receipt.stamp)
    last = "" if receipt is None else str(receipt.id)
    count = f"{len(bodies)} message{'' if len(bodies) == 1 else 's'}"
    fate = "every member has" if confirm else "the daemon took"
    named = f"; the {'id' if len(bodies) == 1 else 'id of the last'} is {last}" if last else ""
    return SendReport(
        text=f"{count} to {group}: {fate} {'it' if len(bodies) == 1 else 'them'}{named}",
        sent=len(bodies),
        group=group,
        service=service.name.lower(),
        id=last,
        stamp=stamp,
    )


# --- receiving -----------------------------------------------------------------------------------------------------


async def receive(
    caller: Caller, groups: Sequence[str], *, count: int | None, timeout: float | None, quiet: bool, as_json: bool
) -> bool:
    """Print events until enough messages came; False when the time was over before."""
    heard: asyncio.Queue[tuple[str, GroupEvent]] = asyncio.Queue(maxsize=1_000)

    async def listen(group: Group) -> None:
        async for event in group:
            await heard.put((group.name, event))

    async with AsyncExitStack() as stack:
        me = await stack.enter_async_context(caller.session())
        tasks = [asyncio.create_task(listen(await me.join(group))) for group in groups]
        try:
            async with asyncio.timeout(timeout):
                await _print_events(heard, tasks, count, quiet=quiet, as_json=as_json)
        except TimeoutError:
            return count is None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return True


async def _print_events(
    heard: asyncio.Queue[tuple[str, GroupEvent]],
    tasks: Sequence[asyncio.Task[None]],
    count: int | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Until so many messages came, nobody reads any more, or a listener ends; its error is raised."""
    left = count
    while left is None or left > 0:
        getting = asyncio.ensure_future(heard.get())
        await asyncio.wait((getting, *tasks), return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            for task in tasks:
                if task.done():
                    task.result()
            return
        group, event = getting.result()
        is_message = isinstance(event, Message)
        if (is_message or not quiet) and not print_event(group, event, as_json=as_json):
            return
        if is_message and left is not None:
            left -= 1


def print_event(group: str, event: object, *, as_json: bool) -> bool:
    """One line; whether somebody still reads."""
    told = described(group, event)
    return print_text(json.dumps(told) if as_json else line_of(told))


def described(group: str, event: object) -> dict[str, Any]:
    """An event for programs."""
    told: dict[str, Any] = {"event": type(event).__name__.lower(), "group": group}
    match event:
        case Message():
            told |= {"sender": str(event.sender), "service": event.service.name.lower(), "type": event.type}
            told |= {"stamp": str(event.stamp), "groups": list(event.groups)}
            told |= {"bytes": len(event.body), "text": event.body.decode("utf-8", "replace")}
            if told["text"].encode() != event.body:
                told["base64"] = b64encode(event.body).decode()
        case View():
            told |= {
                "view": str(event.id),
                "cause": event.cause.value,
                "members": [str(each) for each in event.members],
                "transitional": [str(each) for each in event.transitional],
            }
        case _:
            told["detail"] = str(event)
    return told


def line_of(told: dict[str, Any]) -> str:
    """The same for people."""
    match told["event"]:
        case "message":
            sender = "#".join(told["sender"].split("#")[:3])
            return f"{told['group']} {sender}: {told['text']}"
        case "view":
            members = " ".join("#".join(each.split("#")[1:3]) for each in told["members"])
            return f"{told['group']} view ({told['cause']}): {members}"
    return f"{told['group']} {told['event']}"


# --- chat ----------------------------------------------------------------------------------------------------------


async def chat(caller: Caller, group: str, service: Service, *, as_json: bool) -> None:
    """Lines of standard input become messages; what is heard is printed."""
    async with caller.session() as me:
        room = await me.join(group)

        async def listen() -> None:
            async for event in room:
                if not print_event(group, event, as_json=as_json):
                    return  # nobody reads any more

        async def talk() -> None:
            async for line in typed_lines():
                if line.strip():
                    await room.send(line.encode(), service=service)
            await room.leave()

        listening, talking = asyncio.create_task(listen()), asyncio.create_task(talk())
        try:
            await asyncio.wait((listening, talking), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                await talking
                await listening  # it ends with our own leave, so all that we said was heard
        finally:
            listening.cancel()
            talking.cancel()


# --- measuring -----------------------------------------------------------------------------------------------------


async def ping(
    caller: Caller, group: str, service: Service, *, count: int, size: int, every: float, timeout: float
) -> PingReport:
    """Send one by one and wait for each to come back."""
    times: list[float] = []
    async with caller.session() as me:
        room = await me.join(group)
        for number in range(count):
            body = number.to_bytes(8, "big").ljust(size, b".")
            began = time.perf_counter()
            await room.send(body, service=service)
            try:
                async with asyncio.timeout(timeout):
                    await _own(room, me.id, body)
            except TimeoutError:
                continue
            times.append((time.perf_counter() - began) * 1000)
            if every and number < count - 1:
                await asyncio.sleep(every)
    ordered = sorted(times) or [0.0]
    low, middle, high = (round(ordered[place], 3) for place in (0, len(ordered) // 2, -1))
    return PingReport(
        text=f"{len(times)} of {count} came back: minimum {low} ms, median {middle} ms, maximum {high} ms",
        sent=count,
        received=len(times),
        service=service.name.lower(),
        minimum_ms=low,
        median_ms=middle,
        maximum_ms=high,
    )


async def _count_own(room: Group, me: Session) -> int:
    received = 0
    async for bundle in room.bundles():
        if isinstance(bundle, Bundle) and bundle.sender == me.id:
            received += bundle.count
            if bundle.types[-1] == END_TYPE:
                return received - 1
    return received


async def _own(room: Group, me: ClientId, body: bytes) -> None:
    """Until our message comes."""
    while True:
        event = await room.receive()
        if isinstance(event, Message) and event.sender == me and event.body == body:
            return


async def flood(caller: Caller, group: str, service: Service, *, seconds: float, size: int) -> FloodReport:
    """Send batches for a while, and hear all of them. A message behind the last one ends it."""
    batch = [bytes(size)] * max(1, min(BATCH_MESSAGES, BATCH_BYTES // size))
    sent = 0
    async with caller.session() as me:
        room = await me.join(group)
        counting = asyncio.create_task(_count_own(room, me))
        began = time.perf_counter()
        while time.perf_counter() - began < seconds and not counting.done():
            await room.send_many(batch, service=service)
            sent += len(batch)
        await room.send(b"", service=max(service, Service.AGREED), type=END_TYPE)
        received = await counting
    lasted = time.perf_counter() - began
    rate = received / lasted
    return FloodReport(
        text=f"{received} of {sent} messages of {size} bytes in {lasted:.2f} s: {rate:,.0f} a second, "
        f"{rate * size / 1e6:.1f} MB/s",
        sent=sent,
        received=received,
        seconds=round(lasted, 3),
        messages_per_second=round(rate, 1),
        bytes_per_second=round(rate * size, 1),
        service=service.name.lower(),
    )

"""The public client: three sites on three daemons on loopback, in one program."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import isotone
from isotone import isis
from tests.ports import free_ports

NAMES = ("a", "b", "c")
DEADLINE_S = 45.0


async def three(stack: AsyncExitStack, path: Path) -> list[isis.Site]:
    ports = free_ports(3)
    peers = [(name, f"127.0.0.1:{port}") for name, port in zip(NAMES, ports, strict=True)]
    nodes = [
        await stack.enter_async_context(isotone.node(name=name, address=address, peers=peers))
        for name, address in peers
    ]

    async def site(name: str, node: object) -> isis.Site:
        running = isis.site("test", name=name, sites=NAMES, node=node, state=path / name, suspect_ms=2_000)
        return await stack.enter_async_context(running)

    return list(await asyncio.gather(*(site(*pair) for pair in zip(NAMES, nodes, strict=True))))


async def until_view(group: isis.Group, count: int) -> list[object]:
    seen: list[object] = []
    while group.view is None or len(group.view.members) < count:
        seen.append(await anext(group))
    return seen


def run(scene: object) -> None:
    asyncio.run(asyncio.wait_for(scene, DEADLINE_S))  # type: ignore[arg-type]


def test_three_sites_hear_one_story(tmp_path: Path) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            sites = await three(stack, tmp_path)
            groups = [await site.join("g") for site in sites]
            for group in groups:
                await until_view(group, 3)
            sent = [await group.abcast(b"%d" % place, label="queue") for place, group in enumerate(groups)]
            await groups[0].gbcast(b"now")
            await groups[1].cbcast(b"later")
            await sites[1].flush()
            heard = []
            for group in groups:
                found: list[isis.Message] = []
                while len(found) < 5:
                    event = await anext(group)
                    if isinstance(event, isis.Message):
                        found.append(event)
                heard.append(found)
            orders = [[each.id for each in found if each.primitive == "abcast"] for found in heard]
            assert sorted(orders[0]) == sorted(sent) and orders[0] == orders[1] == orders[2]
            assert [{each.data for each in found} for found in heard] == [{b"0", b"1", b"2", b"now", b"later"}] * 3

    run(scene())


def test_a_call_has_answers_of_all_and_leaving_ends_the_iteration(tmp_path: Path) -> None:
    async def serve(group: isis.Group) -> int:
        served = 0
        async for event in group:
            if isinstance(event, isis.Message) and event.wants_answer:
                event.answer(event.data + b" " + group.process.encode())
                served += 1
        return served

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            sites = await three(stack, tmp_path)
            groups = [await site.join("g") for site in sites]
            for group in groups:
                await until_view(group, 3)
            serving = [asyncio.ensure_future(serve(group)) for group in groups]
            answers = await groups[2].call(b"ping", answers=isis.ALL)
            assert len(answers) == 3 and {each.data for each in answers} == {b"ping main"}
            assert len(await groups[2].call(b"ping", answers=1)) >= 1
            for group in groups:
                await group.leave()
            assert [await each for each in serving] == [2, 2, 2]

    run(scene())

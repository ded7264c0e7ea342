"""Jobs that survive their workers: a leader hands out jobs, workers take them, what a dead one left comes back."""

import asyncio
import tempfile
from contextlib import AsyncExitStack

import isotone
from isotone.daemon.ports import free_ports  # servers of different machines have fixed ones


async def main(directory: str) -> None:
    """Three servers in one process; in earnest each is a program of its own."""
    places = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
    async with AsyncExitStack() as stack:
        shops = {}
        for name, place in places.items():
            peers = {each: where for each, where in places.items() if each != name}
            opened = isotone.replica("jobs", name=name, state=f"{directory}/{name}", address=place, peers=peers)
            shops[name] = await stack.enter_async_context(opened)
        async with shops["a"].leader("planner").lead("a", within_s=60) as term:
            for number in range(3):
                await shops["a"].queue("jobs").put({"job": number, "fence": term.fence})
        first = await shops["b"].queue("jobs").take(within_s=60)
        assert first is not None
        await first.give_back()  # as when b dies, after its lease
        while (item := await shops["c"].queue("jobs").take(wait=False, within_s=60)) is not None:
            print("job", item.value["job"], "taken", item.deliveries, "times")
            await item.done()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))

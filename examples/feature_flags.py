"""Feature flags: every process watches one dict, and an operator switches with a condition."""

import asyncio
import tempfile

import isotone


async def main(directory: str) -> None:
    """One server, one program that watches, one that switches."""
    async with isotone.replica("flags", name="a", state=directory, address="127.0.0.1:0") as replica:
        flags = replica.dict("flags", bool)
        await flags.set("new-checkout", False, within_s=60)
        print("was it off?", await flags.compare_and_set("new-checkout", False, True))
        print("again?", await flags.compare_and_set("new-checkout", False, True))
        seen = 0
        async for change in flags.watch(after=0):
            print(change.key, "is", "on" if change.value else "off")
            seen += 1
            if seen == 2:
                break


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))

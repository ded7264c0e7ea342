"""A replicated dict: run `python shop.py a`, `b` and `c` in three terminals; type `apples 3`, `apples` or Enter."""

import asyncio
import sys

import isotone

NAME, PORT = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4803
PLACES = {name: f"127.0.0.1:{PORT + number}" for number, name in enumerate("abc")}


async def main() -> None:
    """Set a key with `KEY VALUE`, read one with `KEY`, list all with an empty line."""
    peers = {name: place for name, place in PLACES.items() if name != NAME}
    async with isotone.replica("shop", name=NAME, state=f"data/{NAME}", address=PLACES[NAME], peers=peers) as shop:
        stock = shop.dict("stock")
        print(f"{NAME} is up", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            key, _, value = line.strip().partition(" ")
            try:
                if value:
                    print("revision", await stock.set(key, value, within_s=30), flush=True)
                else:
                    print(await (stock.get(key, within_s=30) if key else stock.items(within_s=30)), flush=True)
            except isotone.IsotoneError as error:
                print(f"no answer: {error}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())

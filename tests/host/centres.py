"""Data centres on loopback, for tests: a settings file with keys, and processes in this program."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import isotone
from isotone.daemon.security.keys import Authority, generate_authority, generate_key
from isotone.host.hab_acts import Act, Reply, ask_process
from isotone.host.hab_objects import CentreReplica
from isotone.host.hab_settings import CentresFile, read_centres
from tests.ports import free_port

LOG = "shop"


class Centres:
    """``sizes``: the number of processes of each centre, by name. ``head``: lines above the tables."""

    def __init__(
        self,
        directory: Path,
        sizes: dict[str, int],
        *,
        head: str = "confirmations = 1",
        witness: str = "",
        databases: Sequence[isotone.Procedures] = (),
    ) -> None:
        self.directory, self._databases = directory, databases
        self.path = directory / "centres.toml"
        self.keys: dict[str, Authority] = {}
        lines = [f'log = "{LOG}"', head]
        for centre, size in sizes.items():
            lines += ["[[centre]]", f'name = "{centre}"']
            for number in range(1, size + 1):
                lines += self._process(f"{centre}{number}")
        if witness:
            _, *rest = self._process(witness)
            lines += ["[witness]", *(line for line in rest if not line.startswith("daemon"))]
        for name in ("anna", "ben"):
            self.keys[name] = generate_authority(directory / f"{name}.key")
            lines += ["[[operator]]", f'name = "{name}"', f'key = "{self.keys[name].text}"']
        self.path.write_text("\n".join(lines) + "\n")
        self.file: CentresFile = read_centres(self.path)
        self.running: dict[str, CentreReplica] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    def _process(self, name: str) -> list[str]:
        (self.directory / name).mkdir()
        key = generate_key(self.directory / name / "centre.key").text
        return [
            "[[centre.process]]",
            f'name = "{name}"',
            f'daemon = "127.0.0.1:{free_port()}"',
            f'wide = "127.0.0.1:{free_port()}"',
            f'key = "{key}"',
        ]

    def of(self, centre: str) -> list[str]:
        """The processes of a centre."""
        return [each.name for each in self.file.centre_of(f"{centre}1").process]

    async def start(self, *names: str) -> None:
        """In this program."""
        for name in names:
            stack = self._stacks[name] = AsyncExitStack()
            opened = isotone.replica(
                LOG, name=name, state=self.directory / name, centres=self.path, databases=self._databases
            )
            found = await stack.enter_async_context(opened)
            assert isinstance(found, CentreReplica)
            self.running[name] = found

    async def found(self) -> None:
        """All run for the first time."""
        for centre in self.file.centre:
            await self.act(centre.process[0].name, Act("found", centre.name))

    async def stop(self, *names: str) -> None:
        for name in tuple(names):
            del self.running[name]
            await self._stacks.pop(name).aclose()

    async def act(self, at: str, act: Act) -> Reply:
        """Again while it waits for something: a process gives it some seconds, which may be few on a busy machine."""
        while (reply := await self.ask(at, act)).outcome == "waits":
            pass
        assert reply.outcome == "done", reply
        return reply

    async def ask(self, at: str, act: Act | None = None, operator: str = "anna") -> Reply:
        """Of the process of this name."""
        return await ask_process(self.file.processes[at].wide, act, operator, self.keys[operator])

"""Serves operators at a process of several data centres: questions and signed acts, with what came of them.

Implements: [HAB 1], disasters are declared by people. Deviations: Dh9, Dh10; see docs/protocols/hab.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from isotone.core.contract import Event
from isotone.core.ordered_log import Refused
from isotone.hab.centre import Role
from isotone.hab.events import DeclareWanted, FoundWanted, HandoverWanted, RejoinWanted
from isotone.host.hab_acts import Act, Challenge, Reply, Wish, judge_act, read_line, write_line
from isotone.host.hab_status import CentreSeen

if TYPE_CHECKING:
    from isotone.host.hab_log import CentreLog

log = logging.getLogger("isotone.centres")

WAIT_S, LOOK_S = 10.0, 0.05
LINE_WITHIN_S = 10.0
NO_MAJORITY = (
    "{centre} is recorded as lost by {recorders}. It counts when {majority} data centres have recorded it. "
    "If no majority is left, use --override, which may lose what {centre} alone had"
)
ALSO_LOST = (
    "{centre} is declared lost. But those that are left are no majority: nothing goes on until {others} is declared "
    "lost with --override, at {here}"
)


class OperatorPort:
    """Of one process."""

    def __init__(self, centre_log: CentreLog) -> None:
        self._log = centre_log

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One operator's question or act."""
        challenge = Challenge(self._log.name, self._log.file.log, os.urandom(32))
        write_line(writer, challenge)
        async with asyncio.timeout(LINE_WITHIN_S):
            wish = await read_line(reader, Wish)
        write_line(writer, await self._answer(challenge, wish))
        with suppress(OSError):
            await writer.drain()

    async def _answer(self, challenge: Challenge, wish: Wish) -> Reply:
        reply = Reply("done", "")
        if wish.act:
            try:
                reply = await self._carry_out(judge_act(challenge, wish, self._log.file.operators()), wish.operator)
            except Refused as refused:
                reply = Reply("refused", str(refused))
            log.warning("operator %s: %s: %s: %s", wish.operator, wish.act, reply.outcome, reply.text)
        return Reply(reply.outcome, reply.text, msgspec.to_builtins(self._log.status()))

    async def _carry_out(self, act: Act, operator: str) -> Reply:
        match act.what:
            case "found":
                return await self._found(act)
            case "declare-lost":
                return await self._declare(act, operator)
            case "withdraw":
                self._tell(DeclareWanted(0, act.centre, operator=operator, withdrawn=True))
                gone = await self._until(lambda: not self._wanted_by(act.centre))
                return _reply(gone, f"nobody wants {act.centre} declared lost any more", "it is not recorded yet")
            case "handover":
                return await self._hand_over(act)
            case "rejoin":
                return await self._rejoin(act)

    async def _found(self, act: Act) -> Reply:
        centre = self._log.hab.centre
        if act.centre != centre.name:
            raise Refused(f"this process is of {centre.name}, not of {act.centre}")
        if centre.joining:
            raise Refused(f"{act.centre} had a state, say the other data centres, and it asks them for theirs")
        if not centre.epoch:
            self._tell(FoundWanted(0))
        done = await self._until(lambda: bool(centre.epoch))
        return _reply(done, f"{centre.name} has begun", f"too few processes of {centre.name} are there")

    async def _declare(self, act: Act, operator: str) -> Reply:
        seen = self._seen(act.centre)
        self._check_takes_part()
        if not seen.number:
            return Reply("done", f"{act.centre} takes no part any more: it was declared lost already")
        if seen.life != act.life:
            raise Refused(f"{act.centre} came back meanwhile: look at `isotone site status`")
        if act.centre == self._log.centre_name:
            raise Refused("a data centre is declared lost at another one")
        self._tell(DeclareWanted(0, act.centre, act.override, operator))
        await self._until(lambda: self._is_done(act) or operator in self._wanted_by(act.centre, override=act.override))
        operators = self._wanted_by(act.centre, override=act.override)
        if not self._is_done(act) and operators:
            return Reply("waits", self._how_to_confirm(act.centre, operators, override=act.override))
        await self._until(lambda: self._is_done(act))
        if self._is_done(act) and (others := self._in_the_way()):
            return Reply("waits", ALSO_LOST.format(centre=act.centre, others=others, here=self._log.centre_name))
        if self._is_done(act):
            return Reply("done", f"{act.centre} is declared lost; the others go on without it")
        seen, majority = self._seen(act.centre), self._log.hab.centre.configuration.majority
        recorders = ", ".join(seen.recorders) or "nobody"
        return Reply("waits", NO_MAJORITY.format(centre=act.centre, recorders=recorders, majority=majority))

    def _in_the_way(self) -> str:
        """The data centres that are lost too, where those that are left are no majority and nobody waived it."""
        centre = self._log.hab.centre
        if centre.role is Role.OUT or centre.has_quorum():
            return ""
        lost = [group.name for group in centre.configuration.groups if centre.is_centre_lost(group.name)]
        return " and ".join(name for name in lost if not centre.is_waived(name))

    def _how_to_confirm(self, centre: str, operators: tuple[str, ...], *, override: bool) -> str:
        settings = self._log.settings
        missing = settings.confirmations - len(operators)
        ways = ["1 more operator says the same" if missing == 1 else f"{missing} more operators say the same"]
        if settings.confirm_after_us:
            ways.append(f"nobody withdraws it for {settings.confirm_after_us / 60e6:g} minutes")
        names, want = " and ".join(operators), "want" if len(operators) > 1 else "wants"
        how = " by an override" if override else ""
        return f"{names} {want} {centre} declared lost{how}. It counts when {', or when '.join(ways)}"

    async def _hand_over(self, act: Act) -> Reply:
        self._check_takes_part()
        if not self._seen(act.centre).number:
            raise Refused(f"{act.centre} does not take part")
        self._tell(HandoverWanted(0, act.centre))
        done = await self._until(lambda: self._log.hab.centre.leader == act.centre)
        return _reply(done, f"{act.centre} leads", "it does not lead yet: another change may be under way; ask again")

    async def _rejoin(self, act: Act) -> Reply:
        if act.centre != self._log.centre_name:
            raise Refused(f"{act.centre} itself must ask: this process is of {self._log.centre_name}")
        hab = self._log.hab
        await self._until(lambda: hab.centre.role is Role.OUT or hab.watch.says_so(hab.centre))
        if hab.centre.role is not Role.OUT:
            waits = f"no data centre has told {act.centre} yet whether it takes part; ask again"
            return _reply(hab.watch.says_so(hab.centre), f"{act.centre} takes part", waits)
        if not await self._until(lambda: not hab.is_fresh):
            raise Refused(
                f"{act.centre} has no state, and hears no data centre that has begun: if all are new, begin with "
                "`isotone site found`"
            )
        self._tell(RejoinWanted(0))
        done = await self._until(lambda: hab.centre.role is not Role.OUT or self._log.has_ended)
        return _reply(done, f"{act.centre} is back as a backup", "it asked, and no data centre let it in yet")

    # --- the process -----------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        self._log.host.tell(msgspec.structs.replace(event, at=self._log.host.now()))

    def _check_takes_part(self) -> None:
        if self._log.hab.centre.role is Role.OUT:
            raise Refused(f"{self._log.centre_name} takes no part itself: ask at another data centre")

    def _seen(self, name: str) -> CentreSeen:
        for each in self._log.status().centres:
            if each.name == name:
                return each
        raise Refused(f"no data centre is called {name!r}")

    def _is_done(self, act: Act) -> bool:
        """It is lost; an override also waives that the lost one is missing in a majority."""
        centre = self._log.hab.centre
        is_so = centre.is_waived(act.centre) if act.override else centre.is_centre_lost(act.centre)
        return is_so or not self._seen(act.centre).number

    def _wanted_by(self, name: str, *, override: bool = False) -> tuple[str, ...]:
        found = self._log.hab.centre.petitions.get(name)
        if found is None:
            return ()
        return found.overriding if override else found.everybody

    async def _until(self, is_so: Callable[[], bool]) -> bool:
        """Whether it came to be in a few seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while not is_so():
                    await asyncio.sleep(LOOK_S)
        return is_so()


def _reply(is_done: bool, done: str, waits: str) -> Reply:
    return Reply("done", done) if is_done else Reply("waits", waits)

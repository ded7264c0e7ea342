"""Where daemons are that the file does not name: seeds and host names, looked up again and again.

`Discovery` is the pure part: answers in, changes for the membership out. What cannot be looked up now keeps its last
answer, because names fail more often than daemons move.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from isotone.core.addresses import DEFAULT_PORT, is_ip, join_address, split_address
from isotone.core.contract import Address
from isotone.daemon.settings.mapping import chosen_daemon, fixed_seeds, site_name
from isotone.daemon.settings.tables import DaemonSettings
from isotone.evs.membership import KnownDaemon, PeersChanged

ADDRESSES_MAX = 256
"""Of one name."""

Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]
"""From host and port to addresses; raises `OSError` when there is no answer."""


class Target(msgspec.Struct, frozen=True, order=True):
    """A host to be looked up: of a daemon that the file names, or of nobody we know."""

    host: str
    port: int
    daemon: str = ""
    site: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The addresses of a target, or why there are none."""

    addresses: tuple[Address, ...] = ()
    problem: str = ""


class Discovery:
    """What is known of the addresses of one daemon's file."""

    def __init__(self, settings: DaemonSettings, name: str) -> None:
        me = chosen_daemon(settings, name)
        self._is_v6 = ":" in (me.listen or me.address)  # the family of its socket
        self.targets = targets_of(settings, name)
        self.problems: dict[str, str] = {}  # by host, why the last look-up gave nothing
        self._fixed = fixed_seeds(settings)
        self._found: dict[Target, tuple[Address, ...]] = {}
        self._told: dict[str, KnownDaemon] = {}
        self._told_seeds = self._fixed

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to look up."""
        return bool(self.targets)

    @property
    def seeds(self) -> tuple[Address, ...]:
        """All addresses that may be those of daemons whose names nobody told."""
        found = [address for target in self.targets if not target.daemon for address in self._found.get(target, ())]
        return tuple(dict.fromkeys([*self._fixed, *found]))

    def take(self, at: int, answers: Mapping[Target, Answer]) -> PeersChanged | None:
        """What the membership has to hear, if anything changed."""
        for target in self.targets:
            if target in answers:
                self._take(target, answers[target])
        known = self._moved()
        seeds = self.seeds
        if not known and seeds == self._told_seeds:
            return None
        self._told |= {each.name: each for each in known}
        changed = seeds if seeds != self._told_seeds else None
        self._told_seeds = seeds
        return PeersChanged(at, known, (), changed)

    def _take(self, target: Target, answer: Answer) -> None:
        usable = tuple(each for each in answer.addresses if each.startswith("[") is self._is_v6)
        if usable:
            self._found[target] = usable[:ADDRESSES_MAX]
            self.problems.pop(target.host, None)
        else:
            self.problems[target.host] = answer.problem or f"it has no address of IPv{6 if self._is_v6 else 4}"

    def _moved(self) -> tuple[KnownDaemon, ...]:
        """Daemons of the file whose host has another address than was told; of several the first."""
        moved = []
        for target in self.targets:
            addresses = self._found.get(target)
            told = self._told.get(target.daemon)
            if target.daemon and addresses and (told is None or told.address not in addresses):
                moved.append(KnownDaemon(target.daemon, target.site, addresses[0]))
        return tuple(moved)


def targets_of(settings: DaemonSettings, name: str) -> tuple[Target, ...]:
    """All host names of the file, but those of this daemon."""
    named = [
        Target(each.address, each.port, each.name, site_name(settings, each))
        for each in settings.daemon
        if each.name != name and not is_ip(each.address)
    ]
    seeds = [split_address(seed, default_port=DEFAULT_PORT) for seed in settings.cluster.seeds]
    unnamed = [Target(host, port) for host, port in seeds if not is_ip(host)]
    return tuple(dict.fromkeys([*named, *unnamed]))


# --- the part that waits -------------------------------------------------------------------------------------------


async def look_up(targets: Sequence[Target], resolver: Resolver) -> dict[Target, Answer]:
    """Ask for all of them at once."""
    answers = await asyncio.gather(*(_answer(target, resolver) for target in targets))
    return dict(zip(targets, answers))


async def _answer(target: Target, resolver: Resolver) -> Answer:
    try:
        addresses = await resolver(target.host, target.port)
    except (OSError, UnicodeError) as error:
        return Answer(problem=str(error) or type(error).__name__)
    return Answer(tuple(sorted(set(addresses)))) if addresses else Answer(problem="the name has no address")


async def keep_looking(
    discovery: Discovery,
    tell: Callable[[PeersChanged], None],
    *,
    now: Callable[[], int],
    resolver: Resolver,
    interval_ms: int,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Look up at once and then at every interval, until cancelled; ends at once when there is nothing to look up."""
    while discovery.is_needed:
        answers = await look_up(discovery.targets, resolver)
        changed = discovery.take(now(), answers)
        if changed is not None:
            tell(changed)
        await wait(interval_ms / 1_000)


async def system_resolver(host: str, port: int) -> Sequence[Address]:
    """By the resolver of this machine, off the loop."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    return [join_address(str(where[0]).partition("%")[0], int(where[1])) for *_, where in found]

"""Very many groups through a change of the network: that every view is right, what it costs, and who hears nothing.

Daemons start alone, so that joins are cheap; their clients join; the daemons come together, one of them is cut off, and
comes back. After each step every member is asked what it heard. A group is touched when it has members both with the
daemons that part or meet; members of all other groups must hear nothing at all.

Implements: [Spread 6.4], at the size that light-weight groups are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isotone.core.boundary import Connect, Connected, Indicate, Join, Requested, Transitional, View
from isotone.core.choice import Choice
from isotone.core.ids import ClientId
from isotone.core.views import Cause, GroupView
from isotone.evs.stack import Stack
from isotone.sim.figures.fleet import SECOND, Fleet, Member, Tally
from isotone.sim.process import SERVICE_LABEL

Row = dict[str, Any]
Heard = dict[str, list[Indicate]]

DAEMONS = 8
SITES = 2
CLIENTS = 2_000
GROUPS = 10_000
MEMBERS = (2, 4)
"""Of a group, fewest and most."""
AT_ONE_DAEMON = 10
"""One group in so many has all its members at one daemon."""
JOINS_AT_ONCE = 100


class Listening(Member):
    """A daemon whose clients note what they hear, by group."""

    def __init__(self, stack: Stack, tally: Tally) -> None:
        super().__init__(stack, tally)
        self.heard: Heard = {}

    def hear(self, action: Indicate) -> None:
        """Note it."""
        match action.indication:
            case View(view=view):
                self.heard.setdefault(view.group, []).append(action)
            case Transitional(group=group):
                self.heard.setdefault(group, []).append(action)
            case Connected():
                pass
            case _:
                raise AssertionError(f"a client hears {action.indication}")


class Crowd(Fleet):
    """A fleet with clients in groups; ``groups`` says who is in which."""

    member = Listening

    def __init__(self, *, daemons: int, sites: int, clients: int, groups: int, seed: int) -> None:
        super().__init__(daemons=daemons, sites=sites, seed=seed)
        self.world.partition(*([name] for name in self.names))
        for name in self.names:
            self.world.restart(name)
        homes = [self.names[place % daemons] for place in range(clients)]
        self.clients = [ClientId(self.world.daemon(name), f"c{place}", 1) for place, name in enumerate(homes)]
        self.groups = dict(_drawn(self.clients, groups, daemons, Choice(f"groups/{seed}")))

    def join_all(self) -> None:
        """All clients join their groups, each at a daemon that is alone."""
        for client in self.clients:
            self._ask(client, Connect())
        asked = 0
        for group, members in self.groups.items():
            for client in members:
                self._ask(client, Join(group))
                asked += 1
                if asked % JOINS_AT_ONCE == 0:
                    self.run(100)
        self.run(SECOND)

    def _ask(self, client: ClientId, request: Connect | Join) -> None:
        self.world.tell(client.daemon.name, SERVICE_LABEL, Requested(0, client, request))

    def forget(self) -> None:
        """What was heard up to now does not count."""
        self.clear()
        for name in self.names:
            self.heard_at(name).clear()

    def heard_at(self, name: str) -> Heard:
        """What the clients of a daemon heard."""
        member = self.watched(name)
        assert isinstance(member, Listening)
        return member.heard


def _drawn(
    clients: Sequence[ClientId], groups: int, daemons: int, choice: Choice
) -> Iterator[tuple[str, tuple[ClientId, ...]]]:
    """Groups with a few members each, some of them all at one daemon."""
    for number in range(groups):
        home = choice.below(daemons)
        among = clients[home::daemons] if number % AT_ONE_DAEMON == 0 else clients
        wanted = choice.between(*MEMBERS)
        found = {among[choice.below(len(among))]: None for _ in range(wanted)}
        yield f"g{number}", tuple(sorted(found))


def many_groups(
    *, groups: int = GROUPS, clients: int = CLIENTS, daemons: int = DAEMONS, sites: int = SITES, seed: int = 1
) -> tuple[dict[str, Any], list[Row]]:
    """The parameters that were used, and a row for each step."""
    crowd = Crowd(daemons=daemons, sites=sites, clients=clients, groups=groups, seed=seed)
    crowd.run(3 * SECOND)
    crowd.join_all()
    everybody, lost = [crowd.names], crowd.names[daemons // 2]
    sides = [[name for name in crowd.names if name != lost], [lost]]
    alone = [[name] for name in crowd.names]
    rows = [_step(crowd, "all meet", alone, everybody)]
    rows.append(_step(crowd, "one is cut off", everybody, sides))
    rows.append(_step(crowd, "it comes back", sides, everybody))
    memberships = sum(map(len, crowd.groups.values()))
    used = {"groups": groups, "clients": clients, "memberships": memberships, "daemons": daemons, "sites": sites}
    return {**used, "seed": seed}, rows


def _step(crowd: Crowd, name: str, before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> Row:
    """The network changes, and everybody hears of it what he should."""
    crowd.run(5 * SECOND)
    crowd.forget()
    crowd.world.partition(*after)
    seconds = crowd.run_until_together(*after)
    crowd.run(SECOND)
    judged = check_heard(crowd, _places(before), _places(after))
    tallies = crowd.tallies.values()
    busiest, longest = max(tally.cpu_seconds for tally in tallies), max(tally.longest_seconds for tally in tallies)
    counted = crowd.totals()
    return {
        "step": name,
        "groups": len(crowd.groups),
        **judged,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(crowd.cpu_seconds(), 2),
        "cpu_seconds_most": round(busiest, 3),
        "longest_event_ms": round(longest * 1000),
        "link_packets": counted["link_packets"],
        "link_kbytes": counted["link_kbytes"],
    }


def _places(sides: Sequence[Sequence[str]]) -> dict[str, int]:
    return {name: place for place, side in enumerate(sides) for name in side}


# --- what must have been heard -------------------------------------------------------------------------------------


def check_heard(crowd: Crowd, before: Mapping[str, int], after: Mapping[str, int]) -> Row:
    """Compare what every member heard with what the change of sides is for its group."""
    views = signals = touched = 0
    for group, members in crowd.groups.items():
        was = {before[client.daemon.name] for client in members}
        now = {after[client.daemon.name] for client in members}
        heard = {name: crowd.heard_at(name).get(group, []) for name in {client.daemon.name: None for client in members}}
        if len(was) == len(now) == 1:
            assert not any(heard.values()), f"{group} has nothing to do with the change, and hears of it"
            continue
        touched += 1
        for side in sorted(now):
            along = tuple(client for client in members if after[client.daemon.name] == side)
            told = {name: each for name, each in heard.items() if after[name] == side}
            signals += sum(_check_signals(told[name], lossy=len(now) > len(was)) for name in told)
            views += sum(_check_view(told[name], name, along, members, before) for name in told)
            ids = {_last(each).id for each in told.values()}
            assert len(ids) == 1, f"{group} has several views on one side"
    assert touched, "some group is touched"
    return {"touched": touched, "untouched": len(crowd.groups) - touched, "views": views, "signals": signals}


def _check_signals(heard: Sequence[Indicate], *, lossy: bool) -> int:
    """Members that part hear the signal, before the view; members that meet do not."""
    kinds = [type(each.indication) for each in heard]
    assert kinds == ([Transitional, View] if lossy else [View]), f"a member hears {kinds}"
    return len(heard[0].receivers) if lossy else 0


def _check_view(
    heard: Sequence[Indicate],
    name: str,
    along: tuple[ClientId, ...],
    members: tuple[ClientId, ...],
    before: Mapping[str, int],
) -> int:
    """The last view has the members of its side, from where they came; all of them here hear it."""
    view = _last(heard)
    origin = tuple(client for client in along if before[client.daemon.name] == before[name])
    assert view.cause is Cause.NETWORK and view.members == along, f"{view.group} at {name}: {view.members}"
    assert view.transitional == origin, f"{view.group} at {name} came from {view.transitional}"
    receivers = tuple(client for client in members if client.daemon.name == name)
    assert all(each.receivers == receivers for each in heard), f"not all members of {view.group} at {name} hear it"
    return len(receivers)


def _last(heard: Sequence[Indicate]) -> GroupView:
    indication = heard[-1].indication
    assert isinstance(indication, View)
    return indication.view

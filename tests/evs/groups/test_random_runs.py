"""Random runs of the groups on an adversarial EVS-S model, judged by the checkers."""

from __future__ import annotations

from collections import Counter

import pytest

from isotone.core.ids import DaemonViewId, GroupViewId, Stamp, parse_client_id
from isotone.core.services import Service
from isotone.evs.groups import Reason, State
from isotone.evs.groups.states import TRANSITIONS
from isotone.spec.check import check
from isotone.spec.properties import BY_ID, Boundary, Form
from isotone.spec.verdicts import State as Verdict
from isotone.trace import events as t
from tests.evs.groups.model import World

BURSTS = (1, 1, 1, 1, 2, 5, 40)


class RandomRun:
    """Draws a workload with view changes from a seed and plays it."""

    def __init__(self, seed: int | str, *, rounds: int = 300, daemons: int = 0) -> None:
        names = [f"d{number}" for number in range(1, 7)]
        self.world = World(seed, names)
        self.choice = self.world.choice.derive("workload")
        count = daemons or self.choice.between(2, 5)
        self.world.names = self.names = names[:count]
        self.groups = [f"g{number}" for number in range(1, self.choice.between(1, 3) + 1)]
        self.rounds = rounds
        self.haste = self.choice.pick([0.01, 0.02, 0.05, 0.15])
        self.churn = self.choice.pick([1.0, 1.0, 6.0])
        self.entries: Counter[tuple[State, Reason]] = Counter()

    def play(self) -> World:
        world, choice = self.world, self.choice
        for name in self.names:
            world.start(name)
        for _ in range(self.rounds):
            if choice.chance(self.haste):
                self._upset()
            elif choice.chance(0.4):
                self._request()
            else:
                self._steps(self.choice.pick(BURSTS))
        self._end()
        return world

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def _step(self) -> None:
        world, choice = self.world, self.choice
        node = world.nodes[choice.pick(sorted(world.nodes))]
        kind = choice.weighted((("stamp", 2.0), ("transfer", 6.0), ("install", 1.0)))
        if kind == "stamp":
            world.stamp(node)
        elif kind == "transfer":
            world.transfer(node)
        elif node.attempt is not None:
            world.install(node)

    def _upset(self) -> None:
        world, choice = self.world, self.choice
        kind = choice.weighted((("links", 2.0), ("form", 6.0), ("crash", 0.4), ("start", 0.6)))
        down = [name for name in self.names if name not in world.nodes]
        if kind == "links":
            sides = choice.between(1, 3)
            for name in self.names:
                world.side[name] = choice.below(sides)
        elif kind == "crash" and len(world.nodes) > 1:
            self._crash(choice.pick(sorted(world.nodes)))
        elif kind == "start" and down:
            world.start(choice.pick(down))
        else:
            self._form()

    def _crash(self, name: str) -> None:
        self._count(name)
        self.world.crash(name)

    def _form(self) -> None:
        world, choice = self.world, self.choice
        first = choice.pick(sorted(world.nodes))
        near = [name for name in sorted(world.nodes) if world.side[name] == world.side[first]]
        chosen = near if choice.chance(0.7) else sorted({first, *choice.sample(near, choice.below(len(near) + 1))})
        world.form(chosen)
        if choice.chance(0.7):
            for name in chosen:
                if choice.chance(0.9):
                    world.install(world.nodes[name])

    def _request(self) -> None:
        world, choice = self.world, self.choice
        clients = sorted(world.sessions)
        if len(clients) < 4 or choice.chance(0.05):
            used = {(client.daemon.name, client.name) for client in clients}
            free = [(name, letter) for name in sorted(world.nodes) for letter in "ab" if (name, letter) not in used]
            if free:
                client = world.connect(*choice.pick(free))
                for group in choice.sample(self.groups, choice.between(1, len(self.groups))):
                    world.join(client, group)
            return
        client = choice.pick(clients)
        joined = world.members[client]
        kind = choice.weighted(
            (("send", 12.0), ("join", self.churn), ("leave", self.churn), ("disconnect", 0.3 * self.churn))
        )
        if kind == "join":
            others = [group for group in self.groups if group not in joined]
            if others:
                world.join(client, choice.pick(others))
        elif kind == "leave" and joined:
            world.leave(client, choice.pick(joined))
        elif kind == "disconnect":
            world.disconnect(client)
        else:
            self._send()

    def _send(self) -> None:
        world, choice = self.world, self.choice
        client = choice.pick(sorted(world.sessions))
        groups = choice.sample(self.groups, 1 if choice.chance(0.8) else choice.between(1, len(self.groups)))
        if choice.chance(0.05):
            groups.append(choice.pick(sorted(world.sessions)).private_group)
        bodies = [b"%d" % number for number in range(1 if choice.chance(0.8) else choice.between(2, 4))]
        if choice.chance(0.01):
            bodies = [b"." * 150_000]
        world.send(client, choice.pick(tuple(Service)), *groups, bodies=bodies)

    def _end(self) -> None:
        world, choice = self.world, self.choice
        for name in self.names:
            if name not in world.nodes:
                world.start(name)
        sides = 1 if choice.chance(0.8) else 2
        for name in self.names:
            world.side[name] = choice.below(sides)
        world.settle()
        for name in self.names:
            self._count(name)

    def _count(self, name: str) -> None:
        groups = self.world.nodes[name].groups
        assert groups.refused == {}
        self.entries += Counter(groups.entries)


UNJUDGED = ("EVS-2.11.2@S", "EVS-2.12.2@S")
"""FIFO and CAUSAL at EVS-S are per session here, not per daemon."""


def broken(world: World) -> list[str]:
    verdicts = check(world.rows).verdicts.items()
    found = [verdict.violation for label, verdict in verdicts if verdict.violation and label not in UNJUDGED]
    own = names_that_came_back_too_early(world.rows) + safe_messages_that_members_lack(world.rows)
    return [f"{each.property}: {each.explanation}" for each in found] + own


def names_that_came_back_too_early(rows: list[t.Row]) -> list[str]:
    """2.9.2, with views compared by daemon view and stamp.

    Ids of views that were made on different ways out of one daemon view have no meaningful order; the message and the
    join that brings the name back do, by their stamps.
    """
    views: dict[tuple[str, str], GroupViewId] = {}
    latest: dict[tuple[str, str], tuple[DaemonViewId, Stamp]] = {}  # by sender's session and group
    returned: list[tuple[str, str, GroupViewId]] = []
    for row in rows:
        match row.entry:
            case t.ViewDelivered(receivers=receivers, group=group, view=view, members=members):
                returned += [
                    (each, group, view) for each in receivers if (each, group) not in views and each in members
                ]
                views.update({(each, group): view for each in receivers})
            case t.Delivered(receivers=receivers, sender=sender, groups=groups):
                for each in receivers:
                    for group in groups:
                        if (each, group) in views:
                            place = (views[each, group].daemon_view, views[each, group].stamp)
                            latest[sender, group] = max(latest.get((sender, group), place), place)
    return [
        f"{client} came back in {view}, {sender} was delivered in {place}"
        for client, group, view in returned
        for (sender, where), place in latest.items()
        if where == group and _is_earlier(sender, client) and place >= (view.daemon_view, view.stamp)
    ]


class SafeMessages:
    """2.14.2 and 2.14.3: every member, or every one of the next transitional set, delivers it, unless it ends.

    In whatever view: a view may be carried over several daemon views, so its id sets no deadline; and a daemon of the
    transitional set may never come to that daemon view and deliver the rest on another way. Judged at a quiet end.
    """

    def __init__(self) -> None:
        self._views: dict[tuple[str, str], t.ViewDelivered] = {}
        self._behind: dict[tuple[str, str], list[tuple[str, int]]] = {}  # SAFE since the signal; no key: no signal
        self._owed: dict[tuple[str, str, int], str] = {}
        self._told: set[tuple[str, str, int]] = set()
        self._ended: set[str] = set()

    def take(self, entry: t.Entry) -> None:
        match entry:
            case t.ViewDelivered(receivers=receivers, group=group):
                for each in receivers:
                    self._owe(self._behind.pop((each, group), []), entry.transitional, f"{group}, behind the signal")
                    self._views[each, group] = entry
            case t.SignalDelivered(receivers=receivers, group=group):
                self._behind.update({(each, group): [] for each in receivers})
            case t.SelfLeft(client=client, group=group):
                del self._views[client, group]
                self._behind.pop((client, group), None)
            case t.Disconnected(client=client):
                self._ended.add(client)
            case t.Crashed(daemon=daemon):
                self._ended.add(daemon)
            case t.Delivered():
                self._deliver(entry)

    def _deliver(self, entry: t.Delivered) -> None:
        message = (entry.sender, entry.first_sequence)
        self._told |= {(each, *message) for each in entry.receivers}
        for place in [(each, group) for each in entry.receivers for group in entry.groups]:
            if place in self._views and entry.service is Service.SAFE:
                if place in self._behind:
                    self._behind[place].append(message)
                else:
                    self._owe([message], self._views[place].members, f"{place[1]}, before the signal")

    def _owe(self, messages: list[tuple[str, int]], members: tuple[str, ...], where: str) -> None:
        self._owed.update({(each, *message): where for message in messages for each in members})

    def _has_ended(self, client: str) -> bool:
        return client in self._ended or str(parse_client_id(client).daemon) in self._ended

    def lacking(self) -> list[str]:
        open = [(key, where) for key, where in self._owed.items() if key not in self._told]
        owed = [(key, where) for key, where in open if not self._has_ended(key[0])]
        return [f"{client} lacks {first} of {sender} in {where}" for (client, sender, first), where in owed]


def safe_messages_that_members_lack(rows: list[t.Row]) -> list[str]:
    messages = SafeMessages()
    for row in rows:
        messages.take(row.entry)
    return messages.lacking()


def _is_earlier(sender: str, client: str) -> bool:
    one, other = parse_client_id(sender), parse_client_id(client)
    same = (one.name, one.daemon.name) == (other.name, other.daemon.name)
    return same and (one.daemon.incarnation, one.session) < (other.daemon.incarnation, other.session)


@pytest.mark.parametrize("seed", range(40))
def test_every_property_holds(seed: int) -> None:
    run = RandomRun(seed, rounds=200)
    assert broken(run.play()) == []


def test_every_state_is_entered_for_every_reason_and_every_property_exercised() -> None:
    entries: Counter[tuple[State, Reason]] = Counter()
    exercised: set[str] = set()
    for seed in range(100, 130):
        run = RandomRun(seed)
        world = run.play()
        assert broken(world) == []
        entries += run.entries
        exercised |= {label for label, verdict in check(world.rows).verdicts.items() if verdict.state is Verdict.HOLDS}
    every = {(state, reason) for reasons in TRANSITIONS.values() for reason, state in reasons.items()}
    assert {entry for entry in every if not entries[entry]} == set()
    owed = [
        each.id for each in BY_ID.values() if Boundary.CLIENTS in each.boundaries and each.form is not Form.DEFINITION
    ]
    assert [id for id in owed if id not in exercised] == []


def test_all_daemons_of_a_view_know_the_same_at_the_end() -> None:
    for seed in range(20):
        run = RandomRun(f"same {seed}", rounds=150)
        world = run.play()
        world.pruning = 0.0
        for side in {world.side[name] for name in run.names}:
            known = [
                {name: (group.members, group.marked) for name, group in world.nodes[each].groups.roster.by_name.items()}
                for each in run.names
                if world.side[each] == side
            ]
            assert all(each == known[0] for each in known)


def test_the_same_seed_gives_the_same_actions() -> None:
    one, other = RandomRun("twice").play(), RandomRun("twice").play()
    assert one.heard == other.heard

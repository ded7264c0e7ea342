"""Slow readers of other daemons: what closes which groups, how long a daemon's word lasts, when ours is said again."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.ids import ClientId, DaemonId, GroupViewId
from isotone.core.services import Service
from isotone.evs.groups import State, Submit
from isotone.evs.groups.holds import HOLD_SESSION
from isotone.evs.groups.messages import CODEC, READERS_MAX, HoldMessage, JoinMessage, decode_message
from isotone.evs.groups.peek import EVERYBODY, peek
from isotone.evs.ordering.units import Unit, UnitKind
from tests.evs.groups.bench import A1, A2, A3, B1, B2, D1, D2, D3, Bench, started
from tests.evs.groups.model import Node
from tests.evs.groups.test_random_runs import RandomRun, broken


def held(bench: Bench) -> list[str]:
    return sorted(bench.groups.holds.groups)


def said(bench: Bench, *readers: ClientId) -> list[tuple[str, int]] | None:
    """The readers that are named when these block, or nothing if nothing is said."""
    submits = bench.groups.holds.state(readers)
    bench.actions = [*submits]
    if not submits:
        return None
    (draft,) = submits[0].drafts
    assert (draft.kind, draft.service) == (UnitKind.GROUPS, Service.FIFO)
    message = decode_message(draft.body)
    assert isinstance(message, HoldMessage)
    return list(message.readers)


def stamped(bench: Bench) -> Unit:
    return bench.stamp("statement")


def moved(bench: Bench, epoch: int, *members: DaemonId) -> None:
    """The next daemon view; who is in both comes along."""
    along = tuple(member for member in bench.groups.view.members if member in members)
    bench.signal(epoch, *along)
    bench.view(epoch, *members, along=along)


# --- the word of others --------------------------------------------------------------------------------------------


def test_a_reader_elsewhere_closes_its_groups_and_its_private_one_until_it_is_taken_back() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A2, "g"), bench.joining(A2, "h"), bench.joining(B2, "i"))
    assert bench.units(bench.holding(D2, A2)) == []
    assert held(bench) == ["#a#d2", "g", "h"] and bench.groups.holds.readers == (A2,)
    bench.units(bench.holding(D3, A3))
    bench.units(bench.holding(D2, B2))
    assert held(bench) == ["#a#d3", "#b#d2", "i"], "the later statement of a daemon replaces the one before"
    bench.units(bench.holding(D2))
    assert held(bench) == ["#a#d3"]
    bench.units(bench.holding(D3))
    assert held(bench) == [] and bench.groups.holds.readers == ()


def test_what_is_held_is_the_same_object_until_it_changes() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A2), bench.holding(D2, A2))
    before = bench.groups.holds.groups
    bench.units(bench.holding(D2, A2), bench.joining(B2, "other"), bench.leaving(B2, "other"))
    assert bench.groups.holds.groups is before


def test_groups_that_a_held_reader_joins_and_leaves_are_closed_and_open_at_once() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A2, "g"), bench.holding(D2, A2), bench.joining(A2, "h"))
    assert held(bench) == ["#a#d2", "g", "h"]
    bench.units(bench.leaving(A2, "g"))
    assert held(bench) == ["#a#d2", "h"]
    bench.units(bench.killing(A2))
    assert held(bench) == ["#a#d2"]


def test_it_counts_before_its_agreed_past_though_a_join_is_under_way() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A2))
    bench.ask(A1, b4.Join("g"))
    body = CODEC.encode(HoldMessage((("a", 1),)))
    bench.units(bench.unit(D2, UnitKind.GROUPS, Service.FIFO, body, before=(99, 1)))
    assert held(bench) == ["#a#d2", "g"]


def test_while_groups_are_gathered_it_counts_at_once_and_the_groups_follow() -> None:
    bench = Bench().connect(A1)
    bench.view(1, D1, D2)
    own, joined = bench.own_groups(), bench.groups.view.id
    bench.units(bench.holding(D2, A2))
    assert bench.groups.state is State.GGATHER and held(bench) == ["#a#d2"]
    bench.units(own, bench.bringing(D2, ("g", GroupViewId(joined), False, A2)))
    assert bench.groups.state is State.GOP and held(bench) == ["#a#d2", "g"]


def test_nobody_speaks_for_readers_of_another_daemon() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A2), bench.holding(D3, A2))
    assert held(bench) == ["#a#d3"]


def test_what_no_correct_daemon_says_is_counted_and_changes_nothing() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A2), bench.holding(D2, A2))
    before = held(bench)
    wrong = [
        (Service.FIFO, b"\x92\x54"),
        (Service.FIFO, b""),
        (Service.FIFO, b"\x92\x5f\x90"),  # of a version to come
        (Service.FIFO, CODEC.encode(HoldMessage((("a b", 1),)))),
        (Service.FIFO, CODEC.encode(HoldMessage((("a", 1),) * (READERS_MAX + 1)))),
        (Service.FIFO, CODEC.encode(JoinMessage("b", 1, "g"))),
        (Service.AGREED, CODEC.encode(HoldMessage(()))),
    ]
    bench.units(*[bench.unit(D2, UnitKind.GROUPS, service, body) for service, body in wrong])
    assert sum(bench.groups.refused.values()) == len(wrong)
    assert held(bench) == before and not bench.groups.roster.has(B2, "g")


def test_it_is_for_all_sites() -> None:
    bench = started(A1, members=(D1, D2))
    assert peek(bench.holding(D2, A2)) == EVERYBODY


# --- daemon views --------------------------------------------------------------------------------------------------


def test_the_word_of_a_daemon_that_is_gone_ends_with_the_daemon_view() -> None:
    bench = started(A1, members=(D1, D2, D3))
    bench.units(bench.joining(A2), bench.joining(A3, "h"), bench.holding(D2, A2), bench.holding(D3, A3))
    bench.signal(2, D1, D3)
    assert held(bench) == ["#a#d2", "#a#d3", "g", "h"]
    bench.view(2, D1, D3, along=(D3,))
    assert held(bench) == ["#a#d3", "h"], "and that of one who came along lasts"


def test_who_comes_back_has_to_say_it_again() -> None:
    bench = started(A1, members=(D1, D2))
    bench.units(bench.joining(A2), bench.holding(D2, A2))
    moved(bench, 2, D1)
    bench.signal(3, D1)
    bench.view(3, D1, D2)
    assert held(bench) == []
    bench.units(bench.holding(D2, A2))
    assert held(bench) == ["#a#d2"]


# --- our own word --------------------------------------------------------------------------------------------------


def test_readers_here_are_named_once_and_taken_back_once() -> None:
    bench = started(A1, B1, members=(D1, D2))
    assert said(bench) is None and not bench.groups.holds.is_stating
    assert said(bench, A1) == [("a", 1)] and bench.groups.holds.is_stating
    bench.units(stamped(bench))
    assert said(bench, A1) is None and held(bench) == [], "our own word closes nothing: the sessions do that"
    assert said(bench) == []
    bench.units(stamped(bench))
    assert said(bench) is None and not bench.groups.holds.is_stating


def test_one_statement_is_under_way_however_often_readers_change() -> None:
    bench = started(A1, B1, members=(D1, D2))
    assert said(bench, A1) == [("a", 1)]
    first = stamped(bench)
    for readers in ((A1, B1), (), (B1,)):
        assert said(bench, *readers) is None
    bench.units(first)
    assert said(bench, B1) == [("b", 1)]


def test_no_more_are_named_than_a_unit_holds_those_who_were_slow_first() -> None:
    bench = started(A1, members=(D1, D2))
    readers = [ClientId(D1, f"r{number}", number) for number in range(READERS_MAX + 5)]
    named = said(bench, *readers)
    assert named == [(reader.name, reader.session) for reader in readers[:READERS_MAX]]
    bench.units(stamped(bench))
    assert said(bench, *readers) is None and said(bench, *readers[1:]) is not None


def test_who_is_alone_says_nothing_until_others_come() -> None:
    bench = started(A1, members=(D1,))
    assert said(bench, A1) is None
    moved(bench, 2, D1, D2)
    assert said(bench, A1) == [("a", 1)]


def test_it_is_said_again_in_the_next_daemon_view_also_that_it_is_over() -> None:
    bench = started(A1, members=(D1, D2))
    said(bench, A1)
    bench.units(stamped(bench))
    moved(bench, 2, D1, D2)
    assert said(bench, A1) == [("a", 1)], "for those who are new"
    bench.units(stamped(bench))
    moved(bench, 3, D1, D2)
    assert said(bench) == [], "the reader read in the moment in which the daemon view came"
    bench.units(stamped(bench))
    moved(bench, 4, D1, D2)
    assert said(bench) is None and not bench.groups.holds.is_stating


def test_what_is_under_way_goes_along_and_is_not_said_twice() -> None:
    bench = started(A1, members=(D1, D2))
    said(bench, A1)
    (submit,) = bench.actions
    assert isinstance(submit, Submit)
    moved(bench, 2, D1, D2)
    assert said(bench, A1) is None
    (draft,) = submit.drafts
    bench.units(bench.unit(D1, draft.kind, draft.service, bytes(draft.body)))
    assert said(bench, A1) is None and said(bench) == []


def test_who_was_alone_for_a_while_has_nothing_to_take_back() -> None:
    bench = started(A1, members=(D1, D2))
    said(bench, A1)
    bench.units(stamped(bench))
    moved(bench, 2, D1)
    assert said(bench, A1) is None and said(bench) is None
    moved(bench, 3, D1, D2)
    assert said(bench) is None and not bench.groups.holds.is_stating


# --- random runs ---------------------------------------------------------------------------------------------------


class HeldRun(RandomRun):
    """As that, with readers that become slow and read again while daemon views come and go."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed, rounds=150)
        self.slow: dict[ClientId, None] = {}
        self.said = 0

    def _request(self) -> None:
        super()._request()
        self.state()

    def _step(self) -> None:
        super()._step()
        clients = sorted(self.world.sessions)
        if clients and self.choice.chance(0.1):
            client = self.choice.pick(clients)
            if client in self.slow:
                del self.slow[client]
            else:
                self.slow[client] = None
        self.state()

    def _upset(self) -> None:
        super()._upset()
        self.state()

    def state(self) -> bool:
        """As a stack does after every event; whether anybody said anything."""
        said = 0
        for node in self.world.nodes.values():
            submits = node.groups.holds.state(self.slow_at(node.me))
            said += len(submits)
            self.world.perform(node, [*submits])
            assert len(node.drafts.get(HOLD_SESSION, ())) <= 1, "one is on the way"
            assert node.groups.holds.groups == self.wanted_at(node), "after every event"
        self.said += said
        return bool(said)

    def wanted_at(self, node: Node) -> set[str]:
        readers, groups_of = node.groups.holds.readers, node.groups.roster.groups_of
        return {name for reader in readers for name in (reader.private_group, *groups_of(reader))}

    def slow_at(self, daemon: DaemonId) -> list[ClientId]:
        return [client for client in self.slow if client.daemon == daemon and client in self.world.sessions]


def test_readers_change_often_enough_in_these_runs() -> None:
    runs = [HeldRun(f"held {seed}") for seed in range(5)]
    for run in runs:
        run.play()
    assert sum(run.said for run in runs) > 50


@pytest.mark.parametrize("seed", range(25))
def test_in_the_end_all_hold_for_those_who_are_slow_and_for_nobody_else(seed: int) -> None:
    run = HeldRun(f"held {seed}")
    world = run.play()
    assert broken(world) == []
    for _ in range(4):
        if run.state():
            world.drain()
    for node in world.nodes.values():
        others = sorted(each for each in node.groups.view.members if each != node.me)
        assert list(node.groups.holds.readers) == [client for each in others for client in run.slow_at(each)]
        assert node.groups.holds.groups == run.wanted_at(node)
    run.slow.clear()
    for _ in range(2):
        if run.state():
            world.drain()
    assert not any(node.groups.holds.groups or node.groups.holds.is_stating for node in world.nodes.values())

"""Declarations and overrides that do not know of each other: who must go, who goes on, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from isotone.hab.centre import Answer, Centre, Role, founded
from isotone.hab.commands import apply
from isotone.hab.configuration import first_epoch, handed_over, next_epoch
from isotone.hab.events import DeclareWanted, PacketReceived, RejoinWanted
from isotone.hab.messages import (
    WIDE,
    Alive,
    Confirm,
    Declaration,
    Declare,
    Join,
    Kind,
    LeaderUnaware,
    SendState,
    Store,
    UpdateState,
)
from isotone.hab.process import Hab
from isotone.hab.settings import HabSettings
from isotone.hab.transition import is_news
from isotone.sim.figures.hab_table import SETTLE_US, Trial
from isotone.sim.hab.operator import LABEL
from tests.paper.hab_group import commands

THREE = HabSettings(centres={"a": ("a1",), "b": ("b1",), "c": ("c1",)})
FIVE = HabSettings(centres={name: (f"{name}1",) for name in "abcde"})


def declare(lost: str, begun_by: str, *recorders: str, **said: object) -> Declare:
    return Declare(Declaration(lost, 0, begun_by, recorders or (begun_by,), **said))  # type: ignore[arg-type]


def override(lost: str, begun_by: str, **said: object) -> Declare:
    return declare(lost, begun_by, override=True, **said)


def centre(name: str, *told: Declare, settings: HabSettings = THREE) -> Centre:
    found = founded(name, settings)
    for each in told:
        apply(found, settings, each)
    return found


# --- a majority ------------------------------------------------------------------------------------------------------


def test_what_a_majority_recorded_counts_also_where_one_of_them_was_removed() -> None:
    """a has removed b, whose word it would miss; c has counted a out."""
    c = centre("c", declare("a", "b", "b"))
    assert c.declarations["a"].counted
    a = centre("a", declare("b", "a", "a", "c"))
    apply(a, THREE, Confirm(a.epoch, 0))
    assert [entry.kind for entry in a.log.entries] == [Kind.REMOVE] and a.configuration.named("b") is None
    told = c.declarations["a"]
    assert not a.has_majority(told) and is_news(a, told)
    apply(a, THREE, Declare(told))
    assert a.role is Role.OUT


def test_without_that_mark_only_a_majority_of_the_present_configuration_counts() -> None:
    a = centre("a", declare("b", "a", "a", "c"))
    apply(a, THREE, Confirm(a.epoch, 0))
    told = Declaration("a", 0, "b", ("b", "c"))
    assert not is_news(a, told)
    apply(a, THREE, Declare(told))
    assert a.role is Role.PRIMARY


def test_a_declaration_counts_as_soon_as_a_smaller_configuration_has_its_majority() -> None:
    """Two of five recorded that d is lost; behind the removal of c and e they are a majority of three."""
    a = centre("a", declare("d", "a", "a"), declare("d", "b", "b"), settings=FIVE)
    assert a.declarations["d"].recorders == ("a", "b") and not a.is_centre_lost("d")
    for lost in "ce":
        apply(a, FIVE, Confirm(a.epoch, a.log.end))
        apply(a, FIVE, override(lost, "a"))
    apply(a, FIVE, Confirm(a.epoch, a.log.end))
    apply(a, FIVE, Confirm(a.epoch, a.log.end))
    assert a.configuration.named("d") is None


def test_a_second_centre_is_not_declared_lost_where_nobody_could_go_on_then() -> None:
    """b is lost, so that a is lost too would leave one of three; only an override says so."""
    c = centre("c", declare("b", "a", "a"))
    assert c.is_centre_lost("b")
    plain = declare("a", "c")
    assert not is_news(c, plain.declaration)
    apply(c, THREE, plain)
    assert not c.declarations.keys() - {"b"}
    apply(c, THREE, override("a", "c"))
    assert c.is_waived("a") and c.role is Role.TRANSITION and not c.has_quorum()
    apply(c, THREE, override("b", "c"))
    assert c.has_quorum()


def test_of_five_two_may_be_declared_lost_and_no_third_one() -> None:
    e = centre("e", declare("a", "b", "b", "c"), declare("c", "b", "b", "d"), settings=FIVE)
    assert e.is_centre_lost("a") and e.is_centre_lost("c")
    apply(e, FIVE, declare("b", "e"))
    assert not e.declarations.keys() - {"a", "c"}


# --- removed, or next, without knowing it ----------------------------------------------------------------------------


def removed_b() -> Centre:
    """c has stored that a removed b."""
    a = centre("a", declare("b", "a", "a", "c"))
    apply(a, THREE, Confirm(a.epoch, 0))
    c = centre("c")
    apply(c, THREE, Store(a.epoch, "a", a.start, 1, 0, a.log.behind(0), 0, "a1"))
    assert c.configuration.named("b") is None
    return c


def test_a_centre_that_finds_in_its_transition_that_it_was_removed_leaves_and_leads_nothing() -> None:
    c, b = removed_b(), centre("b", declare("a", "b", "b", "c"))
    assert b.role is Role.TRANSITION
    apply(b, THREE, UpdateState(b.epoch, 1, 0, c.log.behind(0)))
    assert b.role is Role.OUT and b.accepted < b.epoch


def test_who_promised_a_centre_that_was_removed_takes_over() -> None:
    c, epoch = removed_b(), next_epoch(first_epoch(1), 2)
    effects = apply(c, THREE, SendState(epoch, "b", 0, "b1"))
    assert any(isinstance(each, Answer) for each in effects)  # so b learns it
    assert c.role is Role.TRANSITION and c.epoch > epoch


def handed_over_and_lost() -> tuple[Hab, Hab]:
    """a led, and b leads by a hand-over that a has stored and c has not; then b is lost, as both know."""
    a, c = Hab(THREE, "a1", 1), Hab(THREE, "c1", 1)
    for hab in (a, c):
        hab.centre.epoch = hab.centre.accepted = handed_over(hab.centre.epoch)
        hab.centre.leader, hab.centre.role = "b", Role.BACKUP
    a.centre.configuration = a.centre.configuration.led_by(2)
    a.centre.number = 4
    for hab in (a, c):
        apply(hab.centre, THREE, declare("b", "a", "a", "c"))
        assert hab.centre.role is Role.BACKUP and hab.centre.successor() != hab.centre.number
    return a, c


def heard(hab: Hab, other: Hab) -> list[object]:
    """What follows from the keep-alive of the other one."""
    told = Alive(other.centre.name, 0, other.centre.epoch, 0, tuple(other.centre.declarations.values()))
    return commands(hab, hab.handle(PacketReceived(1, other.process, WIDE.encode(told))))


def test_each_of_two_backups_waits_for_the_other_one_until_it_hears_that_it_waits() -> None:
    a, c = handed_over_and_lost()
    epoch = a.centre.epoch
    assert LeaderUnaware(epoch) in heard(a, c) and LeaderUnaware(epoch) in heard(c, a)
    apply(c.centre, THREE, LeaderUnaware(epoch))
    assert c.centre.role is Role.TRANSITION
    assert LeaderUnaware(epoch) not in heard(a, c)  # it has begun


def test_nobody_takes_over_before_the_next_one_knows_that_the_leader_is_lost() -> None:
    a, c = handed_over_and_lost()
    c.centre.declarations.clear()
    assert LeaderUnaware(a.centre.epoch) not in heard(a, c)


# --- overrides -------------------------------------------------------------------------------------------------------


def test_of_two_overrides_against_each_other_that_of_the_first_in_the_succession_counts() -> None:
    """a is lost. Neither has taken over, so neither word is overtaken: both were out before, and nobody was left."""
    b, c = centre("b", override("c", "b")), centre("c", override("b", "c"))
    of_b, of_c = b.declarations["c"], c.declarations["b"]
    assert is_news(c, of_b) and not is_news(b, of_c)
    apply(b, THREE, Declare(of_c))
    apply(c, THREE, Declare(of_b))
    assert (b.role, c.role) == (Role.BACKUP, Role.OUT)


@pytest.mark.parametrize("mark", ["counted", "witnessed"])
def test_an_answer_to_an_override_is_none_to_a_majority_or_a_witness(mark: str) -> None:
    b = centre("b", override("c", "b"))
    told = msgspec.structs.replace(override("b", "c").declaration, **{mark: True})
    apply(b, THREE, Declare(told))
    assert b.role is Role.OUT


def test_who_declared_nobody_lost_obeys_an_override() -> None:
    b = centre("b", declare("c", "b"))  # not by an override, and it does not count
    apply(b, THREE, override("b", "c"))
    assert b.role is Role.OUT


def test_who_is_out_and_wants_back_is_in_nobodys_way() -> None:
    """b went by an override of which c does not know; that it asks to come back says enough."""
    c = centre("c", override("a", "c"))
    assert c.role is Role.BACKUP  # it waits for b, which comes first
    apply(c, THREE, Join("b", "b1#1.0.1"))
    assert c.role is Role.TRANSITION and c.has_quorum()


@pytest.mark.parametrize(("leads", "returns"), [("b1", "c1"), ("c1", "b1")])
def test_two_overrides_of_centres_that_are_cut_off_end_with_one_primary(leads: str, returns: str) -> None:
    """The primary is lost; at each of the others an operator overrides the other two. Who takes over first stays."""
    trial = Trial((1, 1, 1))
    trial.broadcast("a1")
    trial.world.run_for(SETTLE_US)
    trial.world.crash("a1")
    trial.world.cut("b1", "c1")
    for name, lost in (("b1", "c"), ("c1", "b")):
        trial.world.tell(name, LABEL, DeclareWanted(0, lost, True))
    trial.world.run_for(SETTLE_US)
    trial.world.heal()
    for name in (leads, returns):
        trial.world.tell(name, LABEL, DeclareWanted(0, "a", True))
        trial.world.run_for(SETTLE_US)
    trial.world.run_for(2 * SETTLE_US)
    states = {name: trial.run.hab(name).centre for name in (leads, returns)}
    assert (states[leads].role, states[returns].role) == (Role.PRIMARY, Role.OUT)
    trial.world.tell(returns, LABEL, RejoinWanted(0))
    trial.broadcast(leads)
    trial.world.run_for(2 * SETTLE_US)
    assert states[returns].role is Role.BACKUP and trial.run.node(returns).application.position == 2

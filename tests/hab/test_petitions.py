"""Operators' wishes that a centre be declared lost: they meet wherever they were said, and end."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.hab.centre import Centre, Role, founded
from isotone.hab.commands import apply
from isotone.hab.events import DeclareWanted
from isotone.hab.messages import (
    OPERATORS_MAX,
    WIDE,
    Alive,
    Declaration,
    Declare,
    Petition,
    PetitionDue,
    Petitioned,
    PetitionExpired,
    PetitionHeard,
)
from isotone.hab.petitions import PetitionClock, news
from isotone.hab.settings import HabSettings
from isotone.sim.figures.hab_table import SETTLE_US, Trial
from isotone.sim.hab.operator import LABEL
from isotone.trace.hab import HaDeclared
from tests.paper.hab_group import DataCentres

SETTINGS = HabSettings(
    centres={"a": ("a1",), "b": ("b1", "b2"), "c": ("c1",)},
    confirmations=2,
    confirm_after_us=10_000_000,
    wish_us=60_000_000,
)
ANNA, BEN = Petitioned("a", 0, "anna"), Petitioned("a", 0, "ben")
WITHDRAWN = Petitioned("a", 0, "ben", withdrawn=True)


def centre(name: str, *commands: Petitioned) -> Centre:
    found = founded(name, SETTINGS)
    for command in commands:
        apply(found, SETTINGS, command)
    return found


def alive(source: Centre) -> Alive:
    """Its keep-alive."""
    told = tuple(source.petitions.values())
    return Alive(source.name, source.number, source.epoch, 0, tuple(source.declarations.values()), petitions=told)


def hear(to: Centre, source: Centre) -> None:
    """Take what is news in a keep-alive."""
    for told in news(to, alive(source)):
        apply(to, SETTINGS, PetitionHeard(told))


# --- two wishes meet -------------------------------------------------------------------------------------------------


def test_two_operators_declare_at_one_centre() -> None:
    state = centre("b", ANNA, ANNA)
    assert state.petitions == {"a": Petition("a", 0, 0, ("anna",))} and not state.declarations
    apply(state, SETTINGS, BEN)
    assert state.declarations["a"].operators == ("anna", "ben") and not state.petitions


def test_two_operators_declare_at_two_centres() -> None:
    b, c = centre("b", ANNA), centre("c", BEN)
    hear(b, c)
    assert b.declarations["a"].operators == ("anna", "ben") and not b.petitions
    assert c.petitions and not c.declarations  # it hears of the declaration
    apply(c, SETTINGS, Declare(b.declarations["a"]))
    assert c.is_centre_lost("a") and not c.petitions


def test_what_was_heard_once_is_no_news() -> None:
    b, c = centre("b", ANNA), centre("c")
    hear(c, b)
    assert c.petitions == b.petitions and not c.declarations
    assert not news(c, alive(b)) and not news(b, alive(c))


def test_the_processes_of_two_centres_tell_each_other() -> None:
    centres = DataCentres(SETTINGS)
    centres.strike("a")
    centres.tell("b2", DeclareWanted(0, "a", operator="anna"))
    centres.tell("c1", DeclareWanted(0, "a", operator="ben"))
    assert not centres.habs["b1"].centre.declarations and not centres.habs["c1"].centre.declarations
    centres.keep_alive("b", "c")
    centres.run()
    for name in ("b1", "b2", "c1"):
        state = centres.habs[name].centre
        assert state.configuration.named("a") is None and not state.petitions
    assert centres.habs["b1"].centre.role is Role.PRIMARY


def test_who_accepts_the_risk_of_an_override_wants_it_without_one_too() -> None:
    state = centre("b", ANNA, msgspec.structs.replace(BEN, override=True))
    assert not state.declarations["a"].override and state.declarations["a"].operators == ("anna", "ben")
    assert state.petitions["a"] == Petition("a", 0, 0, (), ("ben",))  # one operator alone overrides nothing
    hear(state, centre("c", msgspec.structs.replace(ANNA, override=True)))
    assert state.declarations["a"].override and state.is_centre_lost("a") and not state.petitions


def test_an_override_waives_one_that_a_majority_declared_lost() -> None:
    """Its declaration counts already; but now the rest of that majority is lost too."""
    state = centre("c")
    apply(state, SETTINGS, Declare(Declaration("a", 0, "b", ("b", "c"))))
    assert state.is_centre_lost("a") and not state.is_waived("a")
    for operator in ("anna", "ben"):
        for lost in ("a", "b"):
            apply(state, SETTINGS, Petitioned(lost, 0, operator, override=True))
    assert state.is_waived("a") and state.is_waived("b") and state.has_quorum() and not state.petitions


# --- wishes against each other ---------------------------------------------------------------------------------------


def test_opposite_wishes_stand_side_by_side() -> None:
    b, c = centre("b", Petitioned("c", 0, "anna")), centre("c", Petitioned("b", 0, "ben"))
    hear(b, c)
    hear(c, b)
    assert not b.declarations and not c.declarations
    assert [*b.petitions] == ["c"] and [*c.petitions] == ["b"]  # nobody keeps a wish against itself
    a = centre("a")
    hear(a, b)
    hear(a, c)
    assert sorted(a.petitions) == ["b", "c"]
    apply(a, SETTINGS, Petitioned("c", 0, "ben"))
    assert [*a.declarations] == ["c"]


def test_a_withdrawal_reaches_all_who_heard_the_wish() -> None:
    b, c = centre("b", ANNA), centre("c")
    hear(c, b)
    apply(c, SETTINGS, WITHDRAWN)
    hear(b, c)
    hear(c, b)
    assert not b.petitions["a"].everybody and b.petitions == c.petitions
    apply(b, SETTINGS, BEN)
    assert not b.declarations  # what anna wanted is withdrawn
    hear(c, b)
    apply(c, SETTINGS, ANNA)
    assert c.declarations["a"].operators == ("anna", "ben")


def test_nothing_to_withdraw_is_nothing() -> None:
    assert not centre("b", WITHDRAWN).petitions


def test_a_declared_centre_is_not_listened_to() -> None:
    c = centre("c", Petitioned("b", 0, "ben"))
    apply(c, SETTINGS, Declare(Declaration("a", 0, "b", ("b",))))
    a = centre("a", Petitioned("b", 0, "anna"))
    assert not news(c, alive(a)) and news(centre("c"), alive(a))


# --- the end of a wish -----------------------------------------------------------------------------------------------


def test_a_wish_against_an_earlier_life_is_nothing() -> None:
    state = centre("b", Petitioned("a", 7, "anna"), Petitioned("x", 0, "anna"), Petitioned("b", 0, "anna"))
    apply(state, SETTINGS, PetitionHeard(Petition("a", 7, 3, ("anna", "ben"))))
    apply(state, SETTINGS, PetitionDue("a", 7, 0, override=False))
    assert not state.petitions and not state.declarations


def test_a_wish_is_forgotten_when_the_declaration_counts_or_the_centre_is_out() -> None:
    state = centre("b", ANNA)
    apply(state, SETTINGS, Declare(Declaration("a", 0, "c", ("b", "c"))))
    assert state.is_centre_lost("a") and not state.petitions
    apply(state, SETTINGS, ANNA)
    assert not state.petitions
    state = centre("b", ANNA)
    apply(state, SETTINGS, Declare(Declaration("b", 0, "a", ("a", "c"))))
    assert state.role is Role.OUT and not state.petitions


def test_time_stands_for_an_operator_where_somebody_heard_the_wish() -> None:
    """Counted by the clock of the one who heard, from then on."""
    b, c = centre("b", ANNA), centre("c")
    hear(c, b)
    waiting = PetitionClock(SETTINGS)
    assert waiting.look(c, 5) == [] and waiting.look(c, 10_000_004) == []
    due = PetitionDue("a", 0, 0, override=False)
    assert waiting.look(c, 10_000_005) == [due]
    withdrawn = msgspec.structs.replace(due, round=0)
    apply(c, SETTINGS, WITHDRAWN)
    apply(c, SETTINGS, withdrawn)
    assert not c.declarations and waiting.look(c, 10_000_006) == []
    apply(b, SETTINGS, due)
    assert b.declarations["a"].operators == ("anna",) and not b.declarations["a"].override


def test_the_time_of_an_override_begins_with_the_wish_to_override() -> None:
    b = centre("b", ANNA)
    settings = msgspec.structs.replace(SETTINGS, confirmations=3)
    waiting = PetitionClock(settings)
    assert waiting.look(b, 0) == []
    apply(b, settings, msgspec.structs.replace(BEN, override=True))
    assert waiting.look(b, 9_000_000) == []
    assert waiting.look(b, 10_000_000) == [PetitionDue("a", 0, 0, override=False)]
    apply(b, settings, PetitionDue("a", 0, 0, override=False))
    assert not b.declarations["a"].override and b.petitions["a"].overriding == ("ben",)
    assert waiting.look(b, 19_000_000) == [PetitionDue("a", 0, 0, override=True)]
    apply(b, settings, PetitionDue("a", 0, 0, override=True))
    assert b.declarations["a"].override and not b.petitions


def test_a_wish_that_nobody_joins_expires_everywhere() -> None:
    settings = msgspec.structs.replace(SETTINGS, confirm_after_us=0)
    b, c = centre("b", ANNA), centre("c")
    hear(c, b)
    waiting = PetitionClock(settings)
    assert waiting.look(c, 0) == [] and waiting.look(c, 59_999_999) == []
    [expired] = waiting.look(c, 60_000_000)
    assert expired == PetitionExpired(c.petitions["a"])
    apply(c, settings, expired)
    hear(b, c)
    assert not b.petitions["a"].everybody
    apply(c, settings, ANNA)
    apply(c, settings, expired)  # of an earlier round
    assert c.petitions["a"].operators == ("anna",)


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_there_is_one_petition_for_each_other_centre() -> None:
    state = centre("b", *(Petitioned(each, 0, "anna") for each in ("a", "b", "c", "d") for _ in range(9)))
    assert sorted(state.petitions) == ["a", "c"]


def test_a_keep_alive_with_too_many_operators_is_malformed() -> None:
    names = tuple(f"o{number}" for number in range(OPERATORS_MAX + 1))
    fits = Alive("b", 2, 1, 0, (), petitions=(Petition("a", 0, 0, names[:-1]),))
    assert WIDE.decode(WIDE.encode(fits)) == fits
    with pytest.raises(RemoteProtocolError):
        WIDE.decode(WIDE.encode(Alive("b", 2, 1, 0, (), petitions=(Petition("a", 0, 0, names),))))


def test_a_wish_must_outlast_the_time_that_confirms_it() -> None:
    with pytest.raises(LocalProtocolError):
        msgspec.structs.replace(SETTINGS, wish_us=10_000_000).check()


# --- in the simulator ------------------------------------------------------------------------------------------------


def test_wishes_at_two_centres_end_in_a_take_over() -> None:
    trial = Trial((1, 2, 1), settings={"confirmations": 2})
    trial.world.crash("a1")
    trial.world.cut("b1", "c1")
    trial.world.cut("b2", "c1")
    trial.world.tell("b2", LABEL, DeclareWanted(0, "a", operator="anna"))
    trial.world.tell("c1", LABEL, DeclareWanted(0, "a", operator="ben"))
    trial.rows.clear()
    trial.broadcast("c1")
    trial.world.run_for(10 * SETTLE_US)
    assert not [row for row in trial.rows if isinstance(row.entry, HaDeclared)] and not trial.delivered()
    trial.world.heal()
    trial.world.run_for(10 * SETTLE_US)
    assert sorted(trial.delivered()) == ["b1", "b2", "c1"]

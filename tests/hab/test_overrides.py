"""Two data centres: no majority is left when one is lost, and an operator goes on by an override, rightly or not."""

from __future__ import annotations

from isotone.hab.centre import Role
from isotone.hab.events import DeclareWanted, RejoinWanted
from isotone.sim.figures.hab_table import SETTLE_US, Trial
from isotone.sim.hab.operator import LABEL
from isotone.spec.check import check
from isotone.spec.hab_properties import hab_labels
from isotone.spec.verdicts import State


def two_centres(**settings: object) -> Trial:
    """One record is delivered everywhere."""
    trial = Trial((2, 2), settings=settings)
    trial.broadcast("a1")
    trial.world.run_for(SETTLE_US)
    assert len(trial.delivered()) == 4
    return trial


def cut(trial: Trial) -> None:
    for one in ("a1", "a2"):
        for other in ("b1", "b2"):
            trial.world.cut(one, other)


def override(trial: Trial, at: str, lost: str) -> None:
    """Two operators, both at the same process."""
    for operator in ("anna", "ben"):
        trial.world.tell(at, LABEL, DeclareWanted(0, lost, True, operator))


def positions(trial: Trial) -> dict[str, int]:
    return {
        name: trial.run.node(name).application.position for name in ("a1", "a2", "b1", "b2") if trial.world.is_up(name)
    }


def roles(trial: Trial) -> dict[str, Role]:
    return {name: trial.run.hab(name).centre.role for name in ("a1", "b1")}


def judge(trial: Trial) -> None:
    verdicts = check(trial.rows).verdicts
    assert not [label for label in hab_labels() if verdicts[label].state is State.VIOLATED]


def test_without_an_override_nobody_goes_on() -> None:
    trial = two_centres(confirmations=2)
    for name in ("a1", "a2"):
        trial.world.crash(name)
    for operator in ("anna", "ben"):
        trial.world.tell("b1", LABEL, DeclareWanted(0, "a", operator=operator))
    trial.broadcast("b2")
    trial.world.run_for(10 * SETTLE_US)
    state = trial.run.hab("b1").centre
    assert state.role is Role.BACKUP and not state.is_centre_lost("a") and positions(trial)["b2"] == 1
    override(trial, "b1", "a")
    trial.world.run_for(10 * SETTLE_US)
    state = trial.run.hab("b1").centre
    assert state.role is Role.PRIMARY and [each.name for each in state.configuration.groups] == ["b"]
    assert positions(trial)["b1"] == positions(trial)["b2"] == 2
    judge(trial)


def test_one_operator_alone_overrides_nothing() -> None:
    trial = two_centres(confirmations=2)
    trial.world.tell("b1", LABEL, DeclareWanted(0, "a", True, "anna"))
    trial.world.run_for(10 * SETTLE_US)
    assert not trial.run.hab("b1").centre.declarations and roles(trial)["a1"] is Role.PRIMARY


def test_a_wrong_override_costs_what_the_other_centre_alone_had() -> None:
    """It lives, and tries to deliver; when they meet it learns that it is lost, and comes back."""
    trial = two_centres(confirmations=2)
    cut(trial)
    trial.broadcast("a2", 3)
    trial.world.run_for(SETTLE_US)
    override(trial, "b1", "a")
    trial.broadcast("b2")
    trial.broadcast("a1")
    trial.world.run_for(10 * SETTLE_US)
    assert roles(trial) == {"a1": Role.PRIMARY, "b1": Role.PRIMARY}
    assert positions(trial) == {"a1": 1, "a2": 1, "b1": 2, "b2": 2}
    trial.world.heal()
    trial.world.run_for(10 * SETTLE_US)
    assert roles(trial) == {"a1": Role.OUT, "b1": Role.PRIMARY}
    assert trial.run.node("a2").application.refused == 3  # each is told that nobody knows
    trial.world.tell("a1", LABEL, RejoinWanted(0))
    trial.world.run_for(10 * SETTLE_US)
    assert roles(trial) == {"a1": Role.BACKUP, "b1": Role.PRIMARY} and set(positions(trial).values()) == {2}
    judge(trial)


def test_two_overrides_against_each_other_split_the_order_until_they_meet() -> None:
    """Both go on, as operators wanted; then the one that took over stays, and what the other had since is given up."""
    trial = two_centres(confirmations=2)
    cut(trial)
    override(trial, "b1", "a")
    override(trial, "a1", "b")
    trial.broadcast("a1", 3)
    trial.broadcast("b1")
    trial.world.run_for(10 * SETTLE_US)
    assert positions(trial) == {"a1": 4, "a2": 4, "b1": 2, "b2": 2}
    trial.world.heal()
    trial.world.run_for(10 * SETTLE_US)
    assert roles(trial) == {"a1": Role.OUT, "b1": Role.PRIMARY}
    trial.world.tell("a1", LABEL, RejoinWanted(0))
    trial.world.run_for(10 * SETTLE_US)
    assert roles(trial) == {"a1": Role.BACKUP, "b1": Role.PRIMARY} and set(positions(trial).values()) == {2}
    judge(trial)

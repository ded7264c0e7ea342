"""A witness of two data centres: it records one side, durably, and that side goes on without an override."""

from __future__ import annotations

import pytest

from isotone.core.contract import Persist, Put, Started, Storage
from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.hab.centre import Role, founded
from isotone.hab.commands import apply
from isotone.hab.events import DeclareWanted, PacketReceived, RejoinWanted, SendPacket
from isotone.hab.messages import WIDE, Alive, Declaration, Declare, WitnessAnswer, WitnessQuestion
from isotone.hab.settings import HabSettings
from isotone.hab.witness import Witness, answered, questions
from isotone.sim.figures.hab_table import SETTLE_US, Trial
from isotone.sim.hab.operator import LABEL
from tests.hab.test_overrides import cut, judge, positions, roles

SETTINGS = HabSettings(centres={"a": ("a1",), "b": ("b1", "b2")}, witness="w")


def asked(witness: Witness, source: str, centre: str, admitted_at: int = 0, life: int = 0) -> list[object]:
    """What it does when this process asks."""
    found: list[object] = []
    packet = PacketReceived(0, source, WIDE.encode(WitnessQuestion(centre, admitted_at, life)))
    for action in witness.handle(packet):
        found.append(WIDE.decode(action.data) if isinstance(action, SendPacket) else type(action))
    return found


def test_it_records_durably_before_it_answers_and_answers_again() -> None:
    witness = Witness(SETTINGS)
    assert asked(witness, "b1", "a") == [Persist, WitnessAnswer("a", 0)]
    assert asked(witness, "b2", "a") == [WitnessAnswer("a", 0)]


def test_who_is_recorded_as_lost_has_no_say_in_that_life() -> None:
    witness = Witness(SETTINGS)
    asked(witness, "b1", "a")
    assert asked(witness, "a1", "b") == []
    assert asked(witness, "a1", "b", life=7) == [Persist, WitnessAnswer("b", 0)]  # it came back
    assert asked(witness, "b1", "a", 7) == []
    assert asked(witness, "b1", "a", 0, life=9) == [WitnessAnswer("a", 0)]
    assert asked(witness, "b1", "a", 7, life=9) == [Persist, WitnessAnswer("a", 7)]
    assert asked(witness, "b1", "a", 0, life=9) == []  # of an earlier life
    assert asked(witness, "a1", "b", 9, life=0) == []


def test_it_remembers_after_a_start() -> None:
    witness = Witness(SETTINGS)
    [persist, _] = witness.handle(PacketReceived(0, "b1", WIDE.encode(WitnessQuestion("a", 0, 0))))
    assert isinstance(persist, Persist)
    [put] = persist.writes
    assert isinstance(put, Put)
    again = Witness(SETTINGS)
    again.handle(Started(0, Storage(cells={put.cell: put.value})))
    assert asked(again, "a1", "b") == []


@pytest.mark.parametrize("message", [WitnessQuestion("b", 0, 0), WitnessQuestion("x", 0, 0), Alive("b", 1, 1, 0, ())])
def test_what_it_is_not_asked(message: WitnessQuestion | Alive) -> None:
    with pytest.raises(RemoteProtocolError):
        Witness(SETTINGS).handle(PacketReceived(0, "b1", WIDE.encode(message)))
    with pytest.raises(LocalProtocolError):
        Witness(SETTINGS).handle(PacketReceived(0, "w", WIDE.encode(WitnessQuestion("a", 0, 0))))


def test_a_witness_is_no_process_of_a_centre() -> None:
    with pytest.raises(LocalProtocolError):
        HabSettings(centres=SETTINGS.centres, witness="a1").check()


def test_only_of_two_centres_it_is_asked() -> None:
    lost = Declare(Declaration("a", 0, "b", ("b",)))
    two, three = founded("b", SETTINGS), HabSettings(centres={**SETTINGS.centres, "c": ("c1",)}, witness="w")
    assert questions(two, SETTINGS) == []
    apply(two, SETTINGS, lost)
    assert questions(two, SETTINGS) == [WitnessQuestion("a", 0, 0)] and not two.is_centre_lost("a")
    [declare] = answered(two, WitnessAnswer("a", 0))
    assert answered(two, WitnessAnswer("a", 3)) == [] == answered(two, WitnessAnswer("b", 0))
    apply(two, SETTINGS, declare)
    assert two.is_centre_lost("a") and two.has_quorum() and two.role is Role.TRANSITION
    other = founded("b", three)
    apply(other, three, lost)
    assert questions(other, three) == []


# --- in the simulator ------------------------------------------------------------------------------------------------


def with_witness() -> Trial:
    """Two centres and a witness; one record is delivered everywhere."""
    trial = Trial((2, 2), settings={"witness": "w"})
    trial.broadcast("a1")
    trial.world.run_for(SETTLE_US)
    return trial


def test_a_lost_primary_needs_no_override() -> None:
    trial = with_witness()
    trial.world.crash("a1")
    trial.world.crash("a2")
    trial.world.tell("b1", LABEL, DeclareWanted(0, "a"))
    trial.broadcast("b2")
    trial.world.run_for(10 * SETTLE_US)
    assert trial.run.hab("b1").centre.role is Role.PRIMARY and positions(trial) == {"b1": 2, "b2": 2}
    judge(trial)


def test_without_the_witness_the_declaration_waits_and_it_survives_a_crash() -> None:
    trial = with_witness()
    for name in ("a1", "a2", "w"):
        trial.world.crash(name)
    trial.world.tell("b1", LABEL, DeclareWanted(0, "a"))
    trial.world.run_for(10 * SETTLE_US)
    assert trial.run.hab("b1").centre.role is Role.BACKUP
    trial.world.restart("w")
    trial.world.run_for(10 * SETTLE_US)
    assert trial.run.hab("b1").centre.role is Role.PRIMARY
    judge(trial)


def test_of_two_centres_that_declare_each_other_one_goes_on() -> None:
    trial = with_witness()
    cut(trial)
    trial.world.tell("a1", LABEL, DeclareWanted(0, "b"))
    trial.world.tell("b1", LABEL, DeclareWanted(0, "a"))
    trial.broadcast("a1")
    trial.broadcast("b1")
    trial.world.run_for(10 * SETTLE_US)
    alone = [name for name in ("a1", "b1") if positions(trial)[name] == 2]
    assert len(alone) == 1  # the other one lives, tries, and delivers nothing
    trial.world.crash("w")
    trial.world.restart("w")
    trial.world.heal()
    trial.world.run_for(10 * SETTLE_US)
    [other] = {"a1", "b1"} - {*alone}
    assert roles(trial) == {alone[0]: Role.PRIMARY, other: Role.OUT}
    trial.world.tell(other, LABEL, RejoinWanted(0))
    trial.world.run_for(10 * SETTLE_US)
    assert roles(trial) == {alone[0]: Role.PRIMARY, other: Role.BACKUP} and set(positions(trial).values()) == {2}
    judge(trial)

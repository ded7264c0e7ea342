"""[HAB Appendix A]: one test for each case of the proofs, as the run that the case speaks of."""

from __future__ import annotations

import pytest

from isotone.hab.centre import Role
from isotone.hab.events import DeclareWanted
from isotone.hab.messages import OkState, OkStored, Send, SendState, Store
from isotone.hab.settings import HabSettings
from tests.paper.hab_group import DataCentres

SETTINGS = HabSettings(centres={"a": ("a1", "a2", "a3"), "b": ("b1", "b2", "b3"), "c": ("c1", "c2", "c3")})
M = b"m"


@pytest.fixture
def centres() -> DataCentres:
    found = DataCentres(SETTINGS)
    found.run()
    return found


def everybody_has(centres: DataCentres, *records: bytes) -> bool:
    return all(centres.delivered[name] == list(records) for name in centres.habs)


def only_b_stores(source: str, to: str, message: object) -> bool:
    """The primary is lost before c hears of the message, and before it hears b's answer."""
    return (isinstance(message, Store) and to[0] == "c") or isinstance(message, OkStored)


# --- Proposition 1, Agreement ----------------------------------------------------------------------------------------


def test_1_a_in_the_primary_group_all_deliver_what_one_delivers(centres: DataCentres) -> None:
    centres.broadcast("a2", M)
    centres.run()
    assert {tuple(centres.delivered[name]) for name in ("a1", "a2", "a3")} == {(M,)}


def test_1_b_what_the_primary_delivers_every_backup_has_delivered(centres: DataCentres) -> None:
    centres.broadcast("a1", M)
    centres.run(lambda source, to, message: isinstance(message, Store) and to[0] == "c")
    assert centres.delivered["a1"] == [] and centres.delivered["b1"] == [M]
    centres.silence("a", of="c")
    centres.run()
    assert everybody_has(centres, M)


def test_1_c1_a_backup_has_what_another_delivered_when_the_primary_is_lost(centres: DataCentres) -> None:
    centres.broadcast("a1", M)
    centres.run(only_b_stores)
    centres.strike("a")
    assert centres.delivered["b1"] == [M] and centres.delivered["c1"] == []
    centres.declare("a")
    assert everybody_has(centres, M)


def test_1_c1_in_one_backup_group_all_deliver_what_one_delivers(centres: DataCentres) -> None:
    centres.broadcast("a1", M)
    centres.run(only_b_stores)
    assert {tuple(centres.delivered[name]) for name in ("b1", "b2", "b3")} == {(M,)}


def test_1_c1_a_second_disaster_in_the_transition_loses_nothing_either() -> None:
    """The transition group is lost before it obtained the state; the next one takes over, and asks again."""
    names = {centre: (f"{centre}1",) for centre in "abcde"}
    centres = DataCentres(HabSettings(centres=names))
    centres.run()
    centres.broadcast("a1", M)
    centres.run(lambda source, to, message: isinstance(message, Store) and to != "e1")
    centres.strike("a")
    centres.declare("a", lambda source, to, message: isinstance(message, OkState))
    assert centres.habs["b1"].centre.role is Role.TRANSITION
    assert [hab.centre.role for name, hab in centres.habs.items() if name != "b1"] == [Role.BACKUP] * 3
    centres.strike("b")
    centres.declare("b")
    assert centres.habs["c1"].centre.role is Role.PRIMARY
    assert everybody_has(centres, M)


def test_1_c1_a_coordinator_that_crashes_in_the_transition_is_replaced_and_the_state_is_obtained(
    centres: DataCentres,
) -> None:
    centres.broadcast("a1", M)
    centres.run(lambda source, to, message: isinstance(message, Store) and to[0] == "b")
    centres.strike("a")
    for name in ("c1", "b1"):
        centres.tell(name, DeclareWanted(0, "a"))
    centres.run(lambda source, to, message: isinstance(message, SendState))
    assert centres.habs["b1"].centre.role is Role.TRANSITION
    centres.crash_coordinator("b")
    centres.run()
    assert centres.habs["b2"].centre.role is Role.PRIMARY
    assert everybody_has(centres, M)


def test_1_c2_all_processes_of_the_transition_group_take_what_a_backup_delivered(centres: DataCentres) -> None:
    centres.broadcast("a1", M)
    centres.run(lambda source, to, message: isinstance(message, Store) and to[0] == "b")
    centres.strike("a")
    assert centres.delivered["c1"] == [M] and centres.delivered["b1"] == []
    centres.declare("a", lambda source, to, message: isinstance(message, Store))  # the next primary is not heard
    for name in ("b1", "b2", "b3"):
        centre = centres.habs[name].centre
        assert centre.role is Role.PRIMARY and [entry.record for entry in centre.log.entries[:1]] == [M]


def test_1_c3_all_processes_of_the_next_primary_deliver_what_a_backup_delivered(centres: DataCentres) -> None:
    centres.broadcast("a1", M)
    centres.run(lambda source, to, message: isinstance(message, Store) and to[0] == "b")
    centres.strike("a")
    centres.declare("a")
    assert {centres.habs[name].centre.role for name in ("b1", "b2", "b3")} == {Role.PRIMARY}
    assert everybody_has(centres, M)


def test_1_d_what_the_transition_group_delivers_every_backup_has_delivered() -> None:
    """Of a, b, c and d: c alone has the message, b obtains it, and delivers it when d has it too."""
    names = {centre: (f"{centre}1", f"{centre}2", f"{centre}3") for centre in "abcd"}
    centres = DataCentres(HabSettings(centres=names))
    centres.run()
    centres.broadcast("a1", M)
    centres.run(lambda source, to, message: isinstance(message, Store) and to[0] in "bd")
    centres.strike("a")
    centres.declare("a", lambda source, to, message: isinstance(message, Store) and to[0] == "d")
    assert centres.habs["b1"].centre.role is Role.PRIMARY
    assert {tuple(centres.delivered[name]) for name in (*names["b"], *names["d"])} == {()}
    centres.silence("b", of="d")
    centres.run(lambda source, to, message: isinstance(message, OkStored) and source[0] == "d")
    assert {tuple(centres.delivered[name]) for name in names["d"]} == {(M,)}
    assert {tuple(centres.delivered[name]) for name in names["b"]} == {()}
    centres.silence("b", of="d")
    centres.run()
    assert everybody_has(centres, M)


# --- Proposition 2, Total Order --------------------------------------------------------------------------------------


def test_2_a_message_that_is_submitted_again_keeps_its_index(centres: DataCentres) -> None:
    """The proof's contradiction: no message gets a second index from the next primary."""
    centres.broadcast("c2", M)
    centres.run(only_b_stores)
    centres.broadcast("b2", b"n")
    centres.strike("a")
    centres.between.clear()
    centres.declare("a")
    assert everybody_has(centres, M, b"n")
    assert len({hab.centre.log.end for hab in centres.habs.values()}) == 1


# --- Proposition 3, Validity -----------------------------------------------------------------------------------------


def test_3_a_what_is_broadcast_in_the_primary_group_is_delivered_there(centres: DataCentres) -> None:
    centres.broadcast("a3", M)
    centres.run()
    assert centres.delivered["a3"] == [M]


def test_3_b1_what_is_broadcast_in_a_backup_is_delivered_there(centres: DataCentres) -> None:
    centres.broadcast("b3", M)
    centres.run()
    assert everybody_has(centres, M)


def test_3_b2_what_the_lost_primary_never_ordered_the_next_one_does(centres: DataCentres) -> None:
    centres.broadcast("c3", M)
    centres.run(lambda source, to, message: isinstance(message, Send))
    centres.strike("a")
    centres.declare("a")
    assert everybody_has(centres, M)


def test_3_b2_what_another_group_has_of_it_is_delivered_and_not_ordered_again(centres: DataCentres) -> None:
    """The message is in the state that the next primary tells."""
    centres.broadcast("c3", M)
    centres.run(only_b_stores)
    centres.strike("a")
    assert centres.delivered["c3"] == []
    centres.declare("a")
    assert everybody_has(centres, M) and not centres.habs["c3"].submissions.pending


def test_3_b2_the_last_group_becomes_the_primary_and_orders_its_own(centres: DataCentres) -> None:
    """Where no majority is left, people waive it."""
    centres.broadcast("c3", M)
    centres.run(lambda source, to, message: isinstance(message, Send))
    for lost in "ab":
        centres.strike(lost)
        centres.tell("c1", DeclareWanted(0, lost, override=True))
    centres.run()
    assert centres.habs["c1"].centre.role is Role.PRIMARY
    assert everybody_has(centres, M)


# --- Proposition 4, Uniform Integrity --------------------------------------------------------------------------------


def test_4_a_a_request_that_comes_twice_is_delivered_once(centres: DataCentres) -> None:
    centres.broadcast("b1", M)
    centres.between.extend(list(centres.between))
    centres.run()
    assert everybody_has(centres, M)


def test_4_b_a_store_of_two_coordinators_is_delivered_once(centres: DataCentres) -> None:
    centres.broadcast("a1", M)
    centres.crash_coordinator("a")
    centres.run()
    assert everybody_has(centres, M)


def test_4_what_several_backups_tell_a_transition_group_is_delivered_once() -> None:
    """The primary is lost: b hears of the message from c and from d, and from its sender once more."""
    centres = DataCentres(HabSettings(centres={centre: (f"{centre}1", f"{centre}2") for centre in "abcd"}))
    centres.run()
    centres.broadcast("d2", M)
    centres.run(
        lambda source, to, message: isinstance(message, OkStored) or (isinstance(message, Store) and to[0] == "b")
    )
    assert [centres.delivered[name] for name in ("b1", "c1", "d1")] == [[], [M], [M]]
    centres.strike("a")
    told: list[object] = []

    def listens(source: str, to: str, message: object) -> bool:
        told.extend([message] if isinstance(message, OkState) and message.entries else [])
        return False

    centres.declare("a", listens)
    assert len(told) == 2 and centres.habs["b1"].centre.role is Role.PRIMARY
    assert everybody_has(centres, M)


def test_4_what_a_backup_has_and_the_next_primary_tells_again_is_delivered_once(centres: DataCentres) -> None:
    centres.broadcast("c2", M)
    centres.run(lambda source, to, message: isinstance(message, OkStored))  # b and c have it, and a does not know
    centres.strike("a")
    centres.declare("a", lambda source, to, message: isinstance(message, OkStored))
    for _ in range(2):  # its coordinator hears no answer, and tells it once more
        centres.silence("b", of="c")
        centres.run(lambda source, to, message: isinstance(message, OkStored))
    centres.silence("b", of="c")
    centres.run()
    centres.broadcast("c2", b"n")
    centres.run()
    assert everybody_has(centres, M, b"n")


def test_4_nothing_is_delivered_after_a_take_over_that_was_not_broadcast(centres: DataCentres) -> None:
    """What was lost with the primary before any backup heard of it is neither delivered nor replaced by another."""
    centres.broadcast("a1", b"lost with it")
    centres.run(lambda source, to, message: isinstance(message, Store))
    centres.strike("a")
    centres.declare("a")
    centres.broadcast("c1", M)
    centres.run()
    assert everybody_has(centres, M)

"""[HAB] by its figures: one test for each when-clause of Figures 4 to 6, commands in, effects compared."""

from __future__ import annotations

import msgspec
import pytest

from isotone.core.contract import Started, TimerFired
from isotone.hab.centre import Answer, Centre, Deliver, Role, founded, outside
from isotone.hab.commands import apply
from isotone.hab.configuration import first_epoch
from isotone.hab.disasters import Watch
from isotone.hab.events import (
    BroadcastWanted,
    DeclareWanted,
    HaDeliver,
    LocalDelivered,
    LocalSuspected,
    PacketReceived,
    SendPacket,
)
from isotone.hab.messages import (
    COMMANDS,
    WIDE,
    Alive,
    ChangeEpoch,
    Confirm,
    Declaration,
    Declare,
    Found,
    Handover,
    LeaderUnaware,
    Leased,
    OkSent,
    OkState,
    OkStored,
    Rejoin,
    Send,
    SendState,
    Store,
    UpdateState,
)
from isotone.hab.process import ALIVE, Hab, Local
from isotone.hab.settings import HabSettings, Mode
from tests.paper.hab_group import commands

SETTINGS = HabSettings(centres={"a": ("a1", "a2"), "b": ("b1", "b2"), "c": ("c1",)})
LOST = Declare(Declaration("a", 0, "b", ("b", "c")))


def centre(name: str) -> Centre:
    return founded(name, SETTINGS)


def send(counter: int = 1, *, origin: str = "b1", answer_to: str = "") -> Send:
    return Send(origin, 1, counter, (b"m%d" % counter,), answer_to)


def stored(primary: Centre, first: int = 1, confirmed: int = 0) -> Store:
    """What the coordinator of the primary sends."""
    entries = primary.log.behind(first - 1)
    before = primary.log.epoch_at(first - 1)
    return Store(primary.epoch, primary.name, primary.start, first, before, entries, confirmed, "a1")


def delivered(effects: list[object]) -> list[bytes]:
    return [entry.record for each in effects if isinstance(each, Deliver) for entry in each.entries]


def sends(actions: list[object]) -> list[Send]:
    found = [WIDE.decode(each.data) for each in actions if isinstance(each, SendPacket)]
    return [each for each in found if isinstance(each, Send)]


def wide(actions: list[object]) -> list[object]:
    return [WIDE.decode(each.data) for each in actions if isinstance(each, SendPacket)]


def process_of(name: str, *told: object) -> Hab:
    """After these commands of its local order."""
    hab = Hab(SETTINGS, name, 1)
    for command in told:
        deliver(hab, command)
    return hab


def deliver(hab: Hab, command: object) -> list[object]:
    """The next command of the local order; another process of the centre broadcast it."""
    local = Local("nobody", 1, COMMANDS.encode(command))  # type: ignore[arg-type]
    return list(hab.handle(LocalDelivered(1, (msgspec.msgpack.encode(local),))))


def complains_once(hab: Hab, coordinator: str) -> None:
    assert ChangeEpoch(1) in commands(hab, list(hab.handle(LocalSuspected(1, (coordinator,)))))
    assert commands(hab, list(hab.handle(LocalSuspected(2, (coordinator,))))) == []
    deliver(hab, ChangeEpoch(1))
    assert hab.centre.coordinator(SETTINGS) != coordinator
    assert commands(hab, list(hab.handle(LocalSuspected(3, (coordinator,))))) == []


# --- Figure 4: the primary -------------------------------------------------------------------------------------------


def test_figure_4_a_a_request_is_broadcast_inside() -> None:
    hab = Hab(SETTINGS, "a2", 1)
    request = send(answer_to="b1")
    assert commands(hab, hab.handle(PacketReceived(1, "b1", WIDE.encode(request)))) == [request]


def test_figure_4_b_a_new_message_gets_the_next_index_and_its_sender_an_answer() -> None:
    primary = centre("a")
    effects = apply(primary, SETTINGS, send(answer_to="b1"))
    assert effects == [Answer("b1", OkSent(primary.epoch, 1, 1))]
    assert [entry.index for entry in primary.log.entries] == [1]


def test_figure_4_b_a_known_message_gets_no_second_index() -> None:
    """Deviation Dh1: ``msg-set`` means ``local``."""
    primary = centre("a")
    for _ in range(3):
        apply(primary, SETTINGS, send())
    assert primary.log.end == 1


def test_figure_3_an_answer_that_says_nothing_new_makes_no_room_for_more_broadcasts() -> None:
    """Else the counters run away from the one that was lost, and it is never reached again."""
    settings = msgspec.structs.replace(SETTINGS, batch_max=1, stores_under_way_max=2)
    hab = Hab(settings, "b1", 1)
    sent = [hab.handle(BroadcastWanted(1, request, b"m")) for request in range(1, 6)]
    assert [len(sends(actions)) for actions in sent] == [1, 1, 0, 0, 0]
    nothing = WIDE.encode(OkSent(hab.centre.epoch, hab.incarnation, 0))
    assert sends(hab.handle(PacketReceived(2, "a1", nothing))) == []
    again = sends(hab.handle(TimerFired(1 + settings.answer_us, "submit")))
    assert [each.first for each in again] == [1, 2]
    first = WIDE.encode(OkSent(hab.centre.epoch, hab.incarnation, 1))
    assert [each.first for each in sends(hab.handle(PacketReceived(settings.answer_us + 2, "a1", first)))] == [3]


def test_figure_4_c_what_is_confirmed_is_delivered() -> None:
    primary = centre("a")
    apply(primary, SETTINGS, send())
    assert delivered(apply(primary, SETTINGS, Confirm(primary.epoch, 1))) == [b"m1"]
    assert delivered(apply(primary, SETTINGS, Confirm(primary.epoch, 1))) == []


def test_figure_4_d_a_suspected_coordinator_is_complained_of_once() -> None:
    complains_once(process_of("a2"), "a1")


def test_figure_4_e_the_next_coordinator_stores_in_all_backups_what_is_not_confirmed() -> None:
    hab = process_of("a2", send(1, origin="a2"), send(2, origin="a2"))
    assert hab.centre.role is Role.PRIMARY and not hab.is_coordinator
    actions = deliver(hab, ChangeEpoch(1))
    assert hab.is_coordinator
    stores = [each for each in wide(actions) if isinstance(each, Store)]
    assert [[entry.record for entry in each.entries] for each in stores] == [[b"m1", b"m2"]] * 2
    assert {each.to[0] for each in actions if isinstance(each, SendPacket)} == {"b", "c"}
    assert wide(deliver(hab, ChangeEpoch(1))) == []  # of an epoch that is over: nothing


def test_figure_4_initially_the_next_primary_broadcasts_its_own_again() -> None:
    hab = process_of("b1")
    assert sends(hab.handle(BroadcastWanted(1, 1, b"own"))) != []
    deliver(hab, LOST)
    again = commands(hab, deliver(hab, UpdateState(hab.centre.epoch, 1, 0, ())))
    assert hab.centre.role is Role.PRIMARY
    assert [each.records for each in again if isinstance(each, Send)] == [(b"own",)]


# --- Figure 5: a backup ----------------------------------------------------------------------------------------------


def test_figure_5_a_a_request_is_broadcast_inside() -> None:
    primary = centre("a")
    apply(primary, SETTINGS, send())
    hab = Hab(SETTINGS, "b2", 1)
    request = stored(primary)
    assert commands(hab, hab.handle(PacketReceived(1, "a1", WIDE.encode(request)))) == [request]


def test_figure_5_b_what_is_stored_is_delivered_and_answered() -> None:
    primary, backup = centre("a"), centre("b")
    apply(primary, SETTINGS, send())
    effects = apply(backup, SETTINGS, stored(primary))
    assert delivered(effects) == [b"m1"]
    assert effects[-1] == Answer("a1", OkStored(primary.epoch, 2, 1))
    assert delivered(apply(backup, SETTINGS, stored(primary))) == []


def test_figure_5_b_a_store_of_an_earlier_epoch_is_refused() -> None:
    primary, backup = centre("a"), centre("c")
    apply(primary, SETTINGS, send())
    apply(backup, SETTINGS, SendState(primary.epoch + (1 << 40), "b", 0, "b1"))
    assert apply(backup, SETTINGS, stored(primary)) == []
    assert backup.log.end == 0


def test_figure_5_c_a_state_request_is_a_promise_and_a_range() -> None:
    primary, backup = centre("a"), centre("c")
    apply(primary, SETTINGS, send())
    apply(backup, SETTINGS, stored(primary))
    epoch = primary.epoch + (1 << 40)
    answer = apply(backup, SETTINGS, SendState(epoch, "b", 0, "b1"))[-1]
    assert answer == Answer("b1", OkState(epoch, 3, primary.epoch, 1, 0, primary.log.behind(0)))


def update_of_b() -> tuple[Hab, Store]:
    """A process of c with a broadcast that the lost primary never ordered, and what the next primary b tells."""
    primary, next_one = centre("a"), centre("b")
    apply(primary, SETTINGS, send(1))
    apply(next_one, SETTINGS, stored(primary))
    apply(next_one, SETTINGS, LOST)
    apply(next_one, SETTINGS, UpdateState(next_one.epoch, 2, next_one.log.epoch_at(1), ()))
    hab = process_of("c1")
    assert [each.records for each in sends(hab.handle(BroadcastWanted(1, 1, b"own")))] == [(b"own",)]
    return hab, msgspec.structs.replace(stored(next_one), answer_to="b1")


def test_figure_5_d_the_update_is_delivered_answered_and_what_is_not_in_it_submitted_again() -> None:
    hab, update = update_of_b()
    actions = deliver(hab, update)
    assert [entry.record for each in actions if isinstance(each, HaDeliver) for entry in each.entries] == [b"m1"]
    assert OkStored(update.epoch, 3, 1) in wide(actions)
    assert [each.records for each in sends(actions)] == [(b"own",)]
    assert {each.to[0] for each in actions if isinstance(each, SendPacket)} == {"b"}  # nothing goes to the lost one


def test_figure_5_d_only_the_coordinator_answers() -> None:
    """Deviation Dh6."""
    primary = centre("a")
    apply(primary, SETTINGS, send())
    answers = {process: wide(deliver(process_of(process), stored(primary))) for process in ("b1", "b2")}
    assert len(answers["b1"]) == 1 and answers["b2"] == []


def test_figure_5_e_a_disaster_that_is_detected_is_broadcast_inside() -> None:
    """Deviation Dh10: the declaration is ``Change-group``. The detector is people, or another centre that says so."""
    hab = process_of("b2")
    wanted = Declaration("a", 0, "b", ("b",), epoch=hab.centre.epoch)
    assert commands(hab, hab.handle(DeclareWanted(1, "a"))) == [Declare(wanted)]
    assert commands(hab, hab.handle(PacketReceived(1, "c1", WIDE.encode(LOST)))) == [LOST]
    heard = Alive("c", 3, hab.centre.epoch, 0, (LOST.declaration,))
    assert commands(hab, hab.handle(PacketReceived(1, "c1", WIDE.encode(heard)))) == [LOST]


def test_figure_5_e_silence_alone_is_no_disaster_unless_somebody_accepts_the_risk() -> None:
    unsafe = msgspec.structs.replace(SETTINGS, declare_unsafely_after_us=1_000_000)
    for settings, expected in ((SETTINGS, []), (unsafe, ["a", "c"])):
        hab = Hab(settings, "b1", 1)
        hab.handle(Started(0))
        told = commands(hab, hab.handle(TimerFired(2_000_000, ALIVE)))
        assert [each.declaration.centre for each in told if isinstance(each, Declare)] == expected


def test_figure_5_f_the_next_group_is_in_transition_and_no_other() -> None:
    next_one, other = centre("b"), centre("c")
    for state in (next_one, other):
        apply(state, SETTINGS, LOST)
        apply(state, SETTINGS, LOST)  # of a group that is not the primary any more: nothing
    assert (next_one.role, other.role) == (Role.TRANSITION, Role.BACKUP)


def test_figure_5_g_a_suspected_coordinator_is_complained_of_once() -> None:
    complains_once(process_of("b2"), "b1")


def test_figure_5_h_the_next_coordinator_answers_and_the_one_before_it_does_not() -> None:
    primary = centre("a")
    apply(primary, SETTINGS, send())
    for process, answers in (("b1", 0), ("b2", 1)):
        hab = process_of(process, ChangeEpoch(1), ChangeEpoch(1))
        assert hab.centre.coordinator(SETTINGS) == "b2"
        assert len(wide(deliver(hab, stored(primary)))) == answers


# --- Figure 6: transition --------------------------------------------------------------------------------------------


def test_figure_6_a_the_transition_ends_with_the_best_log_and_the_index_goes_on() -> None:
    """Deviation Dh2; and the duplicate of a broadcast that the lost primary ordered is seen."""
    primary, state = centre("a"), centre("b")
    apply(primary, SETTINGS, send(1))
    apply(primary, SETTINGS, send(2))
    apply(state, SETTINGS, LOST)
    apply(state, SETTINGS, UpdateState(state.epoch, 1, 0, primary.log.behind(0)))
    assert state.role is Role.PRIMARY and state.start == 2
    apply(state, SETTINGS, send(2))
    apply(state, SETTINGS, send(3))
    assert [entry.record for entry in state.log.entries] == [b"m1", b"m2", b"m3"]


def test_figure_6_a_an_update_of_another_epoch_counts_for_nothing() -> None:
    state = centre("b")
    apply(state, SETTINGS, LOST)
    assert apply(state, SETTINGS, UpdateState(state.epoch + 1, 1, 0, ())) == []
    assert state.role is Role.TRANSITION


def test_figure_6_initially_the_coordinator_obtains_the_state() -> None:
    asked = {process: wide(deliver(process_of(process), LOST)) for process in ("b1", "b2")}
    requests = [each for each in asked["b1"] if isinstance(each, SendState)]
    assert [(each.leader, each.answer_to) for each in requests] == [("b", "b1")]  # of c; a is lost
    assert asked["b2"] == []


def test_figure_6_b_a_suspected_coordinator_is_complained_of_once() -> None:
    hab = process_of("b2", LOST)
    assert hab.centre.role is Role.TRANSITION
    complains_once(hab, "b1")


def test_figure_6_c_the_next_coordinator_obtains_the_state() -> None:
    hab = process_of("b2", LOST)
    actions = deliver(hab, ChangeEpoch(1))
    assert hab.centre.role is Role.TRANSITION and hab.is_coordinator
    requests = [each for each in wide(actions) if isinstance(each, SendState)]
    assert [(each.epoch, each.answer_to) for each in requests] == [(hab.centre.epoch, "b2")]
    assert wide(deliver(hab, ChangeEpoch(1))) == []


# --- what people may do wrong ----------------------------------------------------------------------------------------


def test_a_declaration_of_one_centre_alone_has_no_effect() -> None:
    state = centre("b")
    apply(state, SETTINGS, Declare(Declaration("a", 0, "b", ("b",))))
    assert state.role is Role.BACKUP and not state.is_centre_lost("a")


def test_of_opposite_declarations_the_first_counts() -> None:
    state = centre("c")
    apply(state, SETTINGS, Declare(Declaration("a", 0, "b", ("b",))))
    apply(state, SETTINGS, Declare(Declaration("b", 0, "a", ("a",))))
    assert state.is_centre_lost("a") and not state.is_centre_lost("b")


def test_a_primary_that_is_declared_lost_delivers_nothing_more() -> None:
    primary = centre("a")
    apply(primary, SETTINGS, send())
    apply(primary, SETTINGS, LOST)
    assert primary.role is Role.OUT
    assert apply(primary, SETTINGS, Confirm(primary.epoch, 1)) == []


def handed_over_but_not_to(target: str) -> tuple[Centre, Centre]:
    """b has stored the hand-over to c, c has not, and a is lost."""
    primary, b, c = centre("a"), centre("b"), centre("c")
    apply(primary, SETTINGS, Confirm(primary.epoch, 0))
    apply(primary, SETTINGS, Handover(target))
    apply(b, SETTINGS, stored(primary))
    for state in (b, c):
        apply(state, SETTINGS, LOST)
    return b, c


def test_a_hand_over_that_its_target_never_stored_ends_in_a_take_over() -> None:
    """Deviation Dh12: each of b and c thinks that it is the other's turn, until b hears what c does not know."""
    b, c = handed_over_but_not_to("c")
    assert (b.role, b.leader, c.role, c.successor()) == (Role.BACKUP, "c", Role.BACKUP, 2)
    hab = Hab(SETTINGS, "b1", 1)
    hab.centre = b
    unaware = WIDE.encode(Alive("c", 3, c.epoch, 0, ()))
    assert LeaderUnaware(b.epoch) in commands(hab, hab.handle(PacketReceived(1, "c1", unaware)))
    apply(b, SETTINGS, LeaderUnaware(b.epoch))
    assert b.role is Role.TRANSITION and b.epoch > c.epoch
    [_, answer] = apply(c, SETTINGS, SendState(b.epoch, "b", 0, "b1"))
    assert isinstance(answer, Answer) and c.leader == "b"


def test_a_centre_that_was_admitted_and_has_no_state_promises_and_has_nothing() -> None:
    """Deviation Dh7: it takes part as soon as its admission is stored, so a transition must not wait for it."""
    state = outside("c")
    answer = apply(state, SETTINGS, SendState(first_epoch(2), "b", 4, "b1", life=5))
    assert answer == [Answer("b1", OkState(first_epoch(2), 0, 0, 5, 0, ()))]
    assert apply(state, SETTINGS, SendState(first_epoch(2) - 1, "a", 4, "a1", life=5)) == []
    assert apply(state, SETTINGS, SendState(first_epoch(3), "b", 4, "b1", life=0)) == []  # who it was before


def test_an_override_of_people_who_did_not_know_of_the_take_over_counts_for_nothing() -> None:
    state = centre("b")
    old = state.epoch
    apply(state, SETTINGS, LOST)
    assert state.role is Role.TRANSITION
    apply(state, SETTINGS, Declare(Declaration("b", 0, "a", ("a",), override=True, epoch=old)))
    assert state.role is Role.TRANSITION
    apply(state, SETTINGS, Declare(Declaration("b", 0, "a", ("a",), override=True, epoch=state.epoch)))
    assert state.role is Role.OUT


def test_a_centre_takes_part_when_others_have_said_so() -> None:
    """One that comes back with its disks takes itself for what it was."""
    watch = Watch(SETTINGS)
    primary, backup = centre("a"), centre("b")
    members = (("a", 0), ("b", 0), ("c", 0))
    assert not watch.says_so(primary) and not watch.says_so(backup)
    watch.told(Alive("c", 3, primary.epoch + 1, 0, ()), 0)  # it follows another one
    assert not watch.says_so(primary)
    watch.told(Alive("a", 1, primary.epoch, 0, (), leads=True, members=members[:1]), 0)
    assert not watch.says_so(backup)
    watch.told(Alive("a", 1, primary.epoch, 0, (), leads=True, members=members), 0)
    assert watch.says_so(backup)
    watch.told(Alive("c", 3, primary.epoch, 0, ()), 0)
    assert watch.says_so(primary)


def fresh(name: str) -> Hab:
    """A process of a centre without a state."""
    hab = Hab(SETTINGS, name, 1, founder=False)
    assert commands(hab, hab.handle(Started(0))) == []
    return hab


def test_who_has_not_begun_yet_has_lost_no_state_and_asks_for_none() -> None:
    """The centres begin one after the other. A wish to come back would be on its way when this one begins too."""
    hab, others = fresh("b1"), Alive("a", 1, first_epoch(1), 1, ())
    told = PacketReceived(0, "a1", WIDE.encode(others))
    assert commands(hab, hab.handle(told)) == []
    deliver(hab, Found())
    assert hab.centre.role is Role.BACKUP and commands(hab, hab.handle(told)) == []


@pytest.mark.parametrize(("epoch", "confirmed"), [(first_epoch(1), 1), (first_epoch(2), 0)])
def test_who_must_have_begun_has_lost_its_state_and_is_no_new_one(epoch: int, confirmed: int) -> None:
    """Nothing is confirmed, and nobody takes over, before all have begun or some are declared lost."""
    hab, others = fresh("b1"), Alive("a", 1, epoch, 1, (), confirmed=confirmed)
    [wish] = commands(hab, hab.handle(PacketReceived(0, "a1", WIDE.encode(others))))
    assert isinstance(wish, Rejoin)
    deliver(hab, wish)
    deliver(hab, Found())
    assert hab.centre.role is Role.OUT and hab.centre.joining


def test_at_once_the_primary_delivers_ahead_while_it_has_a_lease_and_no_further_than_it_may() -> None:
    """The other choice of 3.1. A majority that was heard renews the lease."""
    settings = msgspec.structs.replace(SETTINGS, mode=Mode.AT_ONCE, ahead_max=2, lease_us=1_000_000)
    hab = Hab(settings, "a1", 1)
    hab.handle(Started(0))

    def told(at: int, command: object) -> list[bytes]:
        local = Local("nobody", 1, COMMANDS.encode(command))  # type: ignore[arg-type]
        actions = hab.handle(LocalDelivered(at, (msgspec.msgpack.encode(local),)))
        return [entry.record for each in actions if isinstance(each, HaDeliver) for entry in each.entries]

    assert told(1, send(1)) == [b"m1"]
    late = settings.lease_us + 1
    assert told(late, send(2)) == []  # the lease ran out
    assert Leased(hab.centre.epoch) not in commands(hab, hab.handle(TimerFired(late, ALIVE)))  # nobody was heard
    hab.handle(PacketReceived(late, "b1", WIDE.encode(Alive("b", 2, hab.centre.epoch, 0, ()))))
    assert Leased(hab.centre.epoch) in commands(hab, hab.handle(TimerFired(late, ALIVE)))
    assert told(late, Leased(hab.centre.epoch)) == [b"m2"]
    assert told(late, send(3)) == []  # two are ahead of what is confirmed
    assert told(late, Confirm(hab.centre.epoch, 1)) == [b"m3"]
    far = 2 * late + 1
    assert told(far, send(4)) == [] and told(far, Confirm(hab.centre.epoch, 3)) != []  # a confirmation renews it too

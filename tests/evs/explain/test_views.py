"""Why is there no new view: each state, whom it waits for, what happens next and when."""

from __future__ import annotations

from isotone.core.services import Service
from isotone.evs.explain import Wait
from isotone.evs.groups import State as GroupsState
from isotone.evs.membership import MembershipSettings, State
from tests.evs.explain.house import House


def state_of(house: House, name: str) -> State:
    return house.stack(name).membership.state


def test_a_view_that_works_waits_for_nobody() -> None:
    house = House("a b").start()
    answer = house.view("a")
    assert (answer.state, answer.is_working, answer.waiting_for, answer.forming) == ("OP", True, (), "")
    assert answer.members == ("a", "b")
    assert answer.ended_at is None
    assert answer.next_at is not None and answer.next_at >= house.now("a")
    assert house.view("b").next_step == "its representative a#1 looks for others"


def test_after_a_loss_seg_says_who_was_lost_and_when_it_ends() -> None:
    house = House("ab c").start()
    house.world.crash("c")
    house.until(lambda: state_of(house, "a") is State.SEG, step_ms=0.2)
    answer = house.view("a")
    assert not answer.is_working
    assert answer.culprit in ("b", "c", "ab~c")
    assert answer.since <= house.now("a") and answer.ended_at == answer.since
    assert answer.next_at is not None
    assert answer.since < answer.next_at <= answer.since + MembershipSettings().segment_us
    assert "is over for" in answer.text


def test_rep_names_its_representative() -> None:
    house = House("ab c").start()
    house.world.crash("c")
    house.until(lambda: state_of(house, "b") is State.REP, step_ms=0.2)
    answer = house.view("b")
    assert [each.daemons for each in answer.waiting_for] == [("a",)]
    assert answer.next_at is not None and answer.next_at <= house.now("b") + MembershipSettings().represented_us


def test_a_gathering_names_whom_it_would_take_and_its_end() -> None:
    house = House("a b c").start()
    house.world.partition("ab", "c")
    house.until(lambda: state_of(house, "a") is State.GATHER and house.view("a").is_working is False)
    house.run(150)
    answer = house.view("a")
    assert answer.next_step.endswith("a daemon view of a, b")
    ended_by = answer.next_at
    assert ended_by is not None
    house.until(lambda: house.is_together("ab"))
    assert house.now("a") <= ended_by


def test_a_gathering_names_who_is_cut_off_from_those_it_would_take() -> None:
    house = House("a b c")
    house.world.cut("b", "c")
    for name in house.home:
        house.world.restart(name)
    house.until(lambda: any(each.daemons == ("c",) for each in house.view("a").waiting_for))
    text = next(each.text for each in house.view("a").waiting_for if each.daemons == ("c",))
    assert "c would come, but" in text
    house.until(lambda: house.is_together("ab"))


def test_an_attempt_waits_for_the_state_of_a_paused_member() -> None:
    house = House("a b c")
    for name in house.home:
        house.world.restart(name)
    house.until(lambda: state_of(house, "a") is State.STATETRANS)
    house.world.pause("c")
    house.run(200)
    answer = house.view("a")
    assert answer.state in ("STATETRANS", "EVS")
    assert answer.forming
    assert [(each.wait, each.daemons) for each in answer.waiting_for] == [(Wait.DAEMON, ("c",))], answer.text
    assert "c was heard" in answer.text
    suspected_at = answer.waiting_for[0].until
    assert suspected_at is not None
    house.until(lambda: house.is_together("ab"))
    assert house.now("a") >= suspected_at


def test_a_penalty_is_told_with_its_end() -> None:
    house = House("a b c").start()
    house.world.partition("ab", "c")
    house.until(lambda: bool(house.view("a").penalties))
    (penalty,) = house.view("a").penalties
    assert penalty.daemon == "c"
    assert house.now("a") < penalty.until <= house.now("a") + MembershipSettings().penalty_us
    assert "c is under a penalty for" in house.view("a").text


def test_groups_that_gather_are_told_beside_a_daemon_view_that_works() -> None:
    house = House("a b c").start()
    house.world.partition("ab", "c")
    house.until(lambda: house.is_together("ab"))
    house.world.heal()
    house.until(lambda: house.stack("a").groups.state is GroupsState.GGATHER)
    answer = house.view("a")
    assert answer.is_working
    assert answer.groups_state == "GGATHER" and "c" in answer.groups_missing
    assert "the GROUPS of" in answer.text and "because others are in the new daemon view" in answer.text


def test_questions_change_nothing() -> None:
    """The same run, once with a question to everybody in every step, and once without."""

    def played(*, asked: bool) -> list[object]:
        house = House("ab c d").start()
        house.world.partition("abd", "c")
        message = house.send("a", Service.CAUSAL)
        house.send("d", Service.SAFE, 70_000)
        for step in range(400):
            if step == 250:
                house.world.heal()
            house.run(10)
            for name in house.home if asked else ():
                house.message(name, message)
                house.view(name)
                house.exclusion(name, "c")
                house.status(name)
        assert house.is_together()
        return list(house.rows)

    assert played(asked=True) == played(asked=False)

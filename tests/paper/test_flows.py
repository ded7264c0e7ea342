"""What [Flows] claims, one test for each theorem, equation or finding that is not a swarm's property."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from isotone.flows.compiler import compile_text
from isotone.flows.library import MULTICAST, PROGRAMS
from isotone.flows.prover import Strength, read_program
from isotone.flows.ring import Member, Ring
from isotone.flows.values import Decisions, from_plain, range_set
from isotone.sim.flows.run import draw_terms
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import play_plan
from isotone.sim.system import Setting, draw_plan
from isotone.trace import flows as trace
from isotone.trace.events import Row

SETTING = Setting(system="flows", stack="rings", size=Size.SMALL)


def recorded(program: str, wanted: type) -> list[Row]:
    """A run of this program with entries of this kind."""
    system = system_named("flows")
    for seed in range(1, 200):
        if draw_terms(seed).program == program:
            rows: list[Row] = []
            play_plan(system, draw_plan(system, SETTING, seed), rows.append)
            if any(isinstance(row.entry, wanted) for row in rows):
                return rows
    raise AssertionError(program)


def newest_lives(rows: list[Row]) -> list[str]:
    """The last life of each node: those that stay."""
    lives = {row.entry.member: (row.node, row.incarnation) for row in rows if isinstance(row.entry, trace.FlowStarted)}
    return list({node: life for life, (node, _) in sorted(lives.items(), key=lambda each: each[1])}.values())


def test_figure_3_is_a_program_of_seven_flows() -> None:
    """Reference: [Flows Figure 3]."""
    typed = read_program(MULTICAST).typed
    assert set(typed.definitions) == {"R", "S", "R'", "M", "F'", "F", "D"}


def test_theorem_2_1_proves_the_flows_that_the_paper_calls_monotonic() -> None:
    """Reference: [Flows 2.4, Theorem 2.1], S of multicast, L' of phases, C' of commit."""
    for program, flow in (("multicast", "S"), ("phases", "L'"), ("commit", "C'")):
        assert read_program(PROGRAMS[program]).proofs[flow].strength is Strength.STRONG


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
def test_theorem_2_1_results_of_a_ring_never_fall(course: list[tuple[int, int]]) -> None:
    """Reference: [Flows 2.4, Theorem 2.1]: members grow by chance, and the last one is replaced by chance."""
    rules = compile_text(PROGRAMS["phases"])
    number, results = 1, list[int]()
    rings = [Ring(name, rules) for name in "abc"]
    for ring in rings:
        ring.values = (0,)
    since = dict.fromkeys("abc", 1)
    for place, grown in [(0, 0)] * 3 + course:
        if place == 3:
            number += 1
            fresh = Ring(f"n{number}", rules)
            fresh.values = (grown,)
            since[fresh.me] = number
            rings = [*rings[:2], fresh]
        else:
            (value,) = rings[place].values or (0,)
            assert isinstance(value, int)
            rings[place].values = (value + grown,)
        members = [Member(ring.me, "", since[ring.me]) for ring in rings]
        for ring in rings:
            ring.take_view(number, members)
        rings[0].floor_known = True
        token = rings[0].begin_round(0)
        assert token is not None
        for ring in rings[1:]:
            ring.add_to(token)
        if rings[0].finish_round(token)[1]:
            (result,) = rings[0].results
            assert isinstance(result, int)
            results.append(result)
    assert results and all(one <= other for one, other in pairwise(results))


def test_equation_7_packets_are_delivered_by_all_or_by_none() -> None:
    """Reference: [Flows (7)] for D of multicast; losses are repaired by F."""
    rows = recorded("multicast", trace.Dealt)
    last = {row.entry.member: row.entry.values for row in rows if isinstance(row.entry, trace.Flowed)}
    assert len({last[life] for life in newest_lives(rows)}) == 1


def test_each_transaction_is_decided_once_everywhere() -> None:
    """Reference: [Flows 4.2]: at all nodes and in all lives committed and aborted are disjoint, never change, and are
    what the root decided; whoever stays hears of every transaction."""
    rows = recorded("commit", trace.Decided)
    decided = dict(outcomes(json.loads(row.entry.flows)["D"] for row in rows if isinstance(row.entry, trace.Decided)))
    heard: dict[str, dict[int, str]] = {}
    for row in rows:
        if isinstance(row.entry, trace.Flowed):
            made = outcomes([json.loads(row.entry.values)["D"]])
            known = heard.setdefault(row.entry.member, {})
            assert all(made[number] == word for number, word in known.items())
            known |= made
    assert len(decided) >= 10 and len(heard) >= 3
    assert all(decided[number] == word for known in heard.values() for number, word in known.items())
    assert all(heard[life] == decided for life in newest_lives(rows))


def outcomes(decisions: Iterable[object]) -> dict[int, str]:
    """What became of each transaction, in decisions that follow one another; it never changes."""
    found: dict[int, str] = {}
    for plain in decisions:
        made = from_plain(plain)
        assert isinstance(made, Decisions) and not made.committed.intersection(made.aborted) and not made.forgotten
        for word, numbers in (("commit", made.committed), ("abort", made.aborted)):
            assert all(found.setdefault(number, word) == word for number in numbers.numbers())
    return found


def test_truncated_sets_lose_information_and_never_lie() -> None:
    """Reference: [Flows 4.2]: whatever is combined, up to the limit it is what whole sets give."""
    whole = [range_set(range(start, 40, step)) for start, step in ((1, 2), (1, 3), (2, 5))]
    for one, other in combinations(whole, 2):
        cut = one.truncated(3).intersection(other.truncated(3))
        assert cut.numbers() == [each for each in one.intersection(other).numbers() if each <= cut.limit]
        joined = one.truncated(3).union(other.truncated(3))
        assert joined.numbers() == [each for each in one.union(other).numbers() if each <= joined.limit]

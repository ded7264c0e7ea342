"""Every bound of the daemon's automata is drawn small, or there is a reason why not; drawn ones are put back."""

from __future__ import annotations

from collections import Counter

from isotone.evs.ordering import lines, pruning
from isotone.evs.stack import StackSettings
from isotone.evs.transport import transport
from isotone.sim.limits import COREL_DRAWN, COREL_SETTINGS, DRAWN, SETTINGS, UNDRAWN, Drawn, Limits, bounds
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import RunResult, run_plan
from isotone.sim.system import Setting, draw_plan
from tests.sim.bounds_reached import summed

SETTING = Setting(stack="full")
LIMITED = [seed for seed in range(1, 200) if Limits(seed).values]
NEVER_IN_A_FEW = {
    "evs.ordering.pruning.OWED_MAX",  # needs a join that races with pruned sends
    "evs.membership.node.ENTERED_MAX",  # the length of a list that drops its oldest entry, compared nowhere
    "evs.links.fragments.OPEN_MAX",  # needs large messages of several clients of one daemon at once
    "evs.links.ring.settings.RingSettings.queue_bytes_max",  # needs large messages of several sources at once
}


def test_the_list_of_bounds_is_that_of_the_code() -> None:
    listed = [*DRAWN, *SETTINGS, *COREL_DRAWN, *COREL_SETTINGS, *UNDRAWN]
    assert len(listed) == len(set(listed))
    assert set(listed) == bounds().keys()
    small = {**DRAWN, **SETTINGS, **COREL_DRAWN, **COREL_SETTINGS}
    assert all(max(values) < bounds()[name] for name, values in small.items())


def test_a_share_of_the_seeds_has_small_bounds() -> None:
    assert 0.15 < len(LIMITED) / 200 < 0.35
    assert Limits(LIMITED[0]).values == Limits(LIMITED[0]).values
    drawn = Counter(name for seed in LIMITED for name in Limits(seed).values)
    assert drawn.keys() == {**DRAWN, **SETTINGS}.keys()


def test_constants_are_small_while_a_run_lasts_and_as_usual_afterwards() -> None:
    limits = Limits()
    limits.values = {"evs.ordering.stamper.NAMES_MAX": 1, "evs.ordering.lines.PROMISES_MAX": 3}
    with limits.constants():
        assert (transport.NAMES_MAX, lines.PROMISES_MAX) == (1, 3) and pruning.OWED_MAX == 1_000
    assert (transport.NAMES_MAX, lines.PROMISES_MAX) == (65_536, 64)


def test_settings_within_settings_are_changed() -> None:
    limits = Limits()
    limits.values = {"evs.links.hop.settings.HopSettings.window_max": 4}
    changed = limits.changed(StackSettings())
    assert changed.membership.transport.hop.window_max == 4
    assert changed.membership.waiting_bytes_max == StackSettings().membership.waiting_bytes_max


def test_a_bound_notes_what_comes_up_to_it() -> None:
    limits = Limits()
    limits.values = {"x": 3}
    bound = limits.bound("x")
    assert isinstance(bound, Drawn)
    assert bound > 2 and not limits.reached
    assert not bound > 3 and bound == 3 and bound - 5 < 0
    assert limits.reached["x"] == 3


def test_rules_for_full_run_and_break_nothing() -> None:
    system, reached = system_named("evs"), Counter[str]()
    for seed in LIMITED[:8]:
        result = run_plan(system, draw_plan(system, SETTING, seed))
        assert result.violations == (), f"isotone sim swarm --stack full --seeds {seed}..{seed}"
        reached.update(name.removeprefix("full ") for name in result.choices if name.startswith("full "))
    drawn = {name for seed in LIMITED[:8] for name in Limits(seed).values}
    print("never reached:", sorted(drawn - reached.keys()))
    assert len(reached) >= len(DRAWN) + len(SETTINGS) - len(NEVER_IN_A_FEW) - 6


def test_rules_for_full_run_in_servers_too_and_break_nothing() -> None:
    system, reached = system_named("corel"), Counter[str]()
    for seed in LIMITED[:6]:
        result = run_plan(system, draw_plan(system, Setting(system="corel", stack="full", size=Size.SMALL), seed))
        assert result.violations == (), f"isotone sim swarm --system corel --stack full --size small --seeds {seed}"
        reached.update(name.removeprefix("full ") for name in result.choices if name.startswith("full corel."))
    assert len(reached) >= len(COREL_SETTINGS) + 3


def test_a_soak_is_told_which_bounds_were_never_reached() -> None:
    seed = LIMITED[0]
    reached, other = list(Limits(seed).values)[:2]
    counts = dict.fromkeys(("sends", "messages", "faults", "view_changes", "events", "rows"), 0)
    choices = {f"full {reached}": 3}
    result = RunResult(seed=seed, verdicts={}, violations=(), **counts, cpu_seconds=0.0, bounds={}, choices=choices)
    found = summed([result])["properties"]
    assert isinstance(found, dict)
    assert found[f"BOUND {reached}"] == {"holds": 1} and found[f"BOUND {other}"] == {"not_exercised": 1}

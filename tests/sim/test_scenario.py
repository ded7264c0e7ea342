"""Reading, playing, comparing and rewriting scenario files, and the errors that they give."""

from __future__ import annotations

import pytest

from isotone.sim.cluster import Cluster
from isotone.sim.deeds import milliseconds
from isotone.sim.scenario import Scenario, ScenarioError, difference, parse, play, rewritten
from isotone.sim.trace_lines import line_of, text_of
from isotone.trace.events import Ended, LinkFailed, Row, Stabilised
from tests.sim.automata import Echo

SCRIPT = """\
# A comment.
seed 4
nodes a b
site north b

run 5ms
crash b    # another comment
run 1.5ms
restart b
"""

TRACE = """\
     0.000  a#1      recover a#1
     0.000  b#1      recover b#1
> run 5ms
> crash b    # another comment
     5.000  b#1      crash b#1
> run 1.5ms
> restart b
     6.500  b#2      recover b#2
"""


def on_echo(scenario: Scenario) -> Cluster:
    """A cluster whose service only echoes, so that these tests do not depend on the oracle."""
    return Cluster(*scenario.nodes, seed=scenario.seed, sites=scenario.sites, service=Echo())


def test_a_script_yields_its_trace() -> None:
    scenario = parse(f"{SCRIPT}----\n{TRACE}", "here.txt")
    assert (scenario.seed, scenario.nodes, scenario.sites) == ("4", ("a", "b"), {"b": "north"})
    assert play(scenario, on_echo) == TRACE
    assert difference(scenario, TRACE) == ""


def test_a_difference_is_shown_and_rewriting_removes_it() -> None:
    scenario = parse(f"{SCRIPT}----\n{TRACE.replace('6.500', '6.501')}", "here.txt")
    shown = difference(scenario, play(scenario, on_echo))
    assert "-     6.501  b#2      recover b#2" in shown and "+     6.500  b#2      recover b#2" in shown
    assert "here.txt:11" in shown
    text = rewritten(scenario, TRACE)
    assert text == f"{SCRIPT}----\n{TRACE}"
    assert rewritten(parse(text), TRACE) == text


def test_a_file_without_a_trace_expects_nothing_yet() -> None:
    scenario = parse(SCRIPT)
    assert scenario.expected == ""
    assert rewritten(scenario, TRACE) == f"{SCRIPT}----\n{TRACE}"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("run 5ms\ndance a", "s.txt:2: unknown command 'dance'; there are connect, crash,"),
        ("crash", "s.txt:1: usage: crash NODE"),
        ("nodes a\n\ncrash x", "s.txt:3: there is no node 'x'"),
        ("run 5ms\nnodes a b", "s.txt:2: 'nodes' stands before all that happens"),
        ("seed", "s.txt:1: usage: seed NUMBER"),
        ('send a alice agreed chat "open', "s.txt:1: no closing quotation"),
        ("site s1 zz\nrun 1ms", "s.txt:1: there is no node 'zz'"),
        ("nodes a b\n\nsite s1 c", "s.txt:3: there is no node 'c'"),
        ("nodes a a", "s.txt:1: nodes a a: there are 1 to 64 nodes with different names"),
        ('nodes "a b"', "s.txt:1: nodes \"a b\": daemon name 'a b'"),
        ('site "s 1" a', 's.txt:1: site "s 1" a: daemon name'),
        ("seed x", "s.txt:1: seed x: a seed is a number from 0, in digits"),
        ("seed 1 2", "s.txt:1: seed 1 2: one seed is needed"),
        ("stack best", "s.txt:1: stack best: there are the stacks oracle and full"),
        ("tcp x", "s.txt:1: tcp x: two sites are linked"),
        ("when a in OP crash b", "s.txt:1: only daemons have states: write 'stack full' above"),
        ("entered a STARTED", "s.txt:1: only daemons have states: write 'stack full' above"),
        ("stack full\nwhen a in OP", "s.txt:2: usage: when NODE in STATE COMMAND…"),
        ("stack full\nwhen x in OP crash a", "s.txt:2: there is no node 'x'"),
        ("stack full\nwhen a in OP dance b", "s.txt:2: unknown command 'dance'"),
        ("stack full\nwhen a in OP crash x", "s.txt:2: there is no node 'x'"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(script: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(script, "s.txt")
    assert str(error.value).startswith(message)


TOO_LONG = "a" * 65


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("run soon", "s.txt:1: run soon: not a duration: 'soon' (write 20ms, 1.5s or 300us)"),
        ("crash a\ncrash a", "s.txt:2: crash a: a is down"),
        ("send a alice best chat hello", "there is no service 'best'; there are unreliable, reliable,"),
        ("partition a | x", "there is no node 'x'"),
        ("cut a b both", "only 'one-way' may stand"),
        ("link a b colour=red", "a link has no 'colour'"),
        ("run 1ms\nlink a b loss=2.0", "s.txt:2: link a b loss=2.0: loss"),
        ("link a b loss=-1", "s.txt:1: link a b loss=-1: loss"),
        ("link a b loss=nan", "s.txt:1: link a b loss=nan: loss"),
        ("link a b latency_us=-1", "s.txt:1: link a b latency_us=-1: latency_us"),
        ("link a b loss=much", "s.txt:1: link a b loss=much: "),
        ("run ١ms", "not a duration: '١ms'"),
        (f"run 1ms\njoin a {TOO_LONG} chat", f"s.txt:2: join a {TOO_LONG} chat: a client name has 1 to 64"),
        ("send a alice fifo 'no#group' x", "group name 'no#group': '#' is not allowed"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_line(script: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        play(parse(script, "s.txt"), on_echo)
    assert message in str(error.value)


def test_commands_reach_the_cluster() -> None:
    script = """
    connect a guest
    send a alice fifo g,h one two
    link a b loss=0.5 latency_us=100
    cut a b one-way
    mend a b one-way
    pause a
    resume a
    partition a | b c
    heal
    leave a alice g
    disconnect a alice
    stop b
    quiet 1s
    """
    scenario = parse(script)
    clusters: list[Cluster] = []

    def build(scenario: Scenario) -> Cluster:
        clusters.append(Cluster(*scenario.nodes, service=Silent()))
        return clusters[0]

    play(scenario, build)
    (cluster,) = clusters
    assert not cluster.world.is_up("b")
    assert cluster.world.network.link("a", "b").settings.loss == 0.5


class Silent(Echo):
    """Hears everything and says nothing."""

    def handle(self, event):  # type: ignore[no-untyped-def]
        self.heard.append(event)
        return []


def test_durations() -> None:
    assert [milliseconds(text) for text in ("20ms", "1.5s", "300us")] == [20, 1500, 0.3]
    with pytest.raises(ValueError, match="not a duration"):
        milliseconds("5")


def test_any_entry_has_a_line() -> None:
    assert text_of(LinkFailed("a#1", "ring", "a-b", "token lost")) == "linkfailed a#1 ring a-b token lost"
    assert text_of(Ended(False)) == "end no"
    stable = Row("", 0, 3, 12_345, Stabilised((("a", "b"), ("c",))))
    assert line_of(stable) == "    12.345  driver   stable {{a b} {c}}"

"""Every promise of COReL has a run that keeps it and one that breaks it, written down by hand."""

from __future__ import annotations

import pytest

from isotone.spec.check import check
from isotone.spec.corel_properties import COREL_PROPERTIES
from isotone.spec.verdicts import State
from isotone.trace import corel as c
from isotone.trace.columns import columns_of, entry_of
from isotone.trace.events import Ended, Entry, Gap, Row, Stabilised
from isotone.trace.vocabulary import entry_of_plain, plain_of

AB = ("a", "b")
ABX = ("a", "b", "x")
RULE = '{"type":"Majority","servers":["a","b"]}'


def started(server: str, **found: object) -> c.ReplicaStarted:
    fields = {"life": 1, "committed": 0, "attempted": 0, "green": 0, "yellow": 0, "queue": ()} | found
    return c.ReplicaStarted(server, **fields)  # type: ignore[arg-type]


def sent(server: str, message: str, digest: int = 7) -> c.Initiated:
    return c.Initiated(server, message, 1, 1, digest)


def green(server: str, place: int, *messages: str, primary: int = 1, digest: int = 7) -> c.Greened:
    return c.Greened(server, primary, place, messages, (digest,) * len(messages))


def arranged(server: str, queue: tuple[str, ...] = (), *, committed: int = 1, green: int = 0, yellow: int = 0) -> Entry:
    return c.QueueArranged(server, committed, green, yellow, queue)


def primary(server: str, number: int = 1, servers: tuple[str, ...] = AB) -> list[Entry]:
    return [
        c.PrimaryAttempted(server, number, servers),
        c.PrimaryCommitted(server, number, servers),
        c.PrimaryEstablished(server, number, servers),
    ]


def rows(**nodes: list[Entry]) -> list[Row]:
    return [Row(node, 1, index, 0, entry) for node, entries in nodes.items() for index, entry in enumerate(entries)]


def good() -> dict[str, list[Entry]]:
    """a and b order two messages in a primary; a restarts; x is added, gets the state of a, and
    all accept a proposal."""
    return {
        "a": [
            started("a", servers=AB, rule=RULE),
            *primary("a"),
            sent("a", "a.1:1"),
            c.Yellowed("a", ("a.1:1",)),
            sent("a", "a.1:2"),
            green("a", 1, "a.1:1"),
            c.Yellowed("a", ("a.1:2", "b.1:1")),
            green("a", 2, "a.1:2", "b.1:1"),
            started("a", life=2, committed=1, attempted=1, green=1, yellow=3, queue=("a.1:2", "b.1:1")),
            arranged("a", (), green=3, yellow=3),
            green("a", 2, "a.1:2", "b.1:1"),
            c.Whitened("a", 1),
            c.Reconfigured("a", 3, 1, ABX),
            c.SnapshotKept("a", 3, 3, 5),
            c.Reddened("a", ("a.2:1",)),
            c.Voted("a", 1, True),
            c.Greened("a", 1, 4, ("a.2:1",), (7,), 1),
        ],
        "b": [
            started("b", servers=AB, rule=RULE),
            *primary("b"),
            c.Yellowed("b", ("a.1:1", "a.1:2")),
            green("b", 1, "a.1:1"),
            sent("b", "b.1:1"),
            c.Yellowed("b", ("b.1:1",)),
            green("b", 2, "a.1:2", "b.1:1"),
            c.Reconfigured("b", 3, 1, ABX),
            arranged("b", ("a.2:1",), green=3, yellow=3),
            c.Voted("b", 1, True),
            c.Greened("b", 1, 4, ("a.2:1",), (7,), 1),
        ],
        "x": [
            started("x"),
            c.StateInstalled("x", 3, 3, 5),
            arranged("x", (), committed=0, green=3, yellow=3),
            c.Reddened("x", ("a.2:1",)),
            c.Voted("x", 1, True),
            c.Greened("x", 1, 4, ("a.2:1",), (7,), 1),
        ],
    }


END: list[Entry] = [Stabilised((ABX,)), Ended(True)]


def test_a_good_run_exercises_everything_and_breaks_nothing() -> None:
    report = check([*rows(**good()), *(Row("", 0, index, 0, entry) for index, entry in enumerate(END))])
    found = {label: verdict.state for label, verdict in report.verdicts.items() if label.startswith("COR-")}
    assert found == {each.id: State.HOLDS for each in COREL_PROPERTIES}


def broken(node: str, place: int, *entries: Entry) -> list[Row]:
    """The good run with one row replaced."""
    run = good()
    run[node][place : place + 1] = entries
    return rows(**run)


BROKEN = {
    "COR-FIFO": broken("b", 4, c.Yellowed("b", ("a.1:2", "a.1:1"))),
    "COR-SENT": broken("a", 6, sent("a", "a.1:1")),
    "COR-RECORD": broken("b", 4, c.Yellowed("a", ("a.1:1", "a.1:2"))),
    "COR-CAUSAL": broken("a", 8, c.Yellowed("a", ("b.1:1", "a.1:2"))),
    "COR-GREEN": broken("a", 7, green("a", 2, "a.1:1")),
    "COR-AGREED": broken("b", 8, green("b", 2, "b.1:1", "a.1:2")),
    "COR-YELLOW": broken("a", 11, arranged("a", ("a.1:2", "b.1:1"), green=1, yellow=2)),
    "COR-ONE": broken("b", 2, c.PrimaryCommitted("b", 1, ("b", "x"))),
    "COR-EPOCHS": broken("a", 11, arranged("a", (), committed=0, green=3, yellow=3)),
    "COR-ATTEMPTS": broken("a", 10, started("a", life=2, committed=1, green=1, yellow=3, queue=("a.1:2", "b.1:1"))),
    "COR-PHASES": broken("b", 2),
    "COR-QUORUM": broken("b", 0, started("b", servers=ABX, rule=RULE.replace('"b"', '"b","x","y"'))),
    "COR-KEPT": broken("b", 10, c.Reddened("b", ("a.2:1",)), arranged("b", (), green=3, yellow=3)),
    "COR-SAME": broken("b", 1, c.Reddened("b", ("b.0:1",)), *primary("b")[:1]),
    "COR-SYNCED": broken("b", 7),
    "COR-DURABLE": broken("a", 10, started("a", life=2, committed=1, attempted=1, green=1, yellow=2, queue=("a.1:2",))),
    "COR-WHITE": broken("b", 9, c.Whitened("b", 5)),
    "COR-CONFIGURATION": broken("b", 9, c.Reconfigured("b", 2, 1, ABX)),
    "COR-STATE": broken("x", 1, c.StateInstalled("x", 3, 3, 6)),
    "COR-PROPOSAL": broken("x", 4, c.Voted("x", 1, False)),
    "COR-LIVE": [
        *broken("b", 12),
        *(Row("", 0, index, 0, entry) for index, entry in enumerate(END)),
    ],
}


def forced(fence: int = 1) -> dict[str, list[Entry]]:
    """a and b order two messages of which c has none; c is forced, orders its own, and x learns from c.

    a and b go on meanwhile: on the two sides one number is two primaries, and one place two messages.
    """
    return {
        "a": [
            started("a"),
            *primary("a"),
            sent("a", "a.1:1"),
            c.Yellowed("a", ("a.1:1",)),
            green("a", 1, "a.1:1"),
            started("a", life=2, committed=1, attempted=1, green=1, yellow=1),
            *primary("a", 2),
            sent("a", "a.2:1"),
            c.Yellowed("a", ("a.2:1",)),
            green("a", 2, "a.2:1", primary=2),
        ],
        "b": [
            started("b"),
            *primary("b"),
            c.Yellowed("b", ("a.1:1",)),
            green("b", 1, "a.1:1"),
            *primary("b", 2),
            c.Yellowed("b", ("a.2:1",)),
            green("b", 2, "a.2:1", primary=2),
        ],
        "c": [
            started("c", servers=("a", "b", "c")),
            sent("c", "c.1:1"),
            c.Reddened("c", ("c.1:1",)),
            started("c", life=2, queue=("c.1:1",), servers=("c",), fence=fence),
            *primary("c", 2, ("c",)),
            green("c", 1, "c.1:1", primary=2),
            c.Whitened("c", 1),
        ],
        "x": [
            started("x", servers=("a", "b", "c")),
            c.Fenced("x", fence, ("c",)),
            c.QueueArranged("x", 0, 1, 1, (), False),
            green("x", 1, "c.1:1", primary=2),
            c.Whitened("x", 1),
        ],
    }


def lost() -> dict[str, list[Entry]]:
    """a, b and c order a message; b loses its disk and comes back as a stranger; a and c order another, and then x,
    which lost its disk before it was added, is one of them."""
    abc, acx, abcx = ("a", "b", "c"), ("a", "c", "x"), ("a", "b", "c", "x")

    def whole(server: str) -> list[Entry]:
        return [
            started(server, log=f"{server}1", servers=abc),
            *primary(server, 1, abc),
            c.Yellowed(server, ("a.1:1",)),
            green(server, 1, "a.1:1"),
            *primary(server, 2, acx),
            c.Yellowed(server, ("a.1:2",)),
            green(server, 2, "a.1:2", primary=2),
            c.Reconfigured(server, 2, 1, abcx),
        ]

    run = {"a": whole("a"), "c": whole("c"), "b": whole("b")[:6]}
    run["a"][4:4] = [sent("a", "a.1:1"), sent("a", "a.1:2")]
    run["b"] += [c.DiskLost("b"), started("b", log="b2", servers=abc), c.Reddened("b", ("b.1:1",))]
    run["x"] = [
        started("x", log="x1", servers=abc),
        c.Reddened("x", ("a.1:1", "a.1:2")),
        c.DiskLost("x"),
        started("x", log="x2", servers=abc),
        c.QueueArranged("x", 1, 1, 1, (), False),
        green("x", 1, "a.1:1"),
        *whole("x")[6:],
    ]
    return run


LOST_END: list[Entry] = [Stabilised((("a", "b", "c", "x"),)), Ended(True)]


def of_lost(node: str, place: int, *entries: Entry, count: int = 1) -> list[Row]:
    """That run with one row, or so many, replaced, and its end."""
    run = lost()
    run[node][place : place + count] = entries
    return [*rows(**run), *(Row("", 0, index, 0, entry) for index, entry in enumerate(LOST_END))]


def fallen() -> list[Row]:
    """c was behind a fence, and comes back before it."""
    run = forced()
    run["c"].append(started("c", life=3, committed=2, attempted=2, green=1, yellow=1, servers=("c",)))
    return rows(**run)


def alone(node: str = "", *instead: Entry, after: tuple[Entry, ...] = ()) -> list[Row]:
    """a and b, without x, order a message, and that is due; at one node other rows stand before that, and after it."""
    run: dict[str, list[Entry]] = {
        each: [started(each, servers=ABX), *primary(each), c.Yellowed(each, ("a.1:1",)), green(each, 1, "a.1:1")]
        for each in AB
    }
    run["a"].insert(1, sent("a", "a.1:1"))
    run["x"] = [started("x", servers=ABX), sent("x", "x.1:1"), c.Reddened("x", ("x.1:1",))]
    if node:
        run[node] = list(instead)
    for each in AB:
        run[each] += [c.OrderDue(each, AB), *(after if each == node else ())]
    return rows(**run)


def test_some_servers_alone_owe_their_order_and_nothing_of_others() -> None:
    report = check(alone())
    assert not report.violations and report.verdicts["COR-LIVE"].state is State.HOLDS
    unsettled = check([*alone(), Row("", 0, 0, 0, Stabilised((ABX,))), Row("", 0, 1, 0, Ended(False))])
    assert unsettled.verdicts["COR-LIVE"].state is State.NOT_JUDGED


def forgotten(
    *further: Entry, begun: tuple[Entry, ...] = (), servers: tuple[str, ...] = ABX, **nodes: list[Entry]
) -> list[Row]:
    """a and b, without x, order a message, and a, after these rows, forgets it; x, begun so, gets a state instead."""
    run: dict[str, list[Entry]] = {
        each: [started(each, servers=ABX), *primary(each), c.Yellowed(each, ("a.1:1",)), green(each, 1, "a.1:1")]
        for each in AB
    }
    run["a"].insert(1, sent("a", "a.1:1"))
    run["a"] += [*further, c.SnapshotKept("a", 1, 1, 5), c.Whitened("a", 1)]
    run["x"] = [*(begun or (started("x", servers=ABX),)), c.StateInstalled("x", 1, 1, 5, servers)]
    return rows(**run, **nodes)


@pytest.mark.parametrize(
    "run",
    [
        forgotten(begun=(started("x", servers=AB),)),  # it had no vote before: white may be told behind that
        forgotten(c.Reconfigured("a", 1, 1, AB), servers=AB),  # it is removed, and does not know
        forgotten(y=[started("y", servers=ABX), c.StateInstalled("y", 1, 1, 5, ABX)]),  # from one without a vote
        forgotten(begun=(started("x", servers=ABX), c.DiskLost("x"), started("x", servers=ABX))),
        forgotten(
            started("a", life=2, committed=1, attempted=1, green=1, yellow=1, servers=("a", "x"), fence=1),
            begun=(started("x", servers=("a", "x"), fence=1),),
            servers=("a", "x"),
        ),  # what was forgotten before the fence need not be there behind it
    ],
)
def test_a_state_is_no_proof_where_white_may_be_right(run: list[Row]) -> None:
    assert not check(run).violations


def overtaken(*later: Entry, begun: list[Entry] | None = None) -> list[Row]:
    """a has a message green in a primary, which b began so; then these rows follow at b."""
    run: dict[str, list[Entry]] = {
        "a": [started("a"), *primary("a"), sent("a", "a.1:1"), c.Yellowed("a", ("a.1:1",)), green("a", 1, "a.1:1")],
        "b": [started("b"), *(begun or primary("b")), *later, green("b", 1, "a.1:1")],
    }
    return rows(**run)


def test_what_came_before_a_primary_ended_is_synced() -> None:
    came = c.Yellowed("b", ("a.1:1",))
    assert not check(overtaken(came, arranged("b", ("a.1:1",), yellow=1))).violations
    attempted, *others = primary("b")
    proposed = [attempted, arranged("b", committed=0), *others]  # with a proposal the queue is set anew
    assert not check(overtaken(came, begun=proposed)).violations


def attempted(**queues: c.QueueArranged) -> list[Row]:
    """These servers come to these queues, and attempt a primary."""
    return rows(**{each: [started(each), queue, *primary(each)[:1]] for each, queue in queues.items()})


def recovered(server: str, queue: tuple[str, ...], **lines: int) -> c.QueueArranged:
    return c.QueueArranged(server, 0, lines.get("green", 0), lines.get("yellow", 0), queue)


def test_who_is_in_another_attempt_may_have_another_queue() -> None:
    other = [started("x"), c.PrimaryAttempted("x", 1, ("b", "x"))]
    run = attempted(a=recovered("a", ("a.1:1",)), b=recovered("b", ("a.1:1",)))
    assert not check([*run, *rows(x=other)]).violations


ALSO_BROKEN = {
    "an attempt with another yellow line": (
        "COR-SAME",
        rows(
            a=[started("a", queue=("a.1:1",)), recovered("a", ("a.1:1",)), *primary("a")[:1]],
            b=[started("b", queue=("a.1:1",), yellow=1), recovered("b", ("a.1:1",), yellow=1), *primary("b")[:1]],
        ),
    ),
    "an attempt with another green line": (
        "COR-SAME",
        attempted(a=recovered("a", ()), b=recovered("b", (), green=1, yellow=1)),
    ),
    "an attempt with another order": (
        "COR-SAME",
        attempted(a=recovered("a", ("a.1:1", "b.1:1")), b=recovered("b", ("b.1:1", "a.1:1"))),
    ),
    "white before a server had it, which a state heals": ("COR-WHITE", forgotten()),
    "a quorum alone that has a message which is not green": (
        "COR-LIVE",
        alone("b", started("b"), *primary("b"), c.Yellowed("b", ("a.1:1",))),
    ),
    "a quorum alone of which one has a message too late": (
        "COR-LIVE",
        alone("b", started("b"), *primary("b"), after=(c.Yellowed("b", ("a.1:1",)), green("b", 1, "a.1:1"))),
    ),
    "a quorum alone that is no primary component": (
        "COR-LIVE",
        alone(
            "b",
            started("b"),
            *primary("b"),
            c.Yellowed("b", ("a.1:1",)),
            green("b", 1, "a.1:1"),
            arranged("b", (), green=1, yellow=1),
        ),
    ),
    "another log on the server's own word": (
        "COR-DURABLE",
        rows(a=[started("a", log="a1"), started("a", life=1, log="a2")]),
    ),
    "a log that forgot who it is": ("COR-DURABLE", rows(a=[started("a", log="a1"), started("a", life=2)])),
    "green that did not stand there": (
        "COR-GREEN",
        rows(a=[started("a", servers=("a",)), c.Voted("a", 1, True), c.Greened("a", 0, 1, ("a.1:1",), (7,), 1)]),
    ),
    "a fence that falls": ("COR-EPOCHS", fallen()),
    "synced by all, but by one in the next recovery only": (
        "COR-SYNCED",
        overtaken(arranged("b", (), green=1, yellow=1)),
    ),
    "synced by all, but not before a crash": (
        "COR-SYNCED",
        overtaken(started("b", life=2, committed=1, attempted=1, yellow=1, queue=("a.1:1",))),
    ),
    "synced by another log of that server": ("COR-SYNCED", of_lost("x", 9, c.QueueArranged("x", 2, 2, 2, ()))),
    "a server that lost its disk before it was added": ("COR-LIVE", of_lost("x", 10, count=2)),
}


def test_a_lost_disk_owes_nothing() -> None:
    assert not check(of_lost("b", 6, c.DiskLost("b"))).violations


@pytest.mark.parametrize("label", [each.id for each in COREL_PROPERTIES])
def test_a_broken_run_is_accused(label: str) -> None:
    violation = check(BROKEN[label]).violations[label]
    assert violation.property == label and violation.explanation.endswith(".")
    known = {(row.node, row.incarnation, row.index) for row in BROKEN[label]}
    assert violation.witness and set(violation.witness) <= known


@pytest.mark.parametrize("name", ALSO_BROKEN)
def test_so_is_one_that_breaks_it_otherwise(name: str) -> None:
    label, run = ALSO_BROKEN[name]
    assert set(check(run).violations) == {label}


def test_contents_count_too() -> None:
    assert "COR-AGREED" in check(broken("a", 7, green("a", 1, "a.1:1", digest=8))).violations


def test_rows_come_in_any_order_across_nodes() -> None:
    for label, run in BROKEN.items():
        turned = sorted(run, key=lambda row: (row.node != "b", row.node != "a"))
        assert check(turned).violations.get(label) == check(run).violations[label]


def test_lost_rows_leave_what_the_others_prove() -> None:
    lost = Row("b", 1, 99, 0, Gap(3))
    proven = check([*BROKEN["COR-AGREED"], lost])
    assert proven.verdicts["COR-AGREED"].state is State.VIOLATED
    assert proven.verdicts["COR-FIFO"].state is State.NOT_JUDGED
    assert check([*BROKEN["COR-PHASES"], lost]).verdicts["COR-PHASES"].state is State.NOT_JUDGED


def test_what_stands_behind_lost_rows_counts_by_itself() -> None:
    """The green of b diverges behind a gap; and behind the next start everything is known again."""
    run = BROKEN["COR-AGREED"]
    torn = [row if (row.node, row.index) != ("b", 4) else Row("b", 1, 4, 0, Gap(1)) for row in run]
    assert set(check(torn).violations) == {"COR-AGREED"}
    fell = [row for row in run if row.node != "b"]
    fell += [Row("b", 1, 0, 0, Gap(1)), Row("b", 2, 0, 0, started("b", committed=2, attempted=2))]
    fell += [Row("b", 2, 1, 0, arranged("b", committed=1))]
    assert set(check(fell).violations) == {"COR-EPOCHS", "COR-YELLOW"}


def test_a_run_without_replicas_has_no_such_verdicts() -> None:
    assert not [label for label in check([]).verdicts if label.startswith("COR-")]


def test_the_entries_are_written_and_read() -> None:
    for row in [*rows(**good()), *rows(**forced()), *rows(**lost()), *alone()]:
        assert entry_of(columns_of(row.entry)) == row.entry
        plain = plain_of(row.entry)
        assert entry_of_plain(plain.pop("kind"), plain) == row.entry


def restored(life: int = 2, log: str = "second", fence: int = 1, *, resends: bool = False) -> list[Row]:
    """a and b order three messages; of a copy that has the first two, and the state at the first, both begin anew.

    With ``resends`` b had sent a message after the copy was made, and its restored log gives the name again.
    """

    def told(server: str) -> list[Entry]:
        return [
            started(server, log="first"),
            *primary(server),
            c.Yellowed(server, ("a.1:1", "a.1:2", "a.1:3")),
            green(server, 1, "a.1:1"),
            c.SnapshotKept(server, 1, 1, 5),
            green(server, 2, "a.1:2", "a.1:3"),
            started(server, life=life, green=2, yellow=2, servers=AB, log=log, fence=fence),
            *primary(server, 2),
            c.Yellowed(server, ("b.2:1",)),
            green(server, 3, "b.2:1", primary=2),
        ]

    run = {each: told(each) for each in AB}
    run["a"][4:4] = [sent("a", f"a.1:{counter}") for counter in (1, 2, 3)]
    run["b"].insert(-2, sent("b", "b.2:1"))
    if resends:
        run["b"].insert(4, sent("b", "b.2:1", digest=8))
    run["x"] = [started("x", servers=AB), c.Fenced("x", 1, AB), c.StateInstalled("x", 1, 1, 5, AB)]
    return rows(**run)


def test_a_log_from_a_copy_is_another_one() -> None:
    assert not check(restored()).violations
    assert not check(restored(resends=True)).violations
    assert "COR-SENT" in check(restored(log="first", resends=True)).violations


@pytest.mark.parametrize(
    ("run", "label"),
    [
        (restored(log="first"), "COR-DURABLE"),
        (restored(fence=0), "COR-DURABLE"),
        ([row for row in restored() if not isinstance(row.entry, c.SnapshotKept)], "COR-STATE"),
    ],
)
def test_only_another_log_behind_a_fence_is(run: list[Row], label: str) -> None:
    assert label in check(run).violations


FORCED_END: list[Entry] = [Stabilised((("a", "b", "c", "x"),)), Ended(True)]


def judged(run: dict[str, list[Entry]]) -> set[str]:
    return set(check([*rows(**run), *(Row("", 0, at, 0, entry) for at, entry in enumerate(FORCED_END))]).violations)


def test_both_sides_of_a_fence_are_judged_each_for_itself() -> None:
    assert not judged(forced())
    assert {"COR-AGREED", "COR-ONE"} <= judged(forced(fence=0)), "it is the fence that parts them"


@pytest.mark.parametrize(
    ("node", "place", "entry", "label"),
    [
        ("x", 3, green("x", 1, "a.1:1", primary=2), "COR-AGREED"),  # what only the other side has
        ("b", 8, green("b", 2, "b.9:9", primary=2), "COR-AGREED"),  # the old side has one order too
        ("c", 3, started("c", life=2, servers=("c",), fence=1), "COR-DURABLE"),  # survivors keep what they had
        ("c", 7, green("c", 2, "c.1:1", primary=2), "COR-GREEN"),
        ("c", 5, c.PrimaryCommitted("c", 2, ("c", "x")), "COR-PHASES"),
        ("c", 8, c.Whitened("c", 2), "COR-WHITE"),
    ],
)
def test_who_is_on_one_side_is_held_to_it(node: str, place: int, entry: Entry, label: str) -> None:
    run = forced()
    run[node][place] = entry
    assert label in judged(run)


def test_what_survivors_had_is_owed_on_their_side_alone() -> None:
    run = forced()
    del run["c"][7:], run["x"][3:]
    assert "COR-LIVE" in judged(run)
    run = forced()
    del run["b"][7:]
    assert "COR-LIVE" not in judged(run)

"""Broken runs of COReL's servers: at least one for each way in which a promise can be broken, each with its label.

Each is the good run of `tests.corel.test_checks` with one row replaced, dropped or added; some are runs of their own.
"""

from __future__ import annotations

from isotone.trace import corel as trace
from isotone.trace.events import Entry, Row
from tests.corel.test_checks import (
    AB,
    ABX,
    END,
    arranged,
    broken,
    good,
    green,
    primary,
    restored,
    rows,
    sent,
    started,
)

Broken = tuple[str, list[Row]]
ABC = ("a", "b", "c")


def added(node: str, place: int, *entries: Entry) -> list[Row]:
    """The good run with rows before this place."""
    run = good()
    run[node][place:place] = entries
    return rows(**run)


def ended(run: list[Row]) -> list[Row]:
    """The same run, with a quiet end in one component."""
    return [*run, *(Row("", 0, index, 0, entry) for index, entry in enumerate(END))]


def three(**more: list[Entry]) -> dict[str, list[Entry]]:
    """Servers a, b and c, by majority: primary 1 of all orders one message; then these rows follow at each."""
    rule = '{"type":"Majority","servers":["a","b","c"]}'
    run: dict[str, list[Entry]] = {}
    for each in ABC:
        run[each] = [started(each, servers=ABC, rule=rule, log=each), *primary(each, 1, ABC)]
        run[each] += [sent("a", "a.1:1")] if each == "a" else []
        run[each] += [trace.Yellowed(each, ("a.1:1",)), green(each, 1, "a.1:1"), *more.get(each, ())]
    return run


def again(server: str, *entries: Entry, **found: object) -> list[Entry]:
    """The server comes back as it was, or with something else on disk."""
    fields: dict[str, object] = {"life": 2, "committed": 1, "attempted": 1, "green": 1, "yellow": 1, "log": server}
    return [started(server, **(fields | found)), *entries]


def formed(
    number: int, *servers: str, steps: int = 3, green_line: int = 1, committed: int = 1
) -> dict[str, list[Entry]]:
    """These recover together, and form a primary, or begin to."""
    return {
        each: [
            arranged(each, (), committed=committed, green=green_line, yellow=green_line),
            *primary(each, number, servers)[:steps],
        ]
        for each in servers
    }


def _fifo_and_causal() -> dict[str, Broken]:
    return {
        "a message before an earlier one of its sender": (
            "COR-FIFO",
            broken("b", 4, trace.Yellowed("b", ("a.1:2", "a.1:1"))),
        ),
        "a message without an earlier one of its sender": ("COR-FIFO", broken("b", 4, trace.Yellowed("b", ("a.1:2",)))),
        "a message that stands twice in the queue": (
            "COR-FIFO",
            broken("b", 4, trace.Yellowed("b", ("a.1:1", "a.1:2", "a.1:2"))),
        ),
        "a red message without the one before": ("COR-FIFO", broken("x", 3, trace.Reddened("x", ("a.2:2",)))),
        "a queue after a recovery without the one before": (
            "COR-FIFO",
            broken("b", 10, arranged("b", ("a.2:2",), green=3, yellow=3)),
        ),
        "a queue found on disk in the wrong order": (
            "COR-FIFO",
            rows(**three(b=again("b", queue=("a.1:3", "a.1:2")))),
        ),
        "an answer before what it answers": ("COR-CAUSAL", broken("a", 8, trace.Yellowed("a", ("b.1:1", "a.1:2")))),
        "an answer without what it answers": (
            "COR-CAUSAL",
            rows(
                **three(
                    b=[trace.Yellowed("b", ("a.1:2",)), sent("b", "b.1:1")],
                    c=[trace.Yellowed("c", ("b.1:1",))],
                )
            ),
        ),
        "an answer that a recovery puts before what it answers": (
            "COR-CAUSAL",
            rows(
                **three(
                    b=[trace.Yellowed("b", ("a.1:2",)), sent("b", "b.1:1"), trace.Yellowed("b", ("b.1:1",))],
                    c=[arranged("c", ("b.1:1", "a.1:2"), green=1, yellow=1)],
                )
            ),
        ),
    }


def _green() -> dict[str, Broken]:
    return {
        "green at a place that leaves a hole": ("COR-GREEN", broken("a", 7, green("a", 2, "a.1:1"))),
        "green told twice without a restart": ("COR-GREEN", added("b", 6, green("b", 1, "a.1:1"))),
        "green that does not stand next in the queue": ("COR-GREEN", broken("b", 5, green("b", 1, "a.1:2"))),
        "green that stands nowhere in the queue": ("COR-GREEN", added("x", 3, green("x", 4, "x.9:1"))),
        "green taken back by a recovery": (
            "COR-GREEN",
            broken("b", 10, arranged("b", ("b.1:1", "a.2:1"), green=2, yellow=3)),
        ),
        "all green taken back by a recovery": ("COR-GREEN", rows(**three(b=[arranged("b", ("a.1:1",), yellow=1)]))),
        "another green message after a restart": (
            "COR-GREEN",
            broken("a", 12, green("a", 2, "b.1:1", "a.1:2")),
        ),
        "a green message that stands in the queue again": (
            "COR-GREEN",
            broken("b", 10, arranged("b", ("a.1:1", "a.2:1"), green=3, yellow=3)),
        ),
        "two orders at two servers": ("COR-AGREED", broken("b", 8, green("b", 2, "b.1:1", "a.1:2"))),
        "another message at one place": ("COR-AGREED", broken("x", 5, trace.Greened("x", 1, 4, ("b.2:1",), (7,), 1))),
        "one message at two places": ("COR-AGREED", broken("x", 5, trace.Greened("x", 1, 5, ("a.2:1",), (7,), 1))),
        "another content than was sent": ("COR-AGREED", broken("a", 7, green("a", 1, "a.1:1", digest=8))),
        "another content at two servers, and no send": (
            "COR-AGREED",
            broken("x", 5, trace.Greened("x", 1, 4, ("a.2:1",), (8,), 1)),
        ),
        "another content told again after a restart": (
            "COR-AGREED",
            broken("a", 12, green("a", 2, "a.1:2", "b.1:1", digest=9)),
        ),
        "one name for two messages": ("COR-AGREED", added("a", 5, sent("a", "a.1:1", digest=9))),
    }


def _yellow_and_disk() -> dict[str, Broken]:
    return {
        "a yellow line below what is green elsewhere": (
            "COR-YELLOW",
            broken("a", 11, arranged("a", ("a.1:2", "b.1:1"), green=1, yellow=2)),
        ),
        "another yellow message where one is green elsewhere": (
            "COR-YELLOW",
            broken("a", 11, arranged("a", ("b.1:1", "a.1:2"), green=1, yellow=3)),
        ),
        "a primary adopted without what is green in it": (
            "COR-YELLOW",
            rows(**three(c=again("c", arranged("c", ("a.1:1",)), green=0, yellow=1, queue=("a.1:1",)))),
        ),
        "a commit to the next primary without what is green": (
            "COR-YELLOW",
            rows(
                **{
                    **three(),
                    "c": [
                        started("c", servers=ABC),
                        *primary("c", 1, ABC),
                        trace.PrimaryAttempted("c", 2, ("b", "c")),
                        trace.PrimaryCommitted("c", 2, ("b", "c")),
                    ],
                }
            ),
        ),
        "a yellow line that the queue does not reach": ("COR-YELLOW", rows(**three(c=again("c", green=0, yellow=1)))),
        "a member of the primary that never got it on disk": ("COR-SYNCED", broken("b", 7)),
        "a member that got it with the next recovery": (
            "COR-SYNCED",
            rows(
                **{
                    **three(),
                    "c": [started("c", servers=ABC), *primary("c", 1, ABC), arranged("c", ("a.1:1",), yellow=1)],
                }
            ),
        ),
        "a member that found it at its next start": (
            "COR-SYNCED",
            rows(
                **{
                    **three(),
                    "c": [
                        started("c", servers=ABC, log="c"),
                        *primary("c", 1, ABC),
                        *again("c", green=0, yellow=1, queue=("a.1:1",)),
                    ],
                }
            ),
        ),
        "a red message that a recovery drops": (
            "COR-KEPT",
            rows(**three(b=[trace.Reddened("b", ("a.1:2",)), arranged("b", green=1, yellow=1)])),
        ),
        "one of two that a recovery drops": (
            "COR-KEPT",
            rows(**three(b=[trace.Reddened("b", ("a.1:2", "a.1:3")), arranged("b", ("a.1:2",), green=1, yellow=1)])),
        ),
        "a message that is gone behind a state": (
            "COR-KEPT",
            rows(
                **three(
                    a=[trace.SnapshotKept("a", 1, 1, 5)],
                    c=[
                        trace.Reddened("c", ("c.1:1",)),
                        trace.StateInstalled("c", 1, 1, 5),
                        arranged("c", green=1, yellow=1),
                    ],
                )
            ),
        ),
        "a message lost in a restart": (
            "COR-DURABLE",
            broken("a", 10, started("a", life=2, committed=1, attempted=1, green=1, yellow=2, queue=("a.1:2",))),
        ),
        "a red message lost in a restart": (
            "COR-DURABLE",
            rows(**three(b=[trace.Reddened("b", ("a.1:2",)), *again("b")])),
        ),
        "green that is red after a restart": (
            "COR-DURABLE",
            rows(**three(b=again("b", green=0, yellow=0, queue=("a.1:1",)))),
        ),
        "green whose place another has after a restart": (
            "COR-DURABLE",
            rows(**three(b=again("b", green=0, yellow=1, queue=("b.1:1",)))),
        ),
        "another log without a lost disk": ("COR-DURABLE", rows(**three(b=again("b", log="other")))),
        "a copy behind no fence": ("COR-DURABLE", restored(fence=0)),
    }


def _primaries() -> dict[str, Broken]:
    return {
        "one number for two primaries": ("COR-ONE", broken("b", 2, trace.PrimaryCommitted("b", 1, ("b", "x")))),
        "one number for two, at one server": ("COR-ONE", added("b", 3, trace.PrimaryCommitted("b", 1, ("b",)))),
        "a committed primary that falls in a recovery": (
            "COR-EPOCHS",
            broken("a", 11, arranged("a", (), committed=0, green=3, yellow=3)),
        ),
        "a committed primary that falls in a restart": ("COR-EPOCHS", rows(**three(b=again("b", committed=0)))),
        "a commit to a lower number": (
            "COR-EPOCHS",
            rows(
                **three(
                    b=[*formed(3, "b", "c")["b"], trace.PrimaryCommitted("b", 2, ("b", "c"))],
                    c=formed(3, "b", "c")["c"],
                )
            ),
        ),
        "a fence that falls": ("COR-EPOCHS", rows(a=[started("a", fence=2), started("a", life=2, fence=1)])),
        "an attempt forgotten in a restart": (
            "COR-ATTEMPTS",
            broken("a", 10, started("a", life=2, committed=1, green=1, yellow=3, queue=("a.1:2", "b.1:1"))),
        ),
        "an attempt lowered in a restart": (
            "COR-ATTEMPTS",
            rows(**three(**{each: [*formed(4, *ABC, steps=1)[each], *again(each, attempted=3)] for each in ABC})),
        ),
        "a number attempted twice": ("COR-ATTEMPTS", added("b", 4, trace.PrimaryAttempted("b", 1, AB))),
        "a number attempted below the last": (
            "COR-ATTEMPTS",
            rows(**three(b=[trace.PrimaryAttempted("b", 3, AB), trace.PrimaryAttempted("b", 2, AB)])),
        ),
        "a number reused after a restart": (
            "COR-ATTEMPTS",
            rows(**three(b=again("b", trace.PrimaryAttempted("b", 1, AB)))),
        ),
        "a commit without an attempt of another": ("COR-PHASES", broken("b", 1)),
        "a commit before the own attempt": (
            "COR-PHASES",
            rows(a=[started("a"), *(primary("a", 1, ("a",))[step] for step in (1, 0, 2))]),
        ),
        "established without a commit of another": ("COR-PHASES", broken("b", 2)),
        "established before the own commit": (
            "COR-PHASES",
            rows(a=[started("a"), *(primary("a", 1, ("a",))[step] for step in (0, 2, 1))]),
        ),
        "a primary adopted that nobody committed to": (
            "COR-PHASES",
            rows(**three(b=[arranged("b", committed=5, green=1, yellow=1)])),
        ),
        "green in a primary that nobody committed to": (
            "COR-PHASES",
            broken("b", 5, green("b", 1, "a.1:1", primary=7)),
        ),
        "green in an earlier primary than the present one": (
            "COR-PHASES",
            rows(
                **three(
                    **{
                        each: [
                            *formed(2, *ABC)[each],
                            trace.Yellowed(each, ("b.1:1",)),
                            green(each, 2, "b.1:1", primary=1),
                        ]
                        for each in ABC
                    }
                )
            ),
        ),
        "two primaries without a server in common": (
            "COR-QUORUM",
            rows(
                a=[started("a"), *primary("a", 1, ("a",))],
                b=[started("b"), *primary("b", 2, ("b",))],
            ),
        ),
        "a primary that is no majority": (
            "COR-QUORUM",
            rows(**three(b=[arranged("b", green=1, yellow=1), *primary("b", 2, ("b",))])),
        ),
        "half of the servers without the one that breaks ties": (
            "COR-QUORUM",
            rows(
                a=[
                    started("a", servers=AB, rule='{"type":"TieBreaker","servers":["a","b"],"breaker":"b"}'),
                    *primary("a", 1, ("a",)),
                ]
            ),
        ),
        "a primary without the monarch": (
            "COR-QUORUM",
            rows(a=[started("a", servers=AB, rule='{"type":"Monarch","server":"b"}'), *primary("a", 1, ("a",))]),
        ),
        "a primary with few votes": (
            "COR-QUORUM",
            rows(
                a=[started("a", servers=AB, rule='{"type":"Weighted","votes":{"a":1,"b":2}}'), *primary("a", 1, ("a",))]
            ),
        ),
        "a primary of fewer than dynamic voting allows": (
            "COR-QUORUM",
            rows(a=[started("a", servers=AB, rule='{"type":"DynamicVoting","minimum":2}'), *primary("a", 1, ("a",))]),
        ),
        "attempted together with different queues": (
            "COR-SAME",
            broken("b", 1, trace.Reddened("b", ("b.0:1",)), *primary("b")[:1]),
        ),
        "attempted together with different green lines": (
            "COR-SAME",
            rows(**three(a=formed(2, *ABC)["a"], b=formed(2, *ABC)["b"], c=formed(2, *ABC, green_line=2)["c"])),
        ),
    }


def _others() -> dict[str, Broken]:
    return {
        "white above what another has green": ("COR-WHITE", broken("b", 9, trace.Whitened("b", 5))),
        "white above the own green": ("COR-WHITE", rows(**three(b=[trace.Whitened("b", 2)]))),
        "one number for two configurations": (
            "COR-CONFIGURATION",
            broken("b", 9, trace.Reconfigured("b", 3, 1, ("b",))),
        ),
        "a configuration at another place": ("COR-CONFIGURATION", broken("b", 9, trace.Reconfigured("b", 2, 1, ABX))),
        "two servers added at once": (
            "COR-CONFIGURATION",
            rows(
                a=[started("a", servers=("a",)), trace.Reconfigured("a", 1, 1, ABX)], b=[started("b")], x=[started("x")]
            ),
        ),
        "a configuration before the one it follows": (
            "COR-CONFIGURATION",
            added("a", 15, trace.Reconfigured("a", 2, 2, AB)),
        ),
        "two states at one position": ("COR-STATE", added("b", 10, trace.SnapshotKept("b", 3, 3, 6))),
        "a state that nobody kept": ("COR-STATE", broken("x", 1, trace.StateInstalled("x", 3, 3, 6))),
        "a state for another place": ("COR-STATE", broken("x", 1, trace.StateInstalled("x", 2, 3, 5))),
        "a proposal that one rejected": ("COR-PROPOSAL", broken("x", 4, trace.Voted("x", 1, False))),
        "a proposal that one never voted on": ("COR-PROPOSAL", broken("b", 11)),
        "a message that is not green at the end": ("COR-LIVE", ended(broken("b", 12))),
        "a message that one alone has at the end": ("COR-LIVE", ended(added("b", 13, trace.Reddened("b", ("b.1:2",))))),
    }


def _lines_and_names() -> dict[str, Broken]:
    return {
        "a message that was sent twice": ("COR-SENT", added("a", 7, sent("a", "a.1:1"))),
        "a message that its sender never told of": ("COR-SENT", broken("a", 6)),
        "a message of a later number than its sender told of": (
            "COR-SENT",
            rows(**three(b=[trace.Reddened("b", ("a.1:2",))])),
        ),
        "yellow beyond the end of the queue": ("COR-YELLOW", rows(**three(b=[arranged("b", (), green=1, yellow=2)]))),
        "yellow below the green line": ("COR-YELLOW", rows(**three(b=again("b", yellow=0)))),
        "green that a recovery brings from nowhere": (
            "COR-GREEN",
            rows(**three(b=[arranged("b", (), green=9, yellow=9)])),
        ),
        "green found on disk that nobody ordered": ("COR-GREEN", rows(**three(b=again("b", green=9, yellow=9)))),
        "yellow that a restart takes back": (
            "COR-DURABLE",
            rows(
                **three(
                    b=[trace.Yellowed("b", ("a.1:2",)), *again("b", yellow=1, queue=("a.1:2",))], a=[sent("a", "a.1:2")]
                )
            ),
        ),
        "a life that is begun twice": ("COR-DURABLE", rows(**three(b=again("b", life=1)))),
        "green in a primary that the server did not establish": (
            "COR-PHASES",
            rows(**{**three(), "b": [each for each in three()["b"] if not isinstance(each, trace.PrimaryEstablished)]}),
        ),
        "a state whose position does not count its records": (
            "COR-STATE",
            rows(**three(b=[trace.SnapshotKept("b", 1, 2, 5)])),
        ),
        "two numbers for one configuration": (
            "COR-CONFIGURATION",
            broken("b", 9, trace.Reconfigured("b", 3, 7, ABX)),
        ),
        "a configuration that one goes on without": (
            "COR-CONFIGURATION",
            rows(**{**good(), "b": [each for each in good()["b"] if not isinstance(each, trace.Reconfigured)]}),
        ),
        "a configuration with two rules": (
            "COR-CONFIGURATION",
            rows(
                **three(
                    a=[trace.Reconfigured("a", 1, 1, AB, '{"type":"Monarch","server":"a"}')],
                    b=[trace.Reconfigured("b", 1, 1, AB, '{"type":"Monarch","server":"b"}')],
                )
            ),
        ),
        "other servers found on disk": ("COR-CONFIGURATION", rows(**three(b=again("b", servers=AB)))),
    }


def _sends_and_names() -> dict[str, Broken]:
    return {
        "a row of another server": ("COR-RECORD", broken("b", 4, trace.Yellowed("a", ("a.1:1", "a.1:2")))),
        "a record that begins as another's": ("COR-RECORD", broken("x", 0, started("y"))),
        "an attempt of others": ("COR-RECORD", added("b", 13, trace.PrimaryAttempted("b", 2, ("a", "x")))),
        "a commit of others": ("COR-RECORD", broken("b", 2, trace.PrimaryCommitted("b", 1, ("a", "x")))),
        "established by others": ("COR-RECORD", broken("b", 3, trace.PrimaryEstablished("b", 1, ("a", "x")))),
        "order that is due to others": ("COR-RECORD", added("b", 13, trace.OrderDue("b", ("a", "x")))),
        "a server that is named twice": (
            "COR-RECORD",
            added("b", 13, trace.PrimaryAttempted("b", 2, ("a", "b", "b"))),
        ),
        "two servers of one name": ("COR-RECORD", broken("a", 0, started("a", servers=("a", "b", "b")))),
        "a green message without its content": (
            "COR-RECORD",
            broken("b", 5, trace.Greened("b", 1, 1, ("a.1:1",), ())),
        ),
        "a content without its message": (
            "COR-RECORD",
            broken("b", 5, trace.Greened("b", 1, 1, ("a.1:1",), (7, 7))),
        ),
        "a send under another's name": ("COR-SENT", added("b", 7, sent("b", "a.9:1"))),
        "a send under no life": ("COR-SENT", added("b", 7, sent("b", "b:1"))),
        "a send in an earlier life": ("COR-SENT", added("a", 12, sent("a", "a.1:3"))),
        "a send in the life before the last start": (
            "COR-SENT",
            rows(**three(b=again("b", sent("b", "b.1:1")))),
        ),
        "a send in a later life without a start": ("COR-SENT", added("a", 7, sent("a", "a.2:1"))),
        "a number that a sender left out": ("COR-SENT", added("a", 9, sent("a", "a.1:4"))),
        "sends in the wrong order": ("COR-SENT", rows(**three(b=[sent("b", "b.1:2"), sent("b", "b.1:1")]))),
        "a start in a life before that of a send": (
            "COR-SENT",
            rows(**three(b=[sent("b", "b.3:1"), *again("b")])),
        ),
    }


def _marks() -> dict[str, Broken]:
    red = trace.Reddened("b", ("a.1:2",))
    return {
        "yellow outside of a primary": (
            "COR-YELLOW",
            rows(**three(b=[arranged("b", green=1, yellow=1), trace.Yellowed("b", ("a.1:2",))])),
        ),
        "yellow behind a restart": (
            "COR-YELLOW",
            rows(**three(b=again("b", trace.Yellowed("b", ("a.1:2",))))),
        ),
        "yellow in a primary that is only attempted": (
            "COR-YELLOW",
            rows(**three(b=[*formed(2, *ABC, steps=1)["b"], trace.Yellowed("b", ("a.1:2",))])),
        ),
        "yellow in a primary that is not established": (
            "COR-YELLOW",
            rows(**three(b=[*formed(2, *ABC, steps=2)["b"], trace.Yellowed("b", ("a.1:2",))])),
        ),
        "red that a recovery makes yellow": (
            "COR-YELLOW",
            rows(**three(b=[red, arranged("b", ("a.1:2",), green=1, yellow=2)], a=[sent("a", "a.1:2")])),
        ),
        "red that a recovery makes yellow together with what it inserts": (
            "COR-YELLOW",
            rows(**three(b=[red, arranged("b", ("a.1:2", "c.1:1"), green=1, yellow=3)], a=[sent("a", "a.1:2")])),
        ),
        "yellow that nobody marked, adopted with a primary": (
            "COR-YELLOW",
            rows(
                **three(
                    a=[sent("a", "a.1:2"), *formed(2, "a", "b")["a"]],
                    b=formed(2, "a", "b")["b"],
                    c=[arranged("c", ("a.1:2",), committed=2, green=1, yellow=2)],
                )
            ),
        ),
        "green that was red": (
            "COR-YELLOW",
            rows(**three(b=[red, green("b", 2, "a.1:2")], a=[sent("a", "a.1:2")])),
        ),
        "green beyond what a recovery left yellow": (
            "COR-YELLOW",
            rows(**three(b=[arranged("b", ("a.1:2",), green=1, yellow=1), green("b", 2, "a.1:2")])),
        ),
    }


def _steps() -> dict[str, Broken]:
    one, two = primary("b", 2, ABC), primary("b", 3, ABC)
    return {
        "an attempt of a number that is adopted": (
            "COR-ATTEMPTS",
            rows(
                **three(
                    a=formed(2, "a", "c")["a"],
                    c=formed(2, "a", "c")["c"],
                    b=[arranged("b", committed=2, green=1, yellow=1), *primary("b", 2, ABC)[:1]],
                )
            ),
        ),
        "an attempt of a number that was found committed": (
            "COR-ATTEMPTS",
            rows(**three(b=again("b", *primary("b", 2, ABC)[:1], committed=2))),
        ),
        "a commit to the attempt before the last": ("COR-PHASES", rows(**three(b=[one[0], two[0], one[1]]))),
        "a second commit to one primary": ("COR-PHASES", added("b", 3, *primary("b")[1:2])),
        "a commit again in the primary": ("COR-PHASES", added("b", 4, *primary("b")[1:2])),
        "a primary established twice": ("COR-PHASES", added("b", 5, *primary("b")[2:])),
        "a primary established when it was over": (
            "COR-PHASES",
            rows(**three(b=[*one[:2], arranged("b", committed=2, green=1, yellow=1), one[2]])),
        ),
        "a primary established behind the next attempt": (
            "COR-PHASES",
            rows(**three(b=[*one[:2], two[0], one[2]])),
        ),
        "a primary established behind a restart": (
            "COR-PHASES",
            rows(**three(b=[*one[:2], *again("b", one[2], committed=2, attempted=2)])),
        ),
    }


def _votes_and_states() -> dict[str, Broken]:
    return {
        "a vote and then the other one": ("COR-PROPOSAL", added("b", 12, trace.Voted("b", 1, False))),
        "a vote twice": ("COR-PROPOSAL", added("b", 12, trace.Voted("b", 1, True))),
        "a vote on an earlier proposal": (
            "COR-PROPOSAL",
            rows(**three(b=[trace.Voted("b", 4, True), trace.Voted("b", 3, True)])),
        ),
        "a vote on a proposal that was found accepted": (
            "COR-PROPOSAL",
            rows(**three(b=again("b", trace.Voted("b", 4, False), accepted=4))),
        ),
        "an accepted proposal that a restart lowers": (
            "COR-PROPOSAL",
            rows(**three(b=[trace.Voted("b", 4, True), *again("b", accepted=3)])),
        ),
        "a rejected proposal that a restart finds accepted": (
            "COR-PROPOSAL",
            rows(**three(b=[trace.Voted("b", 4, False), *again("b", accepted=4)])),
        ),
        "an accepted proposal that a second restart lowers": (
            "COR-PROPOSAL",
            rows(**three(b=[*again("b", accepted=4), *again("b", life=3, accepted=2)])),
        ),
        "a state of less than what is green": (
            "COR-GREEN",
            rows(**three(a=[trace.SnapshotKept("a", 1, 1, 5)], b=[*_more(), trace.StateInstalled("b", 1, 1, 5)])),
        ),
        "a state of more than what is green": (
            "COR-STATE",
            rows(**three(b=[trace.SnapshotKept("b", 2, 2, 5)])),
        ),
        "a later place at an earlier position": (
            "COR-STATE",
            rows(
                **three(
                    a=[trace.SnapshotKept("a", 1, 3, 5)],
                    b=[*_more(), trace.SnapshotKept("b", 2, 2, 6)],
                )
            ),
        ),
        "other servers with a state": (
            "COR-CONFIGURATION",
            broken("x", 1, trace.StateInstalled("x", 3, 3, 5, AB)),
        ),
        "other servers at one place, found by two": (
            "COR-CONFIGURATION",
            rows(
                **three(
                    b=again("b", servers=AB, fence=1),
                    c=again("c", servers=("a", "c"), fence=1),
                )
            ),
        ),
        "white that falls": (
            "COR-WHITE",
            broken("a", 13, trace.Whitened("a", 2), trace.Whitened("a", 1)),
        ),
    }


def _more() -> list[Entry]:
    return [trace.Yellowed("b", ("c.1:1",)), green("b", 2, "c.1:1")]


def _restarts_and_rules() -> dict[str, Broken]:
    red, red_sent = trace.Reddened("b", ("a.1:2",)), [sent("a", "a.1:2")]
    founded, begun_again = three(), {each: formed(2, *ABC, steps=1)[each] for each in ABC}
    monarch = '{"type":"Monarch","server":"a"}'
    return {
        "a primary found that nobody attempted": ("COR-PHASES", rows(**three(b=again("b", committed=9)))),
        "a commit behind a restart": (
            "COR-PHASES",
            rows(
                **three(
                    a=[*begun_again["a"], *primary("a", 2, ABC)[1:]],
                    b=[*begun_again["b"], *again("b", *primary("b", 2, ABC)[1:], attempted=2)],
                    c=[*begun_again["c"], *primary("c", 2, ABC)[1:]],
                )
            ),
        ),
        "green in a primary that only others know of": (
            "COR-PHASES",
            rows(
                **three(
                    a=[*red_sent, *formed(2, "a", "c")["a"]],
                    c=formed(2, "a", "c")["c"],
                    b=[
                        trace.Yellowed("b", ("a.1:2",)),
                        arranged("b", ("a.1:2",), green=1, yellow=2),
                        green("b", 2, "a.1:2", primary=2),
                    ],
                )
            ),
        ),
        "green in the primary before the last that is known": (
            "COR-PHASES",
            rows(
                **three(
                    b=[
                        *formed(2, "b")["b"],
                        trace.Yellowed("b", ("a.1:2",)),
                        arranged("b", ("a.1:2",), committed=2, green=1, yellow=2),
                        green("b", 2, "a.1:2", primary=1),
                    ]
                )
            ),
        ),
        "red that a restart makes yellow": (
            "COR-YELLOW",
            rows(
                **three(
                    a=red_sent,
                    b=[arranged("b", green=1, yellow=1), red, *again("b", yellow=2, queue=("a.1:2",))],
                )
            ),
        ),
        "two orders of yellow in one primary": (
            "COR-YELLOW",
            rows(
                **three(
                    a=[*red_sent, trace.Yellowed("a", ("a.1:2", "b.1:1"))],
                    b=[sent("b", "b.1:1"), trace.Yellowed("b", ("b.1:1", "a.1:2"))],
                )
            ),
        ),
        "another yellow message at the commit": (
            "COR-YELLOW",
            rows(
                **three(
                    a=[*red_sent, arranged("a", ("a.1:2",), green=1, yellow=1), *primary("a", 2, ABC)],
                    b=[sent("b", "b.1:1"), arranged("b", ("b.1:1",), green=1, yellow=1), *primary("b", 2, ABC)],
                    c=[arranged("c", ("a.1:2",), green=1, yellow=1), *primary("c", 2, ABC)],
                )
            ),
        ),
        "another rule found on disk": ("COR-CONFIGURATION", rows(**three(b=again("b", servers=ABC, rule=monarch)))),
        "founders with two rules": (
            "COR-CONFIGURATION",
            rows(**{**founded, "b": [started("b", servers=ABC, rule=monarch, log="b"), *founded["b"][1:]]}),
        ),
        "founders with different servers": (
            "COR-CONFIGURATION",
            rows(**{**founded, "b": [started("b", servers=("b", "c"), log="b"), *founded["b"][1:]]}),
        ),
        "a configuration beyond what is green": (
            "COR-CONFIGURATION",
            rows(**three(b=[trace.Reconfigured("b", 5, 1, AB)])),
        ),
        "a configuration that was left out": (
            "COR-CONFIGURATION",
            rows(**three(b=[trace.Reconfigured("b", 1, 1, AB), *_more(), trace.Reconfigured("b", 2, 3, ("b",))])),
        ),
        "a configuration that is told twice": (
            "COR-CONFIGURATION",
            rows(**three(b=[trace.Reconfigured("b", 1, 1, AB)] * 2)),
        ),
        "a primary of fewer than half of the last, by dynamic voting": (
            "COR-QUORUM",
            _voted(("a", "b", "c", "d", "e"), ("a", "b")),
        ),
        "half of the last primary without its first, by dynamic voting": (
            "COR-QUORUM",
            _voted(("a", "b", "c", "d"), ("c", "d")),
        ),
        "fewer than half of the founders, by dynamic voting": (
            "COR-QUORUM",
            rows(a=[started("a", servers=ABC, rule=DYNAMIC), *primary("a", 1, ("a",))]),
        ),
        "a message in the queue before it was sent": (
            "COR-SENT",
            rows(**three(b=[trace.Yellowed("b", ("b.1:1",)), sent("b", "b.1:1")])),
        ),
        "attempted together with different last primaries": (
            "COR-SAME",
            rows(
                **three(
                    a=[*formed(2, "a", "c")["a"], *formed(3, *ABC, committed=2)["a"]],
                    c=[*formed(2, "a", "c")["c"], *formed(3, *ABC, committed=2)["c"]],
                    b=formed(3, *ABC, committed=1)["b"],
                )
            ),
        ),
    }


DYNAMIC = '{"type":"DynamicVoting","minimum":1}'


def _voted(founders: tuple[str, ...], second: tuple[str, ...]) -> list[Row]:
    """All form primary 1, and these primary 2."""
    run = {each: [started(each, servers=founders, rule=DYNAMIC), *primary(each, 1, founders)] for each in founders}
    for each in second:
        run[each] += [arranged(each), *primary(each, 2, second)]
    return rows(**run)


CASES: dict[str, Broken] = {
    **_fifo_and_causal(),
    **_green(),
    **_yellow_and_disk(),
    **_primaries(),
    **_others(),
    **_lines_and_names(),
    **_sends_and_names(),
    **_marks(),
    **_steps(),
    **_votes_and_states(),
    **_restarts_and_rules(),
}

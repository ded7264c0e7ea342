"""``isotone replica rule``: another quorum rule, or other votes, for a log that runs; by an ordered message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from isotone.cli.output import json_option
from isotone.cli.replica_ask import server_options
from isotone.cli.replica_servers import ask_for_change
from isotone.core.errors import InputError

if TYPE_CHECKING:
    from isotone.corel.quorum import Rule

KINDS = "majority, votes, tie-breaker:SERVER, monarch:SERVER, dynamic or dynamic:MINIMUM"


@click.command("rule")
@server_options
@click.option("--rule", "rules", multiple=True, metavar="RULE", help=f"One of {KINDS}; several are combined.")
@click.option("--combine", type=click.Choice(["all", "any"]), default="all", help="Of several rules: all, or any.")
@click.option("--votes", multiple=True, metavar="SERVER=COUNT", help='How many votes a server has, for "votes".')
@json_option
def rule_command(*, rules: tuple[str, ...], combine: str, votes: tuple[str, ...], as_json: bool, **asked: Any) -> int:
    """Change the quorum rule, or the votes, of a log that runs. The servers stay.

    Until that is green, whoever knows of it asks for a quorum of the old rule and of the new one. The settings files
    stay as they are: they say how the log began.

    \b
    Examples:
      isotone replica rule isotone.toml --rule votes --votes a=2
      isotone replica rule isotone.toml --votes a=3 --votes b=0
      isotone replica rule isotone.toml --rule tie-breaker:a

    Exit codes: 0 it counts, 1 refused (two disjoint quorums, another change is under way), 3 nobody answers.
    """
    wanted = rule_of(rules, combine)
    given = dict(_vote(each) for each in votes)
    if wanted is None and not given:
        raise InputError(f"say --rule ({KINDS}) or --votes")
    told = {"rule": " ".join(rules), "votes": given}
    return ask_for_change(as_json, told, "the rule is changed", rule=wanted, votes=given, **asked)


def rule_of(texts: tuple[str, ...], combine: str = "all") -> Rule | None:
    """The rule that these texts describe, without its servers: who takes it puts in those that there are."""
    from isotone.corel.quorum import AllOf, AnyOf

    rules = tuple(_rule(text) for text in texts)
    if len(rules) < 2:
        return rules[0] if rules else None
    return AllOf(rules) if combine == "all" else AnyOf(rules)


def _rule(text: str) -> Rule:
    from isotone.corel import quorum as q

    kind, _, of = text.partition(":")
    match kind:
        case "majority" if not of:
            return q.Majority(())
        case "votes" if not of:
            return q.Weighted({})
        case "tie-breaker" if of:
            return q.TieBreaker((), of)
        case "monarch" if of:
            return q.Monarch(of)
        case "dynamic" if not of or (of.isdecimal() and int(of) >= 1):
            return q.DynamicVoting(int(of or 1))
    raise InputError(f"no rule is written {text!r}: {KINDS}")


def _vote(text: str) -> tuple[str, int]:
    server, _, count = text.rpartition("=")
    if not server or not count.isdecimal():
        raise InputError(f"votes are written SERVER=COUNT, not {text!r}")
    return server, int(count)

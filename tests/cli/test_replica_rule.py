"""Rules as they are written on the command line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from isotone.cli.main import commands
from isotone.cli.replica_rule import rule_of
from isotone.core.errors import InputError
from isotone.corel.quorum import AllOf, AnyOf, DynamicVoting, Majority, Monarch, Rule, TieBreaker, Weighted


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("majority", Majority(())),
        ("votes", Weighted({})),
        ("tie-breaker:a", TieBreaker((), "a")),
        ("monarch:b", Monarch("b")),
        ("dynamic", DynamicVoting(1)),
        ("dynamic:3", DynamicVoting(3)),
    ],
)
def test_each_kind(text: str, rule: Rule) -> None:
    assert rule_of((text,)) == rule
    assert rule_of((text, "majority")) == AllOf((rule, Majority(())))
    assert rule_of((text, "majority"), "any") == AnyOf((rule, Majority(())))


@pytest.mark.parametrize("text", ["", "majority:a", "monarch", "tie-breaker:", "dynamic:0", "dynamic:x", "dictator:a"])
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(InputError, match="no rule is written"):
        rule_of((text,))


@pytest.mark.parametrize("words", [[], ["--votes", "a"], ["--votes", "=1"], ["--votes", "a=-1"], ["--rule", "x"]])
def test_wrong_usage(words: list[str]) -> None:
    done = CliRunner().invoke(commands, ["replica", "rule", "--address", "127.0.0.1:1", *words])
    assert done.exit_code == 2 or isinstance(done.exception, InputError)

"""Patterns of names: one language for access lists, limits and listings."""

from __future__ import annotations

from isotone.core.patterns import ByPattern, Patterns


def test_patterns_know_only_the_star() -> None:
    patterns = Patterns(["chat*", "[a]", "a.c", "chat[1]", "b?"])
    for name in ("chat", "chat-9", "[a]", "a.c", "chat[1]", "b?"):
        assert patterns.match(name)
    for name in ("a", "abc", "my chat", "bc", "1chat"):
        assert not patterns.match(name)
    assert not Patterns(["chat[1]"]).match("chat1") and Patterns(["a*c*"]).match("a\nc")
    assert not Patterns([]).match("x") and Patterns(["*"]).match("")


def test_the_first_pattern_that_fits_decides() -> None:
    rules = ByPattern([("a*", 1), ("ab", 2), ("chat[1]", 3)])
    assert (rules["ab"], rules["chat[1]"], rules.get("chat1", 0)) == (1, 3, 0)
    assert "b" not in rules and 5 not in rules and len(rules) == 3 and list(rules) == ["a*", "ab", "chat[1]"]
    same = ByPattern([("a*", 1), ("ab", 2), ("chat[1]", 3)])
    assert rules == same != ByPattern([("a*", 1)]) and len({rules, same}) == 1
    for number in range(10_000):
        assert f"a{number}" in rules
    assert not ByPattern([])

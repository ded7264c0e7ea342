"""Mechanical mutations: what is changed, and what is left alone."""

from __future__ import annotations

from pathlib import Path

from mutation_sites import mutations_of

SOURCE = '''"""A module with 3 < 4 in its docstring."""

LIMIT = 7


def f(a: int, b: int) -> bool:
    """Compares 1 and 2."""
    assert a < 10
    if a < b and not b:
        return True
    raise ValueError(f"{a + 1}")
'''


def found() -> dict[str, str]:
    return {each.before: each.after for each in mutations_of(SOURCE, Path("m.py"))}


def test_comparisons_guards_and_constants_inside_functions_are_changed() -> None:
    assert found() == {
        "a < b": "(a <= b)",
        "a < b and not b": "(a < b or not b)",
        "not b": "(b)",
        "True": "(False)",
    }


def test_a_mutation_changes_its_place_and_nothing_else() -> None:
    for each in mutations_of(SOURCE, Path("m.py")):
        mutated = each.apply(SOURCE)
        compile(mutated, "m.py", "exec")
        differing = [
            place for place, pair in enumerate(zip(SOURCE.splitlines(), mutated.splitlines())) if len({*pair}) > 1
        ]
        assert differing == [each.line - 1]


def test_text_beyond_ascii_does_not_shift_the_place() -> None:
    source = 'def f(a: int) -> bool:\n    é = "ü"; return a > 1\n'
    after = {each.apply(source).splitlines()[1] for each in mutations_of(source, Path("m.py"))}
    assert '    é = "ü"; return (a >= 1)' in after


def test_names_do_not_change_with_lines_and_equal_ones_are_numbered() -> None:
    source = "class C:\n    def f(self, a: int) -> bool:\n        return a > 1 or a < 1\n"
    names = [each.name for each in mutations_of(source, Path("m.py")) if each.before == "1"]
    assert names == ["m.py C.f: 1 -> (2)", "m.py C.f: 1 -> (2) (2)"]
    assert [each.name for each in mutations_of("\n" + source, Path("m.py")) if each.before == "1"] == names


def test_what_is_folded_away_counts_as_the_whole_function() -> None:
    source = "def f() -> object:\n    return (\n        1,\n        2,\n    )\n"
    assert {each.lines for each in mutations_of(source, Path("m.py"))} == {(2, 3, 4, 5)}

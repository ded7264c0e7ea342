"""On which line a key stands, in every form that TOML has for keys."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.daemon.settings.places import Path, Places


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Every key and element of a parsed document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from paths(inner, (*path, place))


CASES: list[tuple[str, Path, int]] = [
    ("a = 1\nb = 2", ("b",), 2),
    ("# a = 1\n\n  a = 1", ("a",), 3),
    ("[t]\na = 1", ("t", "a"), 2),
    ("[t]\na = 1", ("t",), 1),
    ("[ t . u ]\na = 1", ("t", "u", "a"), 2),
    ("[[t]]\na = 1\n[[t]]\na = 2", ("t", 1, "a"), 4),
    ("[[t]]\na = 1\n[[t]]\na = 2", ("t", 1), 3),
    ("[[t]]\n[[t]]\n[t.u]\na = 1", ("t", 1, "u", "a"), 4),
    ("[[t]]\n[[t.u]]\na = 1\n[[t.u]]\na = 2\n[[t]]\n[[t.u]]\na = 3", ("t", 1, "u", 0, "a"), 8),
    ("[[t]]\n[[t.u]]\na = 1\n[[t.u]]\na = 2", ("t", 0, "u", 1, "a"), 5),
    ("a.b.c = 1\na.b.d = 2", ("a", "b", "d"), 2),
    ("a.b.c = 1\na.b.d = 2", ("a", "b"), 1),
    ("\"a b\".'c.d' = 1", ("a b", "c.d"), 1),
    ('"a\\"]\\u0041" = 1\n"x#y" = 2', ('a"]A',), 1),
    ('"a\\"]" = 1\n"x#y" = 2', ("x#y",), 2),
    ('["a]b"]\nc = 1', ("a]b", "c"), 2),
    ("a = { b = 1, c = { d = 2 } }\ne = 3", ("a", "c", "d"), 1),
    ("a = { b = 1, c = { d = 2 } }\ne = 3", ("e",), 2),
    ("a = [\n  1,\n  2, # two\n  3\n]\nb = 4", ("a", 2), 4),
    ("a = [\n  1,\n  2, # two\n  3\n]\nb = 4", ("b",), 6),
    ("a = [ # ]\n  [1],\n  [2, 3],\n]", ("a", 1, 1), 3),
    ('a = [\n { b = "]" },\n { b = "}" },\n]\nc = 1', ("a", 1, "b"), 3),
    ('a = "x = 1 # [t]"\nb = 2', ("b",), 2),
    ("a = 'C:\\'\nb = 2", ("b",), 2),
    ('a = """one\ntwo = "quoted" \\"""\nthree"""\nb = 2', ("b",), 4),
    ('a = """one""""\nb = 2', ("b",), 2),
    ("a = '''one\n'two'\n'''\nb = 2", ("b",), 4),
    ("a = 1979-05-27 07:32:00Z\nb = 2", ("b",), 2),
    ("a = -1.5e3 # b = 1\nb = inf", ("b",), 2),
    ("a = []\nb = {}\nc = 1", ("c",), 3),
    ("[t]\n[t.u]\na = 1\n[v]\na = 1", ("v", "a"), 5),
]


@pytest.mark.parametrize(("text", "path", "line"), CASES)
def test_the_line_of_a_key(text: str, path: Path, line: int) -> None:
    places = Places(text)
    assert path in places and places.line(path) == line
    assert all(each in places for each in paths(tomllib.loads(text)))


def test_what_is_not_there_has_the_line_of_the_table_around_it() -> None:
    places = Places("[t]\na = 1\n[[u]]\nb = 2\n[[u]]\nc = 3")
    assert places.line(("t", "missing")) == 1
    assert places.line(("u", 1, "missing")) == 5
    assert places.line(("nowhere",)) == 1
    assert ("nowhere",) not in places


def test_a_long_file_is_read_once() -> None:
    text = "".join(f"[[t]]\nname = 'n{number}'\n" for number in range(3_000))
    assert Places(text).line(("t", 2_999, "name")) == 6_000


# --- against the parser --------------------------------------------------------------------------------------------

KEYS = st.one_of(
    st.from_regex(r"\A[A-Za-z0-9_-]{1,6}\Z"),
    st.text(alphabet="ab .#[]{}='", min_size=1, max_size=4).map(lambda text: '"' + text + '"'),
)
SCALARS = st.sampled_from(
    ["1", "true", "0.5", '"x"', '"#]}"', "'[{'", '"""a\n#b\n"""', "1979-05-27", "'''\n}'''", '"\\""']
)


def arrays(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    ends = st.sampled_from([", ", ",\n  ", " ,  # ],}\n", ","])
    return st.tuples(st.lists(inner, max_size=3), ends).map(lambda each: "[" + each[1].join(each[0]) + "]")


def inline_tables(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(KEYS, inner), max_size=3, unique_by=lambda pair: pair[0].strip('"'))
    return pairs.map(lambda each: "{ " + ", ".join(f"{key} = {value}" for key, value in each) + " }")


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(arrays(inner), inline_tables(inner)), max_leaves=6)
HEADERS = st.tuples(st.sampled_from(["[{}]", "[[{}]]", "[ {} ] # x"]), st.lists(KEYS, min_size=1, max_size=3))
LINES = st.one_of(
    HEADERS.map(lambda each: each[0].format(" . ".join(each[1]))),
    st.tuples(st.lists(KEYS, min_size=1, max_size=2), VALUES).map(lambda each: f"{'.'.join(each[0])} = {each[1]}"),
    st.sampled_from(["", "# comment = [", "   "]),
)


def valid(lines: list[str]) -> str:
    """All lines that can be added without making the document wrong."""
    text = ""
    for line in lines:
        longer = f"{text}{line}\n"
        try:
            tomllib.loads(longer)
        except tomllib.TOMLDecodeError:
            continue
        text = longer
    return text


@given(st.lists(LINES, max_size=12))
def test_every_key_that_the_parser_finds_has_a_line_that_names_it(lines: list[str]) -> None:
    text = valid(lines)
    places, written = Places(text), text.split("\n")
    for path in paths(tomllib.loads(text)):
        assert path in places, (path, text)
        if isinstance(path[-1], str):
            assert path[-1] in written[places.line(path) - 1], (path, text)


def test_dedented_text_as_people_write_it() -> None:
    text = dedent("""
        [cluster]
        seeds = [
            "a:1",   # the first
            "b:2",
        ]
        [[daemon]]
        name = "d1"
        """)
    places = Places(text)
    assert [places.line(("cluster", "seeds", place)) for place in (0, 1)] == [4, 5]
    assert places.line(("daemon", 0, "name")) == 8

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from isotone.trace.layout import PartHeader, header_of_path, part_path, parts_of, stale_files, temporary_path

odd_names = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@given(odd_names, odd_names, st.integers(0, 2**40), st.integers(0, 2_000_000))
@example("..", "", 0, 0)
@example("a/b", "d-1-2", 3, 4)
@example("%", "%41", 1, 1)
@example(".hidden", ".hidden", 1, 1)
def test_the_name_of_a_file_tells_its_part(run: str, node: str, incarnation: int, part: int) -> None:
    base = Path("base")
    path = part_path(base, PartHeader(run, node, incarnation, part, "full"), ".spool")
    assert path.parent.parent == base and not path.name.startswith(".") and not path.parent.name.startswith(".")
    assert header_of_path(path) == PartHeader(run, node, incarnation, part, level="")


def test_ordinary_names_stay_as_they_are() -> None:
    path = part_path(Path("t"), PartHeader("2024-run", "d1", 3, 7, "full"), ".parquet")
    assert path == Path("t/2024-run/d1-3-000007.parquet")


def test_other_names_tell_nothing() -> None:
    assert header_of_path(Path("t/notes.spool")) is None
    assert header_of_path(Path("t/a-b-c.spool")) is None


def test_files_of_one_record_only(tmp_path: Path) -> None:
    run = tmp_path / "r"
    run.mkdir()
    mine = ["d1-1-000000.parquet", "d1-1-000000.spool", "d1-1-000001.spool"]
    for name in [*mine, "d1-1-1-000000.spool", "d1-10-000000.spool", "d1-2-000000.spool", "notes.txt"]:
        (run / name).touch()
    assert [path.name for path in parts_of(tmp_path, "r", "d1", 1)] == mine
    assert parts_of(tmp_path, "nowhere", "d1", 1) == []
    for name in ("d1-1-000000.parquet", "d1-1-1-000000.parquet"):
        temporary_path(run / name).touch()
    assert [path.name for path in stale_files(tmp_path, "r", "d1")] == [".d1-1-000000.parquet.tmp"]

"""Starting is quick: what `import isotone`, `isotone --help` and a program's first view cost the processor.

`results/startup.txt` has the times. On its machine a bare interpreter takes 9 ms, so the 50 ms of an import are 5.5 of
them, and the half second of the help 55.
"""

from __future__ import annotations

from tests.startup import FIRST_VIEW, in_interpreters


def test_an_import_is_quick() -> None:
    assert in_interpreters("-c", "import isotone") < 5.5


def test_the_help_is_quick() -> None:
    assert in_interpreters("-m", "isotone.cli", "--help") < 55


def test_a_program_comes_to_its_first_view_quickly() -> None:
    """With a daemon of its own inside of it: a second on the machine of the results."""
    assert in_interpreters("-c", FIRST_VIEW) < 110

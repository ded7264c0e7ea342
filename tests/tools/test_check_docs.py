"""What the checker of the documentation notices, and what it lets pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_docs

GOOD = """\
# A title

[here](#a-title) [there](docs/other.md#second-1) [away](https://example.org/x) `[code](no/such)`

```python
await asyncio.sleep(0)
```

```
[not](a/link)
```
"""


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Second\n\n## Second\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "bad.md").write_text("[x](nothing)\n")
    return tmp_path


def test_good_documents_pass(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "README.md").write_text(GOOD)
    assert check_docs.main() == 0
    assert capsys.readouterr().out == "2 documents, 0 complaints\n"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[x](missing.md)", "README.md:1: missing.md: no such file"),
        ("[x](docs/other.md#third)", "no such heading"),
        ("[x](/docs/other.md)", "an absolute path"),
        ("[x](../outside.md)", "leads out of the repository"),
        ("[x]: missing.md", "no such file"),
        ("```python\n\nx = (\n```", "README.md:3: example does not compile"),
    ],
)
def test_what_is_broken_is_told_with_its_line(
    root: Path, capsys: pytest.CaptureFixture[str], line: str, complaint: str
) -> None:
    (root / "README.md").write_text(f"{line}\n")
    assert check_docs.main() == 1
    assert complaint in capsys.readouterr().out

"""What the look at pages in a browser finds: a page that does all that a page must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import looks_at

BAD = """<!doctype html><title>bad</title><meta name="viewport" content="width=device-width">
<img src="http://example.com/far.png"><div style="width:900px">wide</div>
<table style="table-layout:fixed;width:50px"><tr><td>spilling<td>cell</table>
<script>console.error("oh"); const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.title = dark; undefined.boom</script>"""


def test_a_page_with_everything_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(BAD)
    looks = looks_at((tmp_path / "bad.html").as_uri(), "bad")
    titles = [look.html.partition("<title>")[2].partition("<")[0] for look in looks]
    assert titles == ["false", "true", "false", "true"]
    for look in looks:
        assert look.strangers == ["http://example.com/far.png"]
        assert "spilling" in look.spilling
        assert "oh" in look.complaints and any("boom" in each for each in look.complaints)
        with pytest.raises(AssertionError, match="oh"):
            look.check()
    assert [look.page_width > look.width for look in looks] == [False, False, True, True]

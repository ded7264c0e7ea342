"""The documentation site: it builds without a warning, loads nothing from elsewhere, and a browser shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import looks_at

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Built and served."""
    out = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(ROOT / "tools" / "build_site.py"), "--out", str(out), "--serve", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=out.parent) as running:
        assert running.stdout is not None
        try:
            built, address = running.stdout.readline(), running.stdout.readline().strip()
            assert "the site is at" in built, "mkdocs had a complaint"
            yield out, address
        finally:
            running.terminate()


def test_every_page_is_there_and_asks_nobody_else(site: tuple[Path, str]) -> None:
    out, _ = site
    for page in ROOT.glob("docs/**/*.md"):
        if page.name != "README.md":
            assert (out / page.relative_to(ROOT).with_suffix(".html")).is_file(), page
    for page in out.rglob("*.html"):
        loaded = re.findall(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']([^"']+)""", page.read_text())
        assert not [each for each in loaded if each.startswith(("http", "//"))], page


def test_the_search_knows_the_pages(site: tuple[Path, str]) -> None:
    found = json.loads((site[0] / "search" / "search_index.json").read_text())["docs"]
    assert any("quickstart" in each["location"] and "partition" in each["text"] for each in found)


def test_the_reference_has_every_public_name(site: tuple[Path, str]) -> None:
    import isotone

    text = (site[0] / "reference.html").read_text()
    for name in isotone.__all__:
        if callable(getattr(isotone, name)) and not name.isupper():
            assert f"isotone.{name}<" in text, name
    for name in ("client.blocking.connect", "client.errors.NotSent", "replicated.errors.Rejected", "testing.seeds"):
        assert f"isotone.{name}<" in text, name


@pytest.mark.parametrize("page", ["index", "docs/guide/quickstart"])
def test_a_browser_shows_it_without_complaint(site: tuple[Path, str], page: str) -> None:
    for look in looks_at(f"{site[1]}{page}.html", f"site-{Path(page).name}"):
        look.check()
        scheme = "slate" if look.scheme == "dark" else "default"
        assert re.search(rf'<body[^>]* data-md-color-scheme="{scheme}"', look.html), "dark where the browser is dark"
        assert 'class="k"' in look.html, "programs have colours"
        assert 'data-md-component="search-query"' in look.html


SEARCH = """(window.begun ??= (() => {
    const box = document.querySelector("[data-md-component=search-query]");
    box.focus(); box.value = "transitional"; box.dispatchEvent(new Event("input", {bubbles: true}));
    return box.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
})()) && document.querySelectorAll(".md-search-result__item").length > 3"""


def test_it_is_searched_from_the_disk_too(site: tuple[Path, str]) -> None:
    page = (site[0] / "index.html").as_uri()
    (look,) = looks_at(page, "site-from-disk", until=SEARCH, widths=[1280], schemes=["light"])
    look.check()
    assert "guide/services.html" in look.html

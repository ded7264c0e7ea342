"""The page at the administration port: in a real browser, against real daemons."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

from tests.browser import looks_at
from tests.cli.running import Running

ROOT = Path(__file__).parents[2]


def test_the_page_asks_nobody_else_and_needs_no_credential(cluster: Running) -> None:
    with urlopen(f"http://{cluster.admin('d1')}/", timeout=30) as answer:
        page, headers = answer.read().decode(), answer.headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "src=" not in page.replace("default-src", "") and "http" not in page and "innerHTML" not in page


def test_a_browser_shows_who_is_there(cluster: Running) -> None:
    for look in looks_at(f"http://{cluster.admin('d1')}/", "admin-page", "document.title === 'd1: ready'"):
        look.check()
        assert ", sees d1, d2, d3" in look.html
        assert ">d2</td>" in look.html and ">d3</td>" in look.html

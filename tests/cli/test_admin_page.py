"""The page at the administration port: in a real browser, against real daemons."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.running import Running

ROOT = Path(__file__).parents[2]
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


def test_the_page_asks_nobody_else_and_needs_no_credential(cluster: Running) -> None:
    with urlopen(f"http://{cluster.admin('d1')}/", timeout=30) as answer:
        page, headers = answer.read().decode(), answer.headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "src=" not in page.replace("default-src", "") and "http" not in page and "innerHTML" not in page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_who_is_there(cluster: Running, tmp_path: Path, width: int) -> None:
    assert CHROMIUM is not None
    place = Path(os.environ.get("ISOTONE_ARTEFACTS", ROOT / "build" / "artefacts"))
    place.mkdir(parents=True, exist_ok=True)
    shot = place / f"admin-page-{width}.png"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
               "--v=0", "--disable-background-networking", "--disable-component-update", "--disable-sync",
               "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
               "--virtual-time-budget=3000", f"--screenshot={shot}", "--dump-dom",
               f"http://{cluster.admin('d1')}/"]  # fmt: skip
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "CONSOLE" not in told.stderr, told.stderr
    assert "<title>d1: ready</title>" in told.stdout
    assert ", sees d1, d2, d3" in told.stdout
    assert ">d2</td>" in told.stdout and ">d3</td>" in told.stdout
    assert shot.stat().st_size > 5_000

"""Pages in a real browser, at two widths, light and dark: console, requests to others, what is cut off.

Chromium is driven over its pipe, one JSON object after another (the DevTools protocol). It reaches nobody but this
machine: everything else goes to a proxy that is not there.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ARTEFACTS = Path(os.environ.get("ISOTONE_ARTEFACTS", ROOT / "build" / "artefacts"))
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")
HEIGHT, HEIGHT_MAX = 900, 6_000
WITHIN_S = 240.0
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
    "--proxy-server=127.0.0.1:1",  # this machine itself is asked without it
)
SPILLING = """[...document.querySelectorAll("td, th")].filter(cell => cell.scrollWidth > cell.clientWidth + 1)
    .map(cell => cell.textContent)"""
OWN = ("http://127.0.0.1:", "http://localhost:", "file:", "data:", "blob:", "about:")


@dataclass
class Look:
    """One page as it was shown once."""

    width: int
    scheme: str
    html: str = ""
    complaints: list[str] = field(default_factory=list)
    """What it wrote to the console, and errors."""
    strangers: list[str] = field(default_factory=list)
    """Requests that lead out of this machine."""
    page_width: int = 0
    """More than `width` if something is cut off, or has to be reached by moving the whole page."""

    spilling: list[str] = field(default_factory=list)
    """Cells of tables that stand over their neighbours."""

    def check(self) -> None:
        """Nothing is wrong with it."""
        at = f"{self.width} pixels, {self.scheme}"
        assert not self.complaints, f"{at}: {self.complaints}"
        assert not self.strangers, f"{at}: asks elsewhere: {self.strangers}"
        assert self.page_width <= self.width, f"{at}: it is {self.page_width} wide"
        assert not self.spilling, f"{at}: cells that have too little room: {self.spilling}"


def looks_at(
    url: str,
    name: str,
    until: str = "true",
    *,
    widths: Sequence[int] = WIDTHS,
    schemes: Sequence[str] = SCHEMES,
) -> list[Look]:
    """Open a page at both widths, light and dark, each time until the expression holds; pictures go to `ARTEFACTS`."""
    if CHROMIUM is None:
        why_not = os.environ.get("ISOTONE_NO_BROWSER", "")
        if os.environ.get("CI") == "true" and not why_not:
            pytest.fail("no Chromium is installed, and nothing says that it cannot be")
        pytest.skip(f"no Chromium is installed{f': {why_not}' if why_not else ''}")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    with _running() as browser:
        return [
            _look(browser, url, Look(width, scheme), until, ARTEFACTS / f"{name}-{width}-{scheme}.png")
            for width in widths
            for scheme in schemes
        ]


def _look(browser: _Browser, url: str, look: Look, until: str, picture: Path) -> Look:
    visitor = browser.ask("Target.createBrowserContext")["browserContextId"]  # who was never here before
    target = browser.ask("Target.createTarget", url="about:blank", browserContextId=visitor)["targetId"]
    session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.session, browser.heard = session, []
    for domain in ("Page", "Network", "Runtime", "Log"):
        browser.ask(f"{domain}.enable")
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": look.scheme}])
    browser.resize(look.width, HEIGHT)
    browser.ask("Page.navigate", url=url)
    browser.wait_for("Page.loadEventFired")
    waiting = f"new Promise(done => {{ const look = () => ({until}) ? done(1) : setTimeout(look, 50); look() }})"
    browser.ask("Runtime.evaluate", expression=waiting, awaitPromise=True)
    look.html = browser.value("document.documentElement.outerHTML")
    look.spilling = browser.value(SPILLING)
    look.page_width = int(browser.value("Math.ceil(document.scrollingElement.scrollWidth)"))
    browser.resize(
        look.width, min(HEIGHT_MAX, max(HEIGHT, int(browser.value("document.scrollingElement.scrollHeight"))))
    )
    picture.write_bytes(base64.b64decode(browser.ask("Page.captureScreenshot")["data"]))
    browser.session = ""
    browser.ask("Target.disposeBrowserContext", browserContextId=visitor)
    for event in browser.heard:
        _judge(event["method"], event["params"], look)
    return look


def _judge(method: str, params: dict[str, Any], look: Look) -> None:
    if method == "Runtime.consoleAPICalled":
        look.complaints.append(" ".join(str(each.get("value", each.get("description"))) for each in params["args"]))
    elif method == "Runtime.exceptionThrown":
        look.complaints.append(json.dumps(params["exceptionDetails"]))
    elif method == "Log.entryAdded":
        look.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
    elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(OWN):
        look.strangers.append(params["request"]["url"])


class _Browser:
    """A Chromium that runs, seen from its pipe."""

    def __init__(self, commands: int, answers: int) -> None:
        self.session = ""
        self.heard: list[dict[str, Any]] = []
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._count = 0
        self._deadline = time.monotonic() + WITHIN_S

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        self._count += 1
        message: dict[str, object] = {"id": self._count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "result" in answer, f"{method}: {answer}"
                return dict(answer["result"])

    def wait_for(self, method: str) -> None:
        while not any(event["method"] == method for event in self.heard):
            self._next()

    def value(self, expression: str) -> Any:
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def resize(self, width: int, height: int) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = self._deadline - time.monotonic()
            assert left > 0 and select.select([self._answers], [], [], left)[0], "the browser does not answer"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.heard.append(message)
        return message


@contextmanager
def _running() -> Iterator[_Browser]:
    assert CHROMIUM is not None
    command_end, commands = os.pipe()
    answers, answer_end = os.pipe()
    profile = ARTEFACTS / f"profile-{os.getpid()}"
    connected = f'exec "$0" "$@" 3<&{command_end} 4>&{answer_end}'  # the numbers that it knows
    command = ["bash", "-c", connected, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"]
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(command, stdout=quiet, stderr=quiet, pass_fds=(command_end, answer_end))
    os.close(command_end)
    os.close(answer_end)
    try:
        browser = _Browser(commands, answers)
        yield browser
        browser.ask("Browser.close")
    finally:
        os.close(commands)
        os.close(answers)
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        shutil.rmtree(profile, ignore_errors=True)

"""Logs: their two forms, and the reason of every state change."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from isotone.core.boundary import Ask, Connected, Indicated
from isotone.core.contract import Address, StreamOpened, StreamReceived
from isotone.core.errors import InputError
from isotone.daemon.admin.change_log import ChangeLog, Refusals
from isotone.daemon.admin.logs import configure_logs, set_level
from isotone.evs.sessions.frames import control_frame
from isotone.evs.sessions.messages import Hello, client_codec
from tests.daemon.admin.fake_node import Inn


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger("isotone")
    kept = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = kept


def written(form: str, daemon: str = "d1") -> str:
    stream = io.StringIO()
    configure_logs(form, "info", stream=stream, daemon=daemon)
    log = logging.getLogger("isotone.test")
    log.debug("not told")
    log.info("a view\nworks", extra={"fields": {"view": "7!d1#3", "why": "two words", "forged": "x\nlevel=error"}})
    return stream.getvalue()


def test_text_is_one_line_with_fields_that_cannot_forge_another() -> None:
    text = written("text")
    assert text.count("\n") == 1
    assert text.endswith('info    d1 a view works view=7!d1#3 why="two words" forged="x\\nlevel=error"\n')


def test_json_is_one_object_a_line() -> None:
    text = written("json")
    assert text.count("\n") == 1
    said = json.loads(text)
    assert (said["level"], said["logger"], said["daemon"], said["view"]) == ("info", "isotone.test", "d1", "7!d1#3")
    assert said["time"].endswith("Z")


def test_an_exception_is_told() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        configure_logs(form, "info", stream=stream)
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("isotone.test").exception("it failed")
        assert "ValueError: broken" in stream.getvalue()


def test_forms_and_levels_are_checked() -> None:
    for wrong in (("xml", "info"), ("text", "loud")):
        with pytest.raises(InputError):
            configure_logs(*wrong)
    with pytest.raises(InputError):
        set_level("loud")


# --- changes -------------------------------------------------------------------------------------------------------


class Watched:
    """A house in which one daemon is watched after every step."""

    def __init__(self, sites: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
        self.house, self.name, self.caplog = Inn(sites), name, caplog
        self.log: ChangeLog | None = None
        caplog.set_level(logging.DEBUG, "isotone.state")
        logging.getLogger("isotone").propagate = True

    def run(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 2):
            self.house.run(2)
            if self.log is None:
                self.log = ChangeLog(self.house.stack(self.name))
            self.log.look(self.house.now(self.name))

    def said(self, sentence: str) -> list[dict[str, object]]:
        return [vars(each)["fields"] for each in self.caplog.records if each.message == sentence]


def test_every_state_of_the_membership_comes_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("ab", "a", caplog)
    for name in "ab":
        watched.house.world.restart(name)
    watched.run(3_000)
    entered = [(each["state"], each["because"]) for each in watched.said("membership enters")]
    assert entered[-1] == ("OP", "a daemon view was installed")
    works = watched.said("a daemon view works")
    assert works[-1]["members"] == "a,b" and works[-1]["daemons"] == 2
    node = watched.house.stack("a").membership.node
    assert entered == [(each.state.name, each.reason.value) for each in node.entered], "all, in their order"
    assert len(entered) == node.entries.total()


def test_a_silent_daemon_is_told_with_the_evidence_and_why_it_is_out(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("a b", "a", caplog)
    for name in "ab":
        watched.house.world.restart(name)
    watched.run(3_000)
    watched.house.world.partition("a", "b")
    watched.run(8_000)
    assert "silence" in str(watched.said("a daemon is suspected")[0]["evidence"])
    assert watched.said("the daemon view is over")[-1]["culprit"] == "b"
    out = watched.said("a daemon is not in the daemon view")[-1]
    assert (out["daemon"], out["ruling"]) == ("b", "suspected")
    watched.house.world.heal()
    watched.run(8_000)
    assert watched.said("a daemon is not suspected any more") == [{"daemon": "b"}]
    assert {"daemon": "b"} in watched.said("a daemon came into the daemon view")


def test_a_session_that_had_to_end_is_told_with_client_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("a", "a", caplog)
    watched.house.world.restart("a")
    watched.run(2_000)
    sessions, at = watched.house.stack("a").sessions, watched.house.now("a")
    assert sessions is not None
    hello = client_codec.encode(Hello(name="alice", credential=b"", attempt=bytes(16)))
    sessions.handle(StreamOpened(at, -1, Address("192.0.2.1:7"), accepted=True))
    asked = sessions.handle(StreamReceived(at, -1, b"ISOC\x01\x01\0\0" + control_frame(hello)))
    (client,) = [each.client for each in asked if isinstance(each, Ask)]
    sessions.handle(Indicated(at, (client,), Connected()))
    sessions.handle(StreamReceived(at, -1, b"\xff" * 8))
    watched.run(2_000)
    (ended,) = watched.said("a session ended")
    assert (ended["client"], ended["code"]) == (str(client), "protocol") and ended["reason"]


def test_nothing_is_said_when_nothing_changes(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("ab", "a", caplog)
    for name in "ab":
        watched.house.world.restart(name)
    watched.run(4_000)
    caplog.clear()
    watched.run(4_000)
    assert not caplog.records


def test_refusals_are_logged_once_for_each_peer_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "isotone.state")
    logging.getLogger("isotone").propagate = True
    refusals = Refusals()
    for _ in range(5):
        for peer in ("10.0.0.1", "10.0.0.2"):
            refusals.tell(peer, "wrong key")
    refusals.tell("10.0.0.1", "replayed")
    assert len(caplog.records) == 3
    assert refusals.suppressed == 8

"""The audit log: appended, complete, private."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isotone.core.errors import MachineError
from isotone.daemon.security.audit import AuditLog


def test_acts_are_appended_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    log = AuditLog(path, clock=lambda: 0.0)
    log.record("operator", "faults", peer="127.0.0.1", rule={"cut": "d2"})
    AuditLog(path, clock=lambda: 1.5).record("bob\n", "reload", outcome="refused")
    first, second = path.read_text().splitlines()
    assert json.loads(first) == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "principal": "operator",
        "act": "faults",
        "outcome": "done",
        "peer": "127.0.0.1",
        "rule": {"cut": "d2"},
    }
    assert json.loads(second)["principal"] == "bob\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_recorded_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    with pytest.raises(MachineError, match="audit"):
        AuditLog(tmp_path / "audit").record("operator", "stop")

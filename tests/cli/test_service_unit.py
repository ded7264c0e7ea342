"""ops/isotone@.service: the unit says what the daemon does."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from isotone.cli.main import commands

ROOT = Path(__file__).resolve().parents[2]
UNIT = (ROOT / "ops" / "isotone@.service").read_text(encoding="utf-8")


def value(key: str) -> str:
    found = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    assert found, key
    return str(found[0])


def test_a_command_prints_it_and_the_alerts() -> None:
    runner = CliRunner()
    assert runner.invoke(commands, ["daemon", "ops", "unit"]).stdout == UNIT
    alerts = runner.invoke(commands, ["daemon", "ops", "alerts", "--path"]).stdout.strip()
    assert Path(alerts) == ROOT / "ops" / "alerts.yml"
    assert runner.invoke(commands, ["daemon", "ops", "nonsense"]).exit_code == 2


def test_readiness_watchdog_reload_and_stop_are_the_daemons_own() -> None:
    assert value("Type") == "notify"
    assert int(value("WatchdogSec")) > 0
    assert "-HUP" in value("ExecReload")
    assert value("RestartPreventExitStatus") == "2"


def test_its_commands_exist() -> None:
    words = value("ExecStart").split()
    assert words[:3] == ["/usr/bin/env", "isotone", "daemon"]
    assert CliRunner().invoke(commands, [*words[2:4], "--help"]).exit_code == 0


def test_wrong_settings_end_the_main_process_with_the_code_that_is_not_tried_again(tmp_path: Path) -> None:
    """A check before the start would not do: what its code is does not matter to systemd."""
    assert "ExecStartPre=" not in UNIT
    (tmp_path / "isotone.toml").write_text("[cluster]\ncolour = 1\n", encoding="utf-8")
    result = CliRunner().invoke(commands, ["daemon", "run", str(tmp_path / "isotone.toml"), "--name", "d1"])
    assert str(result.exit_code) == value("RestartPreventExitStatus")


def test_it_is_hardened() -> None:
    for key in (
        "NoNewPrivileges",
        "ProtectSystem",
        "ProtectHome",
        "PrivateDevices",
        "RestrictNamespaces",
    ):
        assert value(key) in ("yes", "strict")
    assert (value("PrivateTmp"), value("ReadWritePaths")) == ("no", "/tmp"), "Spread's clients find /tmp/PORT"
    assert value("User") != "root"
    assert value("CapabilityBoundingSet") == ""

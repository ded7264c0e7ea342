"""``isotone daemon check``, ``show``, ``convert`` and ``keygen``: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from isotone.cli.command_group import CommandGroup
from isotone.cli.daemon_settings import check_command, convert_command, keygen_command, show_command
from isotone.daemon.security.keys import Roster, parse_authority, parse_certificate, read_key
from isotone.daemon.settings import read
from isotone.daemon.settings.tables import DaemonSettings

GOOD = '[[daemon]]\nname = "d1"\nport = 5000\n'


@click.group(cls=CommandGroup)
def commands() -> None:
    """As ``isotone daemon`` mounts them."""


for command in (check_command, show_command, convert_command, keygen_command):
    commands.add_command(command)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(each) for each in arguments])


def answer(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.toml"
    path.write_text(GOOD + "prot = 1\n[limits]\nsesions_max = 2\n")
    return path


# --- check ---------------------------------------------------------------------------------------------------------


def test_good_settings_are_good(good: Path) -> None:
    result = run("check", good)
    assert (result.exit_code, result.stdout) == (0, f"{good}: good\n")
    assert answer("check", good) == {"file": str(good), "good": True, "problems": [], "warnings": []}


def test_everything_that_is_wrong_is_told(bad: Path) -> None:
    result = run("check", bad)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{bad}:4: daemon[0].prot: there is no such key; did you mean port?",
        f"{bad}:6: limits.sesions_max: there is no such key; did you mean sessions_max?",
        f"{bad}: 2 problems",
    ]
    found = answer("check", bad)
    assert not found["good"] and found["problems"][0] == {
        "file": str(bad),
        "line": 4,
        "key": "daemon[0].prot",
        "what": "there is no such key",
        "remedy": "did you mean port?",
    }
    assert run("check", bad, "--json").exit_code == 1


def test_warnings_are_problems_only_where_one_is_strict(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(GOOD + "[faults]\nenabled = true\n")
    result = run("check", path)
    assert result.exit_code == 0 and result.stdout.startswith(f"warning: {path}:5: faults.enabled: ")
    assert result.stdout.endswith(f"{path}: good, 1 warning\n")
    assert run("check", path, "--strict").exit_code == 1


def test_a_daemon_that_is_not_in_the_file_cannot_be_started(good: Path) -> None:
    assert run("check", good, "--name", "d1").exit_code == 0
    result = run("check", good, "--name", "d2")
    assert result.exit_code == 1 and "no [[daemon]] named d2" in result.stdout


NOT_HERE = "203.0.113.7"  # an address for documentation


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("daemon[0].address", f'address = "{NOT_HERE}"\n[security]\nmode = "open"'),
        ("daemon[0].listen", f'listen = "{NOT_HERE}"\n[security]\nmode = "open"'),
        ("daemon[0].client_listen", f'client_port = 5001\nclient_listen = "{NOT_HERE}"\n[security]\nmode = "open"'),
        ("daemon[0].interface", f'interface = "{NOT_HERE}"\n[[site]]\nname = "lan"\nmulticast = "239.192.0.1:5000"'),
        ("daemon[0].unix_socket", 'unix_socket = "TMP/missing/socket"'),
        ("daemon[0].unix_socket", 'unix_socket = "TMP/file"'),
        ("admin.listen", f'[admin]\nlisten = "{NOT_HERE}"'),
        ("spread.listen", f'[spread]\nenabled = true\nlisten = "{NOT_HERE}"'),
        ("spread.unix_socket", '[spread]\nenabled = true\nunix_socket = "TMP/missing/4803"'),
        ("cluster.state_directory", '[cluster]\nstate_directory = "TMP/file"'),
        ("trace.directory", '[trace]\ndirectory = "TMP/file/trace"'),
        ("security.audit_file", '[security]\naudit_file = "TMP/file/audit"'),
        ("security.credentials_file", '[security]\ncredentials_file = "TMP/missing"'),
        (
            "security.tls_certificate_file",
            'client_port = 5001\n[security]\ntls_certificate_file = "TMP/file"\ntls_key_file = "TMP/missing"',
        ),
    ],
)
def test_what_this_machine_does_not_have_is_told(tmp_path: Path, key: str, lines: str) -> None:
    (tmp_path / "file").write_text("no directory, no socket, no certificate")
    path, own = tmp_path / "isotone.toml", f'[cluster]\nstate_directory = "{tmp_path}/state"\n'
    trace = f'[trace]\ndirectory = "{tmp_path}/trace"\n'
    start = ("" if "[cluster]" in lines else own) + ("" if "[trace]" in lines else trace)
    path.write_text(start + GOOD + lines.replace("TMP", str(tmp_path)))
    assert run("check", path).exit_code == 0, "what is wrong is wrong on this machine alone"
    told = answer("check", path, "--name", "d1")
    assert [each["key"] for each in told["problems"]] == [key] and run("check", path, "--name", "d1").exit_code == 1
    path.write_text(own + trace + GOOD)
    assert answer("check", path, "--name", "d1")["good"]


def test_what_is_not_there_is_input_and_what_cannot_be_read_the_machine(tmp_path: Path) -> None:
    for name in ("check", "show", "convert"):
        result = run(name, tmp_path / "none.toml")
        assert result.exit_code == 2 and "there is no such file" in result.stderr
    for name in ("show", "convert"):
        assert run(name, tmp_path).exit_code in (2, 3)


# --- show ----------------------------------------------------------------------------------------------------------


def test_every_setting_is_shown_with_where_it_comes_from(good: Path) -> None:
    shown = answer("show", good)["settings"]
    assert shown["daemon[0].port"] == {"value": 5000, "line": 3, "from": "line 3"}
    assert shown["limits.sessions_max"] == {"value": 1024, "line": None, "from": "default"}
    assert shown["cluster.seeds"]["value"] == [] and shown["daemon[0].client_port"]["value"] is None
    assert not any(key.startswith("dev") for key in shown)
    for table in ("cluster", "timeouts", "trace", "spread", "faults", "admin"):
        assert all(f"{table}.{key}" in shown for key in getattr(DaemonSettings(), table).__struct_fields__)


def test_only_what_stands_in_the_file(good: Path) -> None:
    assert run("show", good, "--changed").stdout.splitlines() == [
        'daemon[0].name = "d1"  # line 2',
        "daemon[0].port = 5000  # line 3",
    ]


def test_wrong_settings_are_not_shown(bad: Path) -> None:
    result = run("show", bad)
    assert result.exit_code == 2 and "did you mean port?" in result.stderr and result.stdout == ""


# --- convert -------------------------------------------------------------------------------------------------------


@pytest.fixture
def spread(tmp_path: Path) -> Path:
    path = tmp_path / "spread.conf"
    path.write_text("Spread_Segment 239.0.0.1 { d1 10.0.0.1 }\nWindow = 3\n")
    return path


def test_a_conversion_goes_to_standard_output_or_a_new_file(spread: Path, tmp_path: Path) -> None:
    result = run("convert", spread, "--cluster", "west")
    assert result.exit_code == 0 and read(result.stdout).settings.cluster.name == "west"
    target = tmp_path / "new.toml"
    assert run("convert", spread, "--output", target).exit_code == 0
    assert run("check", target).exit_code == 0
    again = run("convert", spread, "--output", target)
    assert again.exit_code == 2 and "is there already" in again.stderr


def test_a_conversion_tells_what_it_left_out(spread: Path) -> None:
    found = answer("convert", spread)
    assert found["left_out"] == [{"line": 2, "what": "Window = 3", "why": "windows adapt by themselves"}]
    assert read(found["toml"]).settings.daemon


def test_what_is_no_spread_conf_is_input(good: Path, tmp_path: Path) -> None:
    assert run("convert", good).exit_code == 2
    odd = tmp_path / "odd.conf"
    odd.write_text("Spread_Segment 1.2.3.4 { 'a b' 1.2.3.5 }")
    result = run("convert", odd)
    assert result.exit_code == 1 and "daemon[0].name" in result.stderr


# --- keygen --------------------------------------------------------------------------------------------------------


def test_a_key_makes_three_lines_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "d1.key"
    lines = run("keygen", "d1", "--file", path).stdout.splitlines()
    pair = read_key(path)
    assert lines == [
        "[security]",
        'mode = "keys"',
        f'private_key_file = "{path}"',
        "# in the [[daemon]] named d1:",
        f'public_key = "{pair.text}"',
    ]
    settings = read(f"{GOOD}{lines[4]}\n{lines[0]}\n{lines[1]}\n{lines[2]}\n").settings
    assert settings.security.mode == "keys"
    assert path.stat().st_mode & 0o077 == 0


def test_a_key_is_never_written_over_and_never_printed(tmp_path: Path) -> None:
    path = tmp_path / "d1.key"
    first = run("keygen", "d1", "--file", path)
    private = path.read_text()
    again = run("keygen", "d1", "--file", path)
    assert again.exit_code == 2 and path.read_text() == private
    secret = next(line for line in private.splitlines() if not line.startswith("#")).partition(":")[2]
    assert secret not in first.output + again.output


def test_a_signed_key_needs_no_list(tmp_path: Path) -> None:
    authority, path = tmp_path / "authority.key", tmp_path / "d1.key"
    made = answer("keygen", "--new-authority", authority)
    found = answer("keygen", "d1", "--file", path, "--authority", authority, "--cluster", "west")
    assert found["security"]["authority"] == made["security"]["authority"]
    roster = Roster("west", {}, parse_authority(found["security"]["authority"]))
    certificate = parse_certificate(found["daemon"]["certificate"])
    assert roster.problem("d1", read_key(path).public, certificate) == ""
    assert roster.problem("d2", read_key(path).public, certificate) == "wrong certificate"


@pytest.mark.parametrize("arguments", [(), ("bad name",), ("a/b",), ("d1", "--authority", "none.key")])
def test_wrong_usage_makes_no_key(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("keygen", *arguments).exit_code == 2
    assert list(tmp_path.iterdir()) == []

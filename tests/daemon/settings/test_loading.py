"""Every error of a file names the file, the line, the key, what is wrong and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.errors import InputError, MachineError
from isotone.daemon.settings import DaemonSettings, SettingsError, load, load_in_full, read

ONE = '[[daemon]]\nname = "d1"\n'


def problems(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(text, "x.toml")
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_file_has_one_daemon_and_defaults_for_all_else() -> None:
    loaded = read(ONE)
    assert [daemon.name for daemon in loaded.settings.daemon] == ["d1"]
    assert loaded.settings.limits == DaemonSettings().limits
    assert loaded.written == {"daemon", "daemon[0].name"} and loaded.lines["daemon[0].name"] == 2


def test_an_unknown_key_is_an_error_with_the_nearest_known_one() -> None:
    assert problems(ONE + "prot = 1\n") == ["x.toml:3: daemon[0].prot: there is no such key; did you mean port?"]


def test_an_unknown_key_does_not_hide_what_else_is_wrong() -> None:
    assert problems(ONE + "prot = 1\nport = 99999\n") == [
        "x.toml:3: daemon[0].prot: there is no such key; did you mean port?",
        "x.toml:4: daemon[0].port: 99999 is no port; choose one of 1 to 65535",
    ]


def test_an_unknown_key_far_from_all_names_what_is_known() -> None:
    (said,) = problems(ONE + "[faults]\nzzz = 1\n")
    assert said == "x.toml:4: faults.zzz: there is no such key; known are: enabled"


def test_an_unknown_table_is_an_error() -> None:
    (said,) = problems(ONE + "[limit]\nsessions_max = 3\n")
    assert said == "x.toml:3: limit: there is no such key; did you mean limits?"


def test_the_mark_of_development_settings_is_not_for_files() -> None:
    (said,) = problems("dev = true\n" + ONE)
    assert said.startswith("x.toml:1: dev: there is no such key")


def test_all_problems_are_told_at_once_in_the_order_of_lines() -> None:
    text = '[limits]\nsessions_max = "many"\nslow_policy = "wait"\n[[daemon]]\nport = 4803\n[cluster]\nnam = "x"\n'
    assert problems(text) == [
        'x.toml:2: limits.sessions_max: a whole number is expected, not "many"; correct the value',
        'x.toml:3: limits.slow_policy: "wait" is not possible here; use "block" or "disconnect"',
        "x.toml:4: daemon[0]: name is missing; add name = …",
        "x.toml:7: cluster.nam: there is no such key; did you mean name?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster = 1", "x.toml:1: cluster: a table is expected, not 1; write [cluster] and its keys below"),
        ("[cluster]\nname = 1", 'x.toml:2: cluster.name: a text in quotes ("…") is expected, not 1; correct the value'),
        ("[faults]\nenabled = 1", "x.toml:2: faults.enabled: true or false is expected, not 1; correct the value"),
        ("[admin]\nport = true", "x.toml:2: admin.port: a whole number is expected, not true; correct the value"),
        ("[admin]\nport = 1.5", "x.toml:2: admin.port: a whole number is expected, not 1.5; correct the value"),
        ("[admin]\nport = {}", "x.toml:2: admin.port: a whole number is expected, not a table; correct the value"),
        ("[daemon]\nname = 'd'", "x.toml:1: daemon: a list is expected, not a table; write [[daemon]]"),
        ("daemon = [1]", "x.toml:1: daemon[0]: a table is expected, not 1; write [[daemon]] and its keys below"),
        ("[cluster]\nseeds = 'a:1'", 'x.toml:2: cluster.seeds: a list is expected, not "a:1"; use […]'),
        (
            "[cluster]\nseeds = [\n'a:1',\n2]",
            'x.toml:4: cluster.seeds[1]: a text in quotes ("…") is expected, not 2; correct the value',
        ),
        ("[[link]]\nbetween = ['a']", "x.toml:2: link[0].between: 2 values are expected, not 1; correct the list"),
        (
            "[trace]\nlevel = ['off']",
            'x.toml:2: trace.level: a list is not possible here; use "off" or "buffered" or "full"',
        ),
        (
            "[[daemon]]\nname = 'd'\nclient_port = 'x'",
            'x.toml:3: daemon[0].client_port: a whole number is expected, not "x"; correct the value',
        ),
    ],
)
def test_values_of_the_wrong_kind(text: str, said: str) -> None:
    assert problems(text)[0] == said


def test_broken_toml_is_told_with_its_line() -> None:
    (said,) = problems("[cluster]\nname = \n")
    assert said == "x.toml:2: Invalid value in column 8; correct the TOML there"
    (said,) = problems('[cluster]\nname = """never closed\n\n')
    assert said.startswith("x.toml:4: ") and "at the end of the file" in said


def test_a_key_that_is_there_twice_is_broken_toml() -> None:
    (said,) = problems("[cluster]\nname = 'a'\nname = 'b'\n")
    assert said.startswith("x.toml:3: Cannot overwrite a value")


def test_ends_of_lines_of_other_systems_count_the_same() -> None:
    assert problems((ONE + "prot = 1\n").replace("\n", "\r\n"))[0].startswith("x.toml:3: ")


def test_a_file_is_read_and_named(tmp_path: Path) -> None:
    path = tmp_path / "isotone.toml"
    path.write_text(ONE)
    assert load(path).daemon[0].name == "d1"
    assert load_in_full(path).file == str(path)


def test_a_file_that_is_not_there_has_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no such file; write one .* or use --dev"):
        load(tmp_path / "none.toml")


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"[cluster]\n\xff\n")
    with pytest.raises(SettingsError, match=r"x.toml:2: the file is not UTF-8; save it as UTF-8"):
        load(path)


def test_what_cannot_be_read_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be read"):
        load(tmp_path)

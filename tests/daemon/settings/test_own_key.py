"""The key on this machine against what the file says of it."""

from __future__ import annotations

from pathlib import Path

from isotone.daemon.security.keys import generate_authority, generate_key, pair_of, sign_key
from isotone.daemon.settings import DaemonSettings, read
from isotone.daemon.settings.own_key import key_problem

OTHER = pair_of(b"x" * 32)


def settings(directory: Path, daemon: str, security: str = "") -> DaemonSettings:
    text = f'[[daemon]]\nname = "d1"\n{daemon}\n[security]\nmode = "keys"\n'
    return read(f'{text}private_key_file = "{directory}/{{name}}.key"\n{security}\n').settings


def told(found: DaemonSettings) -> str:
    problem = key_problem(found, found.daemon[0])
    return "" if problem is None else f"{problem.path[-1]}: {problem.what}; {problem.remedy}"


def test_a_key_that_is_listed_is_good(tmp_path: Path) -> None:
    pair = generate_key(tmp_path / "d1.key")
    assert told(settings(tmp_path, f'public_key = "{pair.text}"')) == ""


def test_another_key_than_the_listed_one_is_told(tmp_path: Path) -> None:
    pair = generate_key(tmp_path / "d1.key")
    said = told(settings(tmp_path, f'public_key = "{OTHER.text}"'))
    assert said.startswith("public_key: ") and "wrong key" in said and pair.text in said


def test_a_missing_key_is_told_with_the_remedy(tmp_path: Path) -> None:
    said = told(settings(tmp_path, f'public_key = "{OTHER.text}"'))
    assert said.startswith("private_key_file: ") and "isotone daemon keygen d1" in said


def test_a_certificate_is_that_of_the_name_and_the_cluster(tmp_path: Path) -> None:
    authority, pair = generate_authority(tmp_path / "authority"), generate_key(tmp_path / "d1.key")
    line = f'authority = "{authority.text}"'
    good = sign_key(authority, "isotone", "d1", pair.public)
    assert told(settings(tmp_path, f'certificate = "{good}"', line)) == ""
    wrong = sign_key(authority, "isotone", "d2", pair.public)
    assert "wrong certificate" in told(settings(tmp_path, f'certificate = "{wrong}"', line))
    assert told(settings(tmp_path, "", line)).startswith("certificate: ")


def test_a_revoked_key_is_told(tmp_path: Path) -> None:
    pair = generate_key(tmp_path / "d1.key")
    assert "revoked" in told(settings(tmp_path, f'public_key = "{pair.text}"', 'revoked = ["d1"]'))


def test_an_open_daemon_needs_no_key() -> None:
    found = read('[[daemon]]\nname = "d1"\n').settings
    assert key_problem(found, found.daemon[0]) is None

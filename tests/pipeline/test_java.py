"""Which Java is taken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from isotone.core.errors import MachineError
from isotone.pipeline import java


def _program(place: Path, words: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{words}\n")
    place.chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("told", "version"), [('openjdk version "17.0.15"', 17), ('java version "1.8.0_292"', 8), ("hello", None)]
)
def test_the_version_is_read(tmp_path: Path, told: str, version: int | None) -> None:
    program = _program(tmp_path / "java", f"echo '{told}' >&2")
    assert java.java_version(program) == version


def test_the_named_home_comes_before_the_path(tmp_path: Path) -> None:
    _program(tmp_path / "named" / "bin" / "java", "echo 'version \"21.0.1\"' >&2")
    _program(tmp_path / "path" / "bin" / "java", "echo 'version \"17.0.1\"' >&2")
    environment = {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "path" / "bin")}
    assert java.java_home(tmp_path, environment) == tmp_path / "named"
    assert java.java_home(tmp_path, environment | {"JAVA_HOME": ""}) == tmp_path / "path"


def test_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "old" / "bin" / "java", "echo 'version \"11.0.1\"' >&2")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    with pytest.raises(MachineError, match="Java 17"):
        java.java_home(tmp_path, environment)
    packaged = _program(tmp_path / "packaged java", 'for each do echo "$each"; done')
    monkeypatch.setattr(java, "packaged_java", lambda: packaged)
    home = java.java_home(tmp_path, environment)
    command = [str(home / "bin" / "java"), "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == ["-Xmx1g", "a b"]

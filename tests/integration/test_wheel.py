"""The wheel builds, installs with what it asks for into a clean environment, and works there: no extra is at hand.

Takes the build system and the dependencies from the package registry (or pip's cache). The slowest test here.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.startup import FIRST_VIEW, TIMES, processor_s

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 240.0
FIRST_VIEW_MAX = 1_500
"""Bare interpreters' worth of processor time, which is about 12 seconds on the machine of results/startup.txt."""


def processor_of_children_s() -> float:
    """Of those that ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*arguments: str | Path, cwd: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(each) for each in arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=WITHIN_S,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From a copy, so that nothing is written beside the source."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src", "ops", "pyproject.toml")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, copy, cwd=out)
    (built,) = out.glob("isotone-*.whl")
    return built


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "isotone/py.typed" in names
    assert "isotone/daemon/node.py" in names
    assert {"isotone/ops/isotone@.service", "isotone/ops/alerts.yml"} <= set(names)
    assert not [name for name in names if not re.match(r"isotone(-[^/]+\.dist-info)?/", name)]
    assert not [name for name in names if "__pycache__" in name]


def test_it_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    pip = [sys.executable, "-m", "pip", "--python", python]
    began = processor_of_children_s()
    run(*pip, "install", "--quiet", "--constraint", constraints, wheel, cwd=tmp_path)
    run(python, "-c", FIRST_VIEW, cwd=tmp_path)
    spent = processor_of_children_s() - began
    bare = min(processor_s([python, "-c", "pass"]) for _ in range(TIMES))
    assert spent / bare < FIRST_VIEW_MAX, "from pip install to the first view of a program"
    unit = run(home / "bin" / "isotone", "daemon", "ops", "unit", cwd=tmp_path)
    assert unit == (ROOT / "ops" / "isotone@.service").read_text(encoding="utf-8")
    assert "uvloop" not in (installed := run(*pip, "list", "--format=freeze")) and "pyarrow" not in installed
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (program,) = (each for each in programs if "everybody has this" in each)
    assert "alice: everybody has this" in run(python, "-c", program, cwd=tmp_path)
    found = json.loads(run(home / "bin" / "isotone", "demo", "--directory", tmp_path / "demo", "--json", cwd=tmp_path))
    assert (found["runs"], found["violations"]) == (1, 0)

"""Write constraints.txt anew: the newest versions that fit pyproject.toml, for the extras that make targets install.

Works in a temporary environment, so that what happens to be in .venv plays no part.
Exit codes: 0 written, 3 pip could not install.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "constraints.txt"
EXTRAS = ["dev", "pipeline", "trace"]
HEADER = """\
# Exact versions of everything the make targets install; used as `pip install -c constraints.txt`.
# To renew: `make constraints`, then review the diff.
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input"]
        wanted = f".[{','.join(EXTRAS)}]"
        if subprocess.run([*pip, "install", "-q", wanted], cwd=ROOT, check=False).returncode != 0:
            return 3
        frozen = subprocess.run([*pip, "freeze"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    pins = sorted(pin for line in frozen.splitlines() if (pin := as_pin(line)))
    TARGET.write_text(HEADER + "".join(f"{pin}\n" for pin in pins))
    print(f"{TARGET.name}: {len(pins)} versions")
    return 0


def as_pin(line: str) -> str:
    """`name==version` with the name in its normal form; empty for ourselves and for anything that names a place."""
    match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!_-]+)", line.strip())
    if match is None:
        return ""
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    return "" if name == "isotone" else f"{name}=={match[2]}"


if __name__ == "__main__":
    sys.exit(main())

"""Make the virtual environment and install this project into it, when something changed.

Run by the Makefile with the system's Python. Installs `isotone` editable with the extras asked for, at the versions in
`constraints.txt`. A stamp inside the environment records a digest of `pyproject.toml` and `constraints.txt` and the
extras that are there, so that the next call does nothing.
Exit codes: 0 installed, 2 wrong usage, 3 this machine cannot do it, and the text says why.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "isotone-installed.json"
OLDEST = (3, 11)
EXIT_ENVIRONMENT = 3
SHOW_EVERY_S = 0.5
DEEDS = ("Collecting", "Downloading", "Building", "Preparing", "Installing")
"""With which pip begins lines that say what takes time."""
CLEAR = "\r\x1b[K"


class CannotInstallError(Exception):
    """This machine lacks something; the text says what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="extras to install, separated by commas; none: the bare package")
    parser.add_argument("--if-possible", default="", metavar="EXTRAS", help="more of them; if not, only the others")
    arguments = parser.parse_args()
    wanted, more = ({each for each in text.split(",") if each} for text in (arguments.extras, arguments.if_possible))
    # Two make processes must not install at once; the lock is on the directory itself and goes with this process.
    lock = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        ensure_as_far_as_possible(wanted, more)
    except CannotInstallError as error:
        print(f"isotone: {error}", file=sys.stderr)
        return EXIT_ENVIRONMENT
    return 0


def ensure_as_far_as_possible(wanted: set[str], more: set[str]) -> None:
    """What is wanted, with more if this machine can have that."""
    try:
        ensure_installed(wanted | more)
    except CannotInstallError as error:
        if not more - wanted:
            raise
        print(f"isotone: goes on without the extra {', '.join(sorted(more - wanted))}, for {error}", file=sys.stderr)
        ensure_installed(wanted)


def ensure_installed(wanted: set[str]) -> None:
    key = inputs_digest()
    usable = environment_works()
    recorded_key, present = read_stamp() if usable else ("", set())
    if usable and recorded_key == key and (wanted <= present or "dev" in present):  # dev has all of them
        return
    if not usable:
        create_environment()
    extras = sorted(wanted | present)
    install(extras)
    STAMP.write_text(json.dumps({"key": key, "extras": extras}) + "\n")


def inputs_digest() -> str:
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    digest.update(str(ROOT).encode())  # a moved tree leaves an editable install that points nowhere
    return digest.hexdigest()


def environment_works() -> bool:
    """Whether the environment starts, is new enough and has pip."""
    if not PYTHON.exists():
        return False
    probe = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    return subprocess.run([PYTHON, "-c", probe], check=False, capture_output=True).returncode == 0


def read_stamp() -> tuple[str, set[str]]:
    """The digest and the extras of the last installation; an unreadable stamp counts as none."""
    try:
        recorded = json.loads(STAMP.read_text())
        return str(recorded["key"]), set(recorded["extras"])
    except (OSError, ValueError, LookupError, TypeError):
        return "", set()


def create_environment() -> None:
    print(f"isotone: creating {ENVIRONMENT.name} with Python {sys.version.split()[0]}", flush=True)
    finished = run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)])
    if finished.returncode != 0:
        raise CannotInstallError(
            f"cannot create a virtual environment:\n{finished.stdout}"
            "On Debian and Ubuntu, install the package python3-venv."
        )


def install(extras: list[str]) -> None:
    target = f".[{','.join(extras)}]" if extras else "."
    size = "; Spark and a Java are 0.6 GB: some minutes" if {"dev", "pipeline"} & {*extras} else ""
    print(f"isotone: installing {target} into {ENVIRONMENT.name}{size}", flush=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    finished = run([*pip, "install", "-c", "constraints.txt", "-e", target], Progress())
    if finished.returncode != 0:
        raise CannotInstallError(f"pip could not install {target}:\n{finished.stdout}")


class Progress:
    """What pip is doing and for how long: one live line on a terminal, else a line for each download and the like."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._is_live = self._out.isatty()
        self._began = time.monotonic()
        self._doing = "looking what is needed"

    def hear(self, line: str) -> None:
        """Pip said this."""
        words = line.split()
        if not words or words[0] not in DEEDS:
            return
        if words[0] == "Installing" and ":" in line:
            self._doing = f"writing {len(line.partition(':')[2].split(','))} packages"
        else:
            self._doing = " ".join([words[0].lower(), words[1].rpartition("/")[2], *words[2:]])
        if not self._is_live and words[0] != "Collecting":
            self._tell(f"isotone:   {self._seconds} s  {self._doing}\n")

    def show(self) -> None:
        """The live line, with the seconds of now."""
        if self._is_live:
            columns = shutil.get_terminal_size().columns
            self._tell(f"{CLEAR}{f'isotone:   {self._seconds} s  {self._doing}'[: columns - 1]}")

    def end(self) -> None:
        """It is over: the live line goes."""
        self._tell(f"{CLEAR if self._is_live else ''}isotone:   {self._seconds} s in all\n")

    @property
    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:3.0f}"

    def _tell(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def run(command: list[str], progress: Progress | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; what it said is shown only when it failed, and its progress while it goes."""
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if progress is not None:
                    progress.hear(line)

        listener = threading.Thread(target=listen)
        listener.start()
        while listener.is_alive():
            if progress is not None:
                progress.show()
            listener.join(SHOW_EVERY_S)
    if progress is not None:
        progress.end()
    return subprocess.CompletedProcess(command, process.returncode, "".join(said))


if __name__ == "__main__":
    sys.exit(main())

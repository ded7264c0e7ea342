"""Install what the bench needs for a peer, from Debian's packages: Corosync, the library of its clients, and ip.

The bench itself installs nothing. Packages start their service by themselves; the bench needs none, so one that was not
there before is stopped again.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

MACHINE = 3


def missing() -> list[str]:
    """The packages of what is not there: the daemon, the library of its clients, the command that makes namespaces."""
    found = {
        "corosync": shutil.which("corosync"),
        "libcpg4": ctypes.util.find_library("cpg"),
        "iproute2": shutil.which("ip"),
    }
    return [package for package, place in found.items() if place is None]


def main() -> int:
    """Install what is missing; 3 where that cannot be done."""
    packages = missing()
    if not packages:
        print("corosync, libcpg and ip are installed")
        return 0
    if shutil.which("apt-get") is None:
        print(f"this is no Debian: install by hand what it has as {', '.join(packages)}", file=sys.stderr)
        return MACHINE
    if os.geteuid():
        print("installing packages needs root: sudo make bench-peers", file=sys.stderr)
        return MACHINE
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        if subprocess.run(command, env=environment, check=False).returncode:
            print(f"failed: {' '.join(command)}", file=sys.stderr)
            return MACHINE
    if "corosync" in packages and Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "disable", "--now", "corosync"], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

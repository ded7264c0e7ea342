"""Install the peers that the bench compares Isotone with, from Debian's packages: Corosync and its client library.

The bench itself installs nothing. Packages start their service by themselves; the bench needs none, so one that was not
there before is stopped again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = ("corosync", "libcpg4")
MACHINE = 3


def main() -> int:
    """Install what is missing; 3 where that cannot be done."""
    if shutil.which("corosync") is not None:
        print("corosync is installed")
        return 0
    if shutil.which("apt-get") is None:
        print("this is no Debian: install corosync and libcpg by hand", file=sys.stderr)
        return MACHINE
    if os.geteuid():
        print("installing packages needs root: sudo make bench-peers", file=sys.stderr)
        return MACHINE
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]):
        if subprocess.run(command, env=environment, check=False).returncode:
            print(f"failed: {' '.join(command)}", file=sys.stderr)
            return MACHINE
    if Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "disable", "--now", "corosync"], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

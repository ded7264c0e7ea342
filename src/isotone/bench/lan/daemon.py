"""One daemon of Isotone under measurement: ``python -m isotone.bench.lan.daemon SETTINGS NAME [options]``.

It is the ordinary daemon, with two switches that its settings do not have: segmentation offload off, and a profile.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from isotone.bench.lan.sampler import Sampler
from isotone.daemon.admin.assembly import assembled, opened
from isotone.daemon.admin.logs import configure_logs
from isotone.daemon.admin.service import Service
from isotone.daemon.running import run
from isotone.daemon.settings import load_in_full


def main() -> int:
    """Until it is told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=Path)
    parser.add_argument("name")
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--no-offload", action="store_true")
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    settings = load_in_full(arguments.settings).settings
    assembly = assembled(opened(settings) if arguments.dev else settings, arguments.name)
    if arguments.no_offload:
        assembly = replace(assembly, node=msgspec.structs.replace(assembly.node, offload=False))
    configure_logs("text", "info", daemon=assembly.daemon.name)
    with Sampler(arguments.profile):
        return run(assembly.node, hooks=assembly.hooks, around=Service(assembly).around)


if __name__ == "__main__":
    sys.exit(main())

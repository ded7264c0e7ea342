"""Signals before a daemon's loop runs: a stop is clean, since nothing has begun; there is nothing to read again yet."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


def stop_cleanly() -> None:
    """From now on, until the daemon has its own way with signals, and again when it has ended."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _on_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _on_stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    sys.exit(0)

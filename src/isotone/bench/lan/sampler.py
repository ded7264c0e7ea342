"""Where the time of a process goes: its stack is looked at with every tick of its CPU clock.

How often that is the kernel decides: 100 to 1,000 times in a second of CPU. It costs little and moves nothing, unlike a
profiler that hooks every call. Time inside C code and the kernel counts for the Python function that called it, at the
line of the call.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType, TracebackType

EVERY_S = 0.001
DEPTH_MAX = 60


class Sampler:
    """Samples between SIGUSR1 and SIGUSR2 and writes what it found then. Without a file it does nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._began = 0.0
        self.samples = 0
        self.own: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()

    def __enter__(self) -> Sampler:
        if self._path is not None:
            signal.signal(signal.SIGPROF, self._sample)
            signal.signal(signal.SIGUSR1, self._begin)
            signal.signal(signal.SIGUSR2, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)

    def _begin(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)

    def _end(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        assert self._path is not None
        told = {"samples": self.samples, "cpu_s": time.process_time() - self._began}
        counts = {"own": self.own, "total": self.total, "lines": self.lines}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({**told, **counts}), encoding="utf-8")
        part.rename(self._path)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        del number
        self.samples += 1
        seen: set[str] = set()
        depth = 0
        while frame is not None and depth < DEPTH_MAX:
            name = place_of(frame)
            if not depth:
                self.own[name] += 1
                self.lines[f"{name}:{frame.f_lineno}"] += 1
            if name not in seen:
                seen.add(name)
                self.total[name] += 1
            frame, depth = frame.f_back, depth + 1


def place_of(frame: FrameType) -> str:
    """Module and function, short enough for a table."""
    code = frame.f_code
    file = code.co_filename
    short = file[file.rindex("/isotone/") + 1 :] if "/isotone/" in file else "/".join(file.rsplit("/", 2)[-2:])
    return f"{short} {code.co_qualname}"

"""The Java process behind a session: it does not outlive a start that is broken off, and says only what matters.

PySpark starts it as a child, lets it ignore interrupts, and forgets it when the start is broken off; then it never
learns that nobody is there. What it says on standard error is held back until Spark is there: of no interest if all
went well, and the reason if not.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

HELD_MAX = 500
"""So many lines are kept of a start that fails."""
WAIT_SECONDS_MAX = 5.0
"""For what was said to be read; only a standard error that nobody reads makes it so long."""
_STDERR = 2
_MARK = b"\0isotone\0\n"
_ENDING = (signal.SIGINT, signal.SIGTERM)


class Words:
    """Standard error of the Java process: held back at first, passed on when Spark is there."""

    def __init__(self) -> None:
        reading, self.end = os.pipe()
        self._held: deque[bytes] = deque(maxlen=HELD_MAX)
        self._is_shown = False
        self._at_marks: deque[tuple[Callable[[], None], threading.Event]] = deque()
        threading.Thread(target=self._pass_on, args=(reading,), name="words of Java", daemon=True).start()

    def held(self) -> str:
        """What was said up to now and not shown."""
        self.settle()
        return b"".join(self._held).decode(errors="replace")

    def show(self) -> None:
        """Forget what was held back, and show what is said from now on."""
        self._at_mark(self._show)

    def settle(self) -> None:
        """Wait until all that was said is where it goes."""
        self._at_mark(lambda: None)

    def _show(self) -> None:
        self._held.clear()
        self._is_shown = True

    def _at_mark(self, action: Callable[[], None]) -> None:
        """Act between what was said before this call and what is said after it."""
        is_done = threading.Event()
        self._at_marks.append((action, is_done))
        os.write(self.end, _MARK)
        is_done.wait(WAIT_SECONDS_MAX)

    def _pass_on(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                said = line.removesuffix(_MARK)
                if said and self._is_shown:
                    with suppress(OSError):
                        os.write(_STDERR, said)
                elif said:
                    self._held.append(said)
                if said != line:
                    action, is_done = self._at_marks.popleft()
                    action()
                    is_done.set()


class Launch:
    """The start of a Java process."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.words: Words | None = None

    def popen(self, *arguments: Any, **extra: Any) -> subprocess.Popen[bytes]:
        """A child that is known here whenever an interrupt comes."""
        self.words = Words()
        with _signals_wait():
            self.child = subprocess.Popen(*arguments, **{**extra, "stderr": self.words.end})
        return self.child

    def kill(self) -> None:
        """No child is left."""
        if self.child is None:
            return
        with _signals_wait():
            self.child.kill()
            if self.child.stdin is not None:
                self.child.stdin.close()
            self.child.wait()


@contextmanager
def launching() -> Iterator[Launch]:
    """While PySpark starts Java: a child that PySpark has not taken over when this is left by an error is killed."""
    from pyspark import SparkContext

    java_gateway: Any = import_module("pyspark.java_gateway")
    launch = Launch()
    before = java_gateway.Popen
    java_gateway.Popen = launch.popen
    try:
        yield launch
    except BaseException:
        if SparkContext._gateway is None:
            launch.kill()
        raise
    finally:
        java_gateway.Popen = before


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Interrupts come when this is over; other threads than the main one hear none anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came[:1]:
            signal.raise_signal(each)

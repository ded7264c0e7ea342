"""The Java process behind a session: it does not outlive a start that is broken off, and says only what matters.

PySpark starts it as a child, lets it ignore interrupts, and forgets it when the start is broken off; then it never
learns that nobody is there. What it says on standard error is held back until Spark is there: of no interest if all
went well, and the reason if not.

Implements: nothing of the papers. Deviations: none.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any

HELD_MAX = 500
"""So many lines are kept of a start that fails."""
WAIT_SECONDS_MAX = 5.0
"""For what was said to be read; only a standard error that nobody reads makes it so long."""
_STDERR = 2
_MARK = b"\0isotone\0\n"
_PY4J = logging.getLogger("py4j")
_ENDING = (signal.SIGINT, signal.SIGTERM)


class Words:
    """Standard error of the Java process: held back at first, passed on when Spark is there, not after an interrupt."""

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

    def hush(self) -> None:
        """Show nothing more, not even what is on its way."""
        self._is_shown = False

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
    """While PySpark starts Java, in silence: a child that it has not taken over when an error ends this is killed."""
    from pyspark import SparkContext

    java_gateway: Any = import_module("pyspark.java_gateway")
    launch = Launch()
    before = java_gateway.Popen
    java_gateway.Popen = launch.popen
    _silence_py4j()
    try:
        yield launch
    except BaseException:
        if SparkContext._gateway is None:
            launch.kill()
        raise
    finally:
        java_gateway.Popen = before


class _Quietly:
    """A handler of a signal: what PySpark and Java have to say about being interrupted helps nobody."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any], words: Words | None) -> None:
        self.handler = handler
        self.words = words

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.words is not None:
            self.words.hush()
        _silence_py4j()
        self.handler(number, frame)


def speak(words: Words | None) -> None:
    """Spark is there: what it says is shown, until an interrupt comes; that is then handled as it would have been.

    Without words, those of before.
    """
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    if words is None:
        words = next((each.words for each in handlers.values() if isinstance(each, _Quietly)), None)
    if words is not None:
        words.show()
    logging.getLogger().removeFilter(_is_not_of_py4j)
    _PY4J.propagate = True
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            handler = handler.handler if isinstance(handler, _Quietly) else handler
            if callable(handler):
                signal.signal(number, _Quietly(handler, words))


def _silence_py4j() -> None:
    """What PySpark's connection to Java logs is dropped; some of it goes by the logger of all."""
    logging.getLogger().addFilter(_is_not_of_py4j)
    _PY4J.propagate = False


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


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

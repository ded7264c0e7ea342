"""What can go wrong in a run under virtual time, besides the program that is tested."""

from __future__ import annotations

from isotone.core.errors import IsotoneError


class TestingError(IsotoneError):
    """Base of the errors of `isotone.testing`."""

    __test__ = False  # no test, whatever pytest thinks of the name


class NotSimulated(TestingError, NotImplementedError):
    """The program asked for something real: a socket, a process, a thread, a signal."""


class Deadlock(TestingError):
    """Every task waits, and nothing can happen that any of them waits for; the text names them."""


class TimeOver(TestingError):
    """The run took more virtual time than it may, or went round without time going on."""


class DiedUnnoticed(TestingError):
    """A task or a callback of the program ended with an error that nobody looked at; the text has its traceback."""


class NotSettled(TestingError):
    """The daemons did not come to rest in time; the text says what each of them waits for."""


class BrokenPromise(TestingError):
    """Isotone itself broke a promise in this run: a bug of ours. The text names the property and its witness."""

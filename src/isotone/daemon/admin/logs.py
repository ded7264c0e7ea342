"""Structured logs: every line has a sentence and fields, written as JSON for machines or as key=value for people.

Code logs with the standard library, ``log.info("sentence", extra={"fields": {…}})``; this module is only the form.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import IO

import msgspec

from isotone.core.errors import InputError

FORMS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
FIELD_CHARACTERS_MAX = 2_000


def configure_logs(form: str = "text", level: str = "info", *, stream: IO[str] | None = None, daemon: str = "") -> None:
    """Send all that ``isotone`` logs to standard error in this form, and nothing twice; again for another form."""
    if form not in FORMS or level not in LEVELS:
        raise InputError(f"logs have the forms {', '.join(FORMS)} and the levels {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonForm(daemon) if form == "json" else TextForm(daemon))
    logger = logging.getLogger("isotone")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def set_level(level: str) -> None:
    """Only another level."""
    if level not in LEVELS:
        raise InputError(f"the levels of logs are {', '.join(LEVELS)}, not {level!r}")
    logging.getLogger("isotone").setLevel(level.upper())


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What was logged beside the sentence."""
    fields = getattr(record, "fields", None)
    return dict(fields) if isinstance(fields, dict) else {}


class JsonForm(logging.Formatter):
    """One JSON object a line: time, level, logger, daemon, message, then the fields."""

    def __init__(self, daemon: str = "") -> None:
        super().__init__()
        self._daemon = daemon

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            **({"daemon": self._daemon} if self._daemon else {}),
            "message": record.getMessage(),
        }
        line.update({name: value for name, value in fields_of(record).items() if name not in line})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextForm(logging.Formatter):
    """Time, level, sentence, and key=value."""

    def __init__(self, daemon: str = "") -> None:
        super().__init__()
        self._daemon = f" {daemon}" if daemon else ""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the lines of an exception behind it."""
        fields = "".join(f" {name}={shown(value)}" for name, value in fields_of(record).items())
        sentence = " ".join(record.getMessage().split())
        line = f"{moment(record.created)} {record.levelname.lower():<7}{self._daemon} {sentence}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def moment(seconds: float) -> str:
    """UTC, with milliseconds."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def shown(value: object) -> str:
    """A value behind ``key=``: bare when that is unambiguous, else as JSON. Nobody can forge a line with it."""
    text = str(value)[:FIELD_CHARACTERS_MAX]
    is_bare = bool(text) and text.isprintable() and not any(sign in text for sign in ' "=\\')
    return text if is_bare else msgspec.json.encode(text).decode()

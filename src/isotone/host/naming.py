"""Names of messages and servers as people write them: ``a.3:17`` is the 17th message of the third life of a."""

from __future__ import annotations

import re

from isotone.core.errors import InputError
from isotone.corel.message import Origin

_NAME = re.compile(r"^(.+)\.([0-9]{1,18}):([0-9]{1,18})$")


def named_message(text: str) -> tuple[Origin, int]:
    """The name of a message from its text; raises `InputError`."""
    found = _NAME.match(text)
    if found is None:
        raise InputError(f"not the name of a message: {text!r}; write server.life:counter, such as a.1:17")
    return Origin(found[1], int(found[2])), int(found[3])

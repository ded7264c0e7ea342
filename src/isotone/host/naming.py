"""Names of messages and servers as people write them: ``a.3:17`` is the 17th message of the third life of a."""

from __future__ import annotations

import re

from isotone.core.errors import InputError, LocalProtocolError
from isotone.core.names import LOG_GROUP_PREFIX, is_log_group
from isotone.corel.message import Origin

_NAME = re.compile(r"^(.+)\.([0-9]{1,18}):([0-9]{1,18})$")


def check_log_group(group: str) -> None:
    """Refuse a group of another name: daemons would let everybody who may join and send speak there as a server."""
    if not is_log_group(group):
        raise LocalProtocolError(
            f"the group of a replicated log is {LOG_GROUP_PREFIX}NAME, as in {LOG_GROUP_PREFIX}orders, not {group}: "
            "by that daemons know whom to let in (docs/guide/security.md, replicated logs)"
        )


def named_message(text: str) -> tuple[Origin, int]:
    """The name of a message from its text; raises `InputError`."""
    found = _NAME.match(text)
    if found is None:
        raise InputError(f"not the name of a message: {text!r}; write server.life:counter, such as a.1:17")
    return Origin(found[1], int(found[2])), int(found[3])

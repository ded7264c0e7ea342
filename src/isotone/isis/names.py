"""Names of sites, processes and broadcasts, as text.

A site is ``name.life``: its name, and the incarnation that rises with each recovery [ISIS 4.1]. A process is
``name.life/process``; a broadcast is ``name.life:number``. So whose a process or a broadcast is can be read from it.

Implements: [ISIS 4.1]. Deviations: none.
"""

from __future__ import annotations

from isotone.core.errors import LocalProtocolError, RemoteProtocolError
from isotone.core.names import GROUP_NAME_MAX, check_client_name

GROUP_PREFIX = "$isis/"
"""In such a group at B4 the kernels of one system find each other."""
SYSTEM_NAME_MAX = GROUP_NAME_MAX - len(GROUP_PREFIX)
PROCESS_NAME_MAX = 31


def site_id(name: str, life: int) -> str:
    """One incarnation of a site."""
    return f"{name}.{life}"


def name_of(site: str) -> str:
    """The name of a site, without the incarnation."""
    return site.rpartition(".")[0]


def life_of(site: str) -> int:
    """The incarnation of a site."""
    digits = site.rpartition(".")[2]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise RemoteProtocolError(f"not a site: {site!r}")
    return int(digits)


def process_id(site: str, process: str) -> str:
    """A process of a site."""
    return f"{site}/{process}"


def site_of(process: str) -> str:
    """The site of a process."""
    return process.partition("/")[0]


def origin_of(message: str) -> str:
    """The site that began a broadcast."""
    return message.rpartition(":")[0]


def sites_of(processes: tuple[str, ...]) -> tuple[str, ...]:
    """The sites of these processes, each once, in their order."""
    return tuple(dict.fromkeys(site_of(each) for each in processes))


def check_site_name(name: str) -> str:
    """Return it, or say what is wrong: it is a client's name at B4 too, and has no dot or slash."""
    check_client_name(name)
    if set(name) & set("./:"):
        raise LocalProtocolError(f"the name of a site has no '.', '/' or ':', {name!r} has")
    return name


def check_process_name(name: str) -> str:
    """Return it, or say what is wrong."""
    if not 1 <= len(name) <= PROCESS_NAME_MAX or set(name) & set("/:"):
        raise LocalProtocolError(f"a process name has 1 to {PROCESS_NAME_MAX} characters without '/' and ':': {name!r}")
    return name

"""From ``spread.conf`` to our settings, with comments about what was carried over and what was not, and why."""

from __future__ import annotations

import json
from ipaddress import ip_address

import msgspec

from isotone.core.addresses import is_any, is_ip, is_loopback, join_address
from isotone.daemon.settings.spread_conf import (
    VIRTUAL_ID,
    Option,
    Segment,
    SpreadConf,
    SpreadDaemon,
    read_spread_conf,
)
from isotone.daemon.spread.constants import DAEMON_NAME_MAX

METHODS = ("NULL", "IP", "PWORD")
LEVELS = {
    "pDEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
    "FATAL": "error",
}
_MEASURED = "timeouts are measured; [timeouts] has floors and ceilings"
_ADAPTED = "windows adapt by themselves"
_UNIT = "the systemd unit says who runs the daemon"
_TIMEOUTS = ("Token", "Hurry", "Alive", "Join", "Rep", "Seg", "Gather", "Form", "Lookup")
REASONS = {
    "DebugFlags": "log lines have one level: [admin] log_level",
    "EventLogFile": "logs go to standard error, for the journal or a file of your choice",
    "EventTimeStamp": "log lines always have a time",
    "EventPreciseTimeStamp": "log lines always have a time",
    "DangerousMonitor": "Spread's monitor does not talk to this daemon; `isotone status` and [faults] take its place",
    "SocketPortReuse": "a restarted daemon gets its port back in any case",
    "MaxSessionMessages": "buffers are counted in bytes: [limits] buffer_bytes_max",
    "RuntimeDir": "[cluster] state_directory is where the daemon keeps things",
    "DaemonUser": _UNIT,
    "DaemonGroup": _UNIT,
    "AccessControlPolicy": "[[security.access]] takes its place",
    "ActiveIPVersion": "it follows from the addresses",
    "WideAreaNetwork": "several sites are linked by hop, without a switch",
    "AcceleratedRing": "the ring is always accelerated",
    "Window": _ADAPTED,
    "PersonalWindow": _ADAPTED,
    "AcceleratedWindow": _ADAPTED,
    "ExcludeSegAddrsFromHash": "a cluster is known by its name, not by a digest of this file",
    "IgnoreMulticastJoinErrors": "leave multicast out of a site, and packets go to each daemon",
    **{f"{word}Timeout": _MEASURED for word in _TIMEOUTS},
}
"""Options of Spread that have no place here, and what takes it."""


class LeftOut(msgspec.Struct, frozen=True):
    """Something of the file that was not carried over."""

    line: int
    what: str
    why: str


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as a TOML text, and what is not in it."""

    toml: str
    left_out: tuple[LeftOut, ...]


def convert(text: str, file: str = "spread.conf", *, cluster: str = "isotone") -> Conversion:
    """Settings that do what this ``spread.conf`` did; raises `SettingsError` if it is none."""
    return _Converter(read_spread_conf(text, file), file, cluster).convert()


class _Converter:
    def __init__(self, conf: SpreadConf, file: str, cluster: str) -> None:
        self._conf, self._file, self._cluster = conf, file, cluster
        self._left: list[LeftOut] = []
        self._lines: list[str] = []

    def convert(self) -> Conversion:
        self._put(f"# Made by `isotone daemon convert` from {_clean(self._file)}.")
        self._put("# docs/settings.md explains every key.", "")
        self._put("[cluster]", f"name = {_text(self._cluster)}", "")
        groups: set[str] = set()
        for number, segment in enumerate(self._conf.segments, start=1):
            self._site(number, segment, groups)
        for number, segment in enumerate(self._conf.segments, start=1):
            for daemon in segment.daemons:
                self._daemon(f"segment{number}", segment, daemon)
        self._put("# As Spread: no keys, no credentials. `isotone daemon keygen` makes it better.")
        self._put("[security]", 'mode = "open"', "")
        options = {option.key: option for option in self._conf.options}
        self._spread(options)
        self._logging(options)
        self._others()
        left = tuple(sorted(self._left, key=lambda each: each.line))
        return Conversion(toml="\n".join([*self._lines, *_told(left)]).rstrip() + "\n", left_out=left)

    def _put(self, *lines: str) -> None:
        self._lines += lines

    # --- places ----------------------------------------------------------------------------------------------------

    def _site(self, number: int, segment: Segment, groups: set[str]) -> None:
        self._put("[[site]]", f"name = {_text(f'segment{number}')}")
        host = segment.addresses[0] if segment.addresses else ""
        is_group = is_ip(host) and ip_address(host).is_multicast and ":" not in host
        if is_group and (group := join_address(host, segment.port)) not in groups:
            groups.add(group)
            self._put(f"multicast = {_text(group)}")
        elif host:
            why = "packets go to each daemon of the site; name a multicast address if the LAN has one"
            self._left.append(LeftOut(segment.line, f"the segment's address {host}", why))
        for extra in segment.addresses[1:]:
            self._left.append(LeftOut(segment.line, f"the segment's address {extra}", "a site has one"))
        self._put("")

    def _daemon(self, site: str, segment: Segment, daemon: SpreadDaemon) -> None:
        name = daemon.name[:DAEMON_NAME_MAX]
        self._put("[[daemon]]", f"name = {_text(name)}", f"site = {_text(site)}")
        self._put(f"address = {_text(daemon.address)}", f"port = {segment.port}")
        if name != daemon.name:
            self._put(f"# Cut to {DAEMON_NAME_MAX} characters, as Spread does: {_clean(daemon.name)}")
        if daemon.virtual_id:
            why = "daemons are known by name and by an identity on their disk"
            self._left.append(LeftOut(daemon.line, f"{VIRTUAL_ID} of {name}", why))
        self._listen(daemon)
        self._put("")

    def _listen(self, daemon: SpreadDaemon) -> None:
        """One port serves daemons and clients, so it listens where either does."""
        wanted = [each.address for each in daemon.interfaces if each.serves("D") or each.serves("C")]
        everywhere = next((each for each in wanted if is_any(each)), "")
        if not daemon.interfaces and not is_loopback(daemon.address):
            self._put("# As Spread: clients come to any address of the machine, localhost among them.")
            self._put(f'listen = "{"::" if ":" in daemon.address else "0.0.0.0"}"')
        elif everywhere:
            self._put(f"listen = {_text(everywhere)}")
        elif wanted and wanted[0] != daemon.address:
            self._put(f"listen = {_text(wanted[0])}")
        for address in [] if everywhere else wanted[1:]:
            why = 'a daemon listens at one address, or at all of them: listen = "0.0.0.0"'
            self._left.append(LeftOut(daemon.line, f"the interface {address} of {daemon.name}", why))

    # --- options ---------------------------------------------------------------------------------------------------

    def _spread(self, options: dict[str, Option]) -> None:
        if self._is_laxer(options):
            self._put("# Off, because a method of authentication that there is not here let fewer clients in.")
            self._put("[spread]", "enabled = false")
        else:
            self._put("# Spread's clients find their daemon where it was, at the same port.")
            self._put("[spread]", "enabled = true", "share_port = true")
        self._put('unix_socket = "/tmp/{port}"')
        for key, ours in (("AllowedAuthMethods", "methods"), ("RequiredAuthMethods", "required_methods")):
            if (option := options.get(key)) is not None:
                self._methods(option, ours)
                if "IP" in option.value.split():
                    why = "write what it allows as networks = [...] in [spread]; until then, this machine alone"
                    self._left.append(LeftOut(option.line, "the file spread.access_ip of the method IP", why))
        self._put("")

    @staticmethod
    def _is_laxer(options: dict[str, Option]) -> bool:
        """Whether clients would get in who were kept out."""
        allowed, required = options.get("AllowedAuthMethods"), options.get("RequiredAuthMethods")
        none_left = allowed is not None and not any(word in METHODS for word in allowed.value.split())
        return none_left or (required is not None and any(word not in METHODS for word in required.value.split()))

    def _methods(self, option: Option, ours: str) -> None:
        known = [word for word in option.value.split() if word in METHODS]
        for word in option.value.split():
            if word not in METHODS:
                self._left.append(LeftOut(option.line, f"{option.key} {word}", "there is no such method here"))
        if known:
            self._put(f"{ours} = [{', '.join(map(_text, known))}]")

    def _logging(self, options: dict[str, Option]) -> None:
        option = options.get("EventPriority")
        if option is None:
            return
        if option.value in LEVELS:
            self._put("[admin]", f"log_level = {_text(LEVELS[option.value])}", "")
        else:
            self._left.append(LeftOut(option.line, f"EventPriority = {option.value}", "there is no such level"))

    def _others(self) -> None:
        for option in self._conf.options:
            if option.key in ("AllowedAuthMethods", "RequiredAuthMethods", "EventPriority"):
                continue
            why = REASONS.get(option.key, "this option is not known")
            self._left.append(LeftOut(option.line, f"{option.key} = {option.value}".removesuffix(" = "), why))


def _told(left: tuple[LeftOut, ...]) -> list[str]:
    if not left:
        return []
    return ["# Not carried over:", *(f"#   line {each.line}: {_clean(each.what)}: {each.why}" for each in left)]


def _clean(text: str) -> str:
    """On one line, and without what may not stand in a comment."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def _text(value: str) -> str:
    """As TOML writes it: JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

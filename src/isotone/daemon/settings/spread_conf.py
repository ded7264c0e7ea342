"""Reads ``spread.conf``: segments of daemons, and options as they stand there.

A file is a row of tokens; line ends mean nothing but the end of a comment. What the options mean is for `convert`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from isotone.core.addresses import DEFAULT_PORT, is_ip
from isotone.daemon.settings.problems import Problem, SettingsError

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<sign>[{}])"""
    r"""|(?P<word>\[[^\]\s]*\](?::\d+)?|[^\s\#{}\[\]"']+)"""
)
SEGMENT = "Spread_Segment"
VIRTUAL_ID = "VirtualID"
_KINDS = frozenset("DCM")
FLAGS = frozenset({"EventTimeStamp", "EventPreciseTimeStamp"})
"""Options that may stand without a value."""


class Token(msgspec.Struct, frozen=True):
    """A word, with its line; a quoted one is never a sign or a keyword."""

    text: str
    line: int
    quoted: bool = False

    def is_sign(self, sign: str) -> bool:
        """Whether it is this sign, alone."""
        return self.text == sign and not self.quoted


class Interface(msgspec.Struct, frozen=True):
    """An address of a daemon, and what for: daemons, clients, monitors; all without a letter."""

    kinds: str
    address: str

    def serves(self, kind: str) -> bool:
        """Whether it is for this kind of traffic."""
        return not self.kinds or kind in self.kinds


class SpreadDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """One daemon of a segment."""

    name: str
    address: str
    line: int
    virtual_id: str = ""
    interfaces: tuple[Interface, ...] = ()


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A LAN with its port."""

    addresses: tuple[str, ...]
    port: int
    line: int
    daemons: tuple[SpreadDaemon, ...]


class Option(msgspec.Struct, frozen=True):
    """An option with its value as text; flags in braces are separated by blanks."""

    key: str
    value: str
    line: int


class SpreadConf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    segments: tuple[Segment, ...]
    options: tuple[Option, ...]


def read_spread_conf(text: str, file: str = "spread.conf") -> SpreadConf:
    """Parse it, or raise a `SettingsError` that names the line."""
    return _Parser(text, file).parse()


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._tokens = list(self._cut(text))
        self._at = 0

    def _cut(self, text: str) -> Iterator[Token]:
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(line, f"{text[at]!r} begins nothing that is known", "remove it, or close the quotes")
            kind = found.lastgroup
            if kind != "skip":
                assert kind is not None
                yield Token(found[kind], line, quoted=kind in ("double", "single"))
            line += found.group().count("\n")
            at = found.end()

    def parse(self) -> SpreadConf:
        segments, options = [], []
        while (token := self._peek()) is not None:
            if token.is_sign(SEGMENT):
                segments.append(self._segment())
            else:
                options.append(self._option())
        if not any(segment.daemons for segment in segments):
            raise self._error(1, "there is no daemon", f"is this a spread.conf? It has a {SEGMENT} with daemons")
        return SpreadConf(segments=tuple(segments), options=tuple(options))

    # --- segments --------------------------------------------------------------------------------------------------

    def _segment(self) -> Segment:
        line = self._take("").line
        addresses: list[str] = []
        port = DEFAULT_PORT
        while not self._comes_to("{"):
            host, own_port = self._host_and_port(self._take("an address"))
            port = own_port if own_port is not None and not addresses else port
            addresses.append(host)
        self._take("{")
        daemons = []
        while not self._comes_to("}"):
            if self._sees(";"):
                self._take(";")
            else:
                daemons.append(self._daemon())
        self._take("}")
        return Segment(addresses=tuple(addresses), port=port, line=line, daemons=tuple(daemons))

    def _host_and_port(self, token: Token) -> tuple[str, int | None]:
        text = token.text
        if text.startswith("["):
            host, _, rest = text[1:].partition("]")
            port = rest.removeprefix(":")
        elif text.count(":") == 1:
            host, _, port = text.partition(":")
        else:
            host, port = text, ""
        if not host or (port and not port.isdigit()):
            raise self._error(token.line, f"{text} is no address", "write IP or IP:port")
        return host, int(port) if port else None

    def _daemon(self) -> SpreadDaemon:
        token = self._take("a daemon")
        address = token.text
        following = self._peek()
        if not is_ip(_bare(token.text)) and following is not None and is_ip(_bare(following.text)):
            address = self._take("").text
        virtual_id = ""
        interfaces: tuple[Interface, ...] = ()
        if self._sees(VIRTUAL_ID):
            self._take(VIRTUAL_ID)
            self._take("=")
            virtual_id = self._take("a number").text
        if self._sees("{"):
            interfaces = tuple(self._interfaces())
        return SpreadDaemon(
            name=_bare(token.text),
            address=_bare(address),
            line=token.line,
            virtual_id=virtual_id,
            interfaces=interfaces,
        )

    def _interfaces(self) -> Iterator[Interface]:
        self._take("{")
        kinds = ""
        while not self._comes_to("}"):
            token = self._take("an interface")
            if token.text in _KINDS and not token.quoted:
                kinds += token.text
            else:
                yield Interface(kinds, _bare(token.text))
                kinds = ""
        self._take("}")

    # --- options ---------------------------------------------------------------------------------------------------

    def _option(self) -> Option:
        token = self._take("an option")
        if token.text in "{}=;" or token.quoted:
            raise self._error(token.line, f"{token.text} stands where an option is expected", "remove it")
        if not self._sees("="):
            if token.text in FLAGS:
                return Option(token.text, "", token.line)
            key, equals, _ = token.text.partition("=")
            remedy = f"write {key} = … with blanks around the sign" if equals else "add = and a value, or remove it"
            raise self._error(token.line, f"{token.text} has no value", remedy)
        self._take("=")
        if not self._sees("{"):
            return Option(token.text, self._take("a value").text, token.line)
        self._take("{")
        words = []
        while not self._comes_to("}"):
            words.append(self._take("a flag").text)
        self._take("}")
        return Option(token.text, " ".join(words), token.line)

    # --- tokens ----------------------------------------------------------------------------------------------------

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _sees(self, sign: str) -> bool:
        token = self._peek()
        return token is not None and token.is_sign(sign)

    def _comes_to(self, sign: str) -> bool:
        """The same where the sign has to come."""
        if self._peek() is None:
            raise self._error(self._tokens[-1].line, f"the file ends where {sign} is missing", f"add {sign}")
        return self._sees(sign)

    def _take(self, wanted: str) -> Token:
        token = self._peek()
        if token is None:
            raise self._error(self._tokens[-1].line, f"the file ends where {wanted} is missing", f"add {wanted}")
        if wanted in ("{", "}", "=") and not token.is_sign(wanted):
            raise self._error(token.line, f"{token.text} stands where {wanted} is expected", f"write {wanted} there")
        self._at += 1
        return token

    def _error(self, line: int, what: str, remedy: str) -> SettingsError:
        return SettingsError([Problem(file=self._file, line=line, key="", what=what, remedy=remedy)])


def _bare(address: str) -> str:
    """Without an interface behind a per cent sign."""
    return address.partition("%")[0]

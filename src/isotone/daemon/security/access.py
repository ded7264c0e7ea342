"""Who may do what: clients by credential, certificate or neither; Spread's clients; administrators.

A principal is who somebody is to the access list: what a credential stands for, ``cert/<common name>`` of a client
certificate, ``spread/<name>`` of a Spread client, ``anonymous``. A rule allows some principals some acts in some
groups; what no rule allows is refused. Without any rule everybody who is admitted may connect, join and send, and
nobody may administer, or speak as a server of a replicated log: that is ``log`` in the log's group. Every refusal is
counted by its reason, and told once for each peer and reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from isotone.core.addresses import host_of
from isotone.core.boundary import Join, Request, Send
from isotone.core.contract import Address
from isotone.core.names import is_log_group, is_private_group
from isotone.core.patterns import Patterns
from isotone.daemon.security.credentials import Credentials
from isotone.daemon.security.events import Note
from isotone.daemon.security.limits import Refusals
from isotone.evs.sessions.admission import Admitted, Denied

ACTIONS = ("connect", "join", "send", "log", "admin")
GIVEN = ("log", "admin")
"""Nobody may do these unless a rule says so."""
ANONYMOUS = "anonymous"
CACHE_MAX = 16_384


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """These principals may do this in these groups; groups do not matter for connecting and administering."""

    principals: Sequence[str] = ("*",)
    groups: Sequence[str] = ("*",)
    allow: Sequence[str] = ("connect", "join", "send")


class _Compiled:
    def __init__(self, rule: AccessRule) -> None:
        assert set(rule.allow) <= set(ACTIONS), f"there are only {', '.join(ACTIONS)}"
        self.principals, self.groups = Patterns(rule.principals), Patterns(rule.groups)
        self.allow = frozenset(rule.allow)


class Access:
    """The access list of one daemon."""

    def __init__(
        self, rules: Iterable[AccessRule] = (), credentials: Credentials | None = None, anonymous: bool = True
    ) -> None:
        self._refusals = Refusals()
        self._notes: list[Note] = []
        self._certified: dict[Address, str] = {}  # who showed a certificate on which stream
        self._is_open = False
        self.replace(rules, credentials, anonymous)

    def replace(self, rules: Iterable[AccessRule], credentials: Credentials | None, anonymous: bool = True) -> None:
        """The settings were read again; sessions that are open keep their principal, and are judged anew."""
        self._rules = [_Compiled(rule) for rule in rules]
        self._credentials = credentials or Credentials()
        self._anonymous = anonymous
        self._cache: dict[tuple[str, str, str], bool] = {}

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything, and administer without a credential."""
        return self._is_open

    @property
    def refused(self) -> dict[str, int]:
        """Refusals by reason."""
        return self._refusals.counts

    def notes(self) -> list[Note]:
        """Lines for the log since the last look."""
        notes, self._notes = self._notes, []
        return notes

    # --- who it is -------------------------------------------------------------------------------------------------

    def certified(self, peer: Address, certificate: dict[str, object]) -> str:
        """A client showed a certificate that TLS verified; its principal, empty if it names nobody."""
        name = _common_name(certificate)
        if name:
            self._certified[peer] = f"cert/{name}"
        return self._certified.get(peer, "")

    def gone(self, peer: Address) -> None:
        """That stream is over."""
        self._certified.pop(peer, None)

    def admit(self, name: str, credential: bytes, peer: Address) -> Admitted | Denied:
        """Whether a client may open a session under this private name, and as whom."""
        if credential:
            entry = self._credentials.find(credential)
            if entry is None:
                return self._denied(peer, "wrong credential", "the credential is not known here")
            if not self._credentials.may_use(entry, name):
                return self._denied(peer, "forged private name", f"the name {name} is not for {entry.principal}")
            return self._connected(entry.principal, peer)
        principal = self._certified.get(peer, "")
        if not principal and not self._anonymous:
            return self._denied(peer, "no credential", "a credential is required here")
        return self._unreserved(principal or ANONYMOUS, name, peer)

    def admit_spread(self, name: str, peer: Address, password: bytes = b"") -> Admitted | Denied:
        """The same for a Spread client. Its passwords have eight characters, in clear: they are no credentials."""
        del password
        if not self._anonymous:
            return self._denied(peer, "no credential", "a credential is required here: Spread's clients have none")
        return self._unreserved(f"spread/{name}", name, peer)

    def _unreserved(self, principal: str, name: str, peer: Address) -> Admitted | Denied:
        if self._credentials.is_reserved(name):
            return self._denied(peer, "forged private name", f"the name {name} needs a credential")
        return self._connected(principal, peer)

    def _connected(self, principal: str, peer: Address) -> Admitted | Denied:
        if not self._may(principal, "connect", ""):
            return self._denied(peer, "may not connect", f"{principal} may not connect")
        return Admitted(principal)

    def tls_refused(self, reason: str, text: str, peer: Address) -> None:
        """A client did not come through the handshake of TLS."""
        self._tell(host_of(peer), reason, text)

    # --- what it may -----------------------------------------------------------------------------------------------

    def permit(self, principal: str, request: Request) -> str:
        """Why it may not do this; empty if it may."""
        if isinstance(request, Send):
            for group in request.bundle.groups:
                if is_log_group(group) and not self._may(principal, "log", group):
                    return self._forbidden(principal, "forbidden log", f"{principal} is no server of {group}")
                if not is_log_group(group) and not self._may(principal, "send", group):
                    return self._forbidden(principal, "forbidden send", f"{principal} may not send to {group}")
        elif isinstance(request, Join):
            if is_private_group(request.group):
                return self._forbidden(principal, "forged private name", "a private group cannot be joined")
            if is_log_group(request.group):
                if not self._may(principal, "log", request.group):
                    return self._forbidden(principal, "forbidden log", f"{principal} is no server of {request.group}")
            elif not self._may(principal, "join", request.group):
                return self._forbidden(principal, "forbidden join", f"{principal} may not join {request.group}")
        return ""

    def judge_admin(self, credential: bytes, act: str) -> Admitted | Denied:
        """Who wants to administer, if he may."""
        entry = self._credentials.find(credential) if credential else None
        if self._is_open:
            return Admitted(entry.principal if entry is not None else ANONYMOUS)
        if entry is None:
            text = "the credential is not known here" if credential else "administration needs a credential"
            return self._denied(Address("admin"), "wrong credential", text)
        if not self._may(entry.principal, "admin", ""):
            denied = self._denied(Address("admin"), "forbidden admin", f"{entry.principal} may not {act}")
            return msgspec.structs.replace(denied, principal=entry.principal)
        return Admitted(entry.principal)

    def _may(self, principal: str, action: str, group: str) -> bool:
        if self._is_open:
            return True
        if not self._rules:
            return action not in GIVEN
        key = (principal, action, group)
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            known = self._cache[key] = any(
                action in rule.allow
                and rule.principals.match(principal)
                and (action in ("connect", "admin") or rule.groups.match(group))
                for rule in self._rules
            )
        return known

    # --- refusals --------------------------------------------------------------------------------------------------

    def _denied(self, peer: Address, reason: str, text: str) -> Denied:
        self._tell(host_of(peer), reason, text)
        return Denied(text)

    def _forbidden(self, principal: str, reason: str, text: str) -> str:
        self._tell(principal, reason, text)
        return text

    def _tell(self, peer: str, reason: str, text: str) -> None:
        note = self._refusals.count(0, peer, reason, f"{peer}: {text}")
        if note is not None:
            self._notes.append(note)


def open_access() -> Access:
    """Everybody may do everything, administer too: for development on one machine."""
    access = Access()
    access._is_open = True
    return access


def _common_name(certificate: dict[str, object]) -> str:
    """The common name in what `ssl` tells about a certificate."""
    subject = certificate.get("subject", ())
    assert isinstance(subject, tuple)
    for part in subject:
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""

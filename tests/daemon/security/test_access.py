"""Who may do what: every refusal is counted by its reason and told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotone.core.boundary import Disconnect, Join, Leave, Send
from isotone.core.bundles import bundle_of
from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.daemon.security.access import Access, AccessRule, open_access
from isotone.daemon.security.credentials import Credentials, add_credential, read_credentials
from isotone.evs.sessions.admission import Admitted, Denied

PEER = Address("192.0.2.1:5000")
SENDER = ClientId(DaemonId("d1", 1), "alice", 1)


GIVEN = (("operator", ("*",)), ("alice", ("alice*",)), ("alice", ("*",)), ("bob", ("bob", "alice1")))


def send(*groups: str) -> Send:
    return Send(bundle_of(SENDER, 1, Service.AGREED, groups, [b"x"]))


@pytest.fixture
def secrets(tmp_path: Path) -> tuple[Credentials, dict[str, bytes]]:
    path = tmp_path / "credentials"
    given = {
        "alice": add_credential(path, "alice", ("alice*", "al")),
        "operator": add_credential(path, "operator"),
    }
    assert path.stat().st_mode & 0o777 == 0o600
    return read_credentials(path), {name: text.encode() for name, text in given.items()}


def test_a_credential_stands_for_its_principal(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    credentials, given = secrets
    access = Access(credentials=credentials, anonymous=False)
    assert access.admit("alice", given["alice"], PEER) == Admitted("alice")
    assert access.admit("any", given["operator"], PEER) == Admitted("operator")
    assert not access.refused


def test_secrets_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    credential = add_credential(path, "alice")
    assert credential.partition(".")[2] not in path.read_text()


@pytest.mark.parametrize("what", ["other secret", "other id", "cut", "garbage", "nobody"])
def test_wrong_credentials_are_refused(secrets: tuple[Credentials, dict[str, bytes]], what: str) -> None:
    credentials, given = secrets
    right, other = given["alice"], given["operator"]
    wrong = {
        "other secret": right.partition(b".")[0] + b"." + other.partition(b".")[2],
        "other id": b"nobody." + right.partition(b".")[2],
        "cut": right[:-1],
        "garbage": b"\xff\x00\x01" * 100,
        "nobody": b".",
    }[what]
    access = Access(credentials=credentials)
    for _ in range(3):
        assert isinstance(access.admit("alice", wrong, PEER), Denied)
    assert access.refused == {"wrong credential": 3}
    assert [(note.peer, note.reason) for note in access.notes()] == [("192.0.2.1", "wrong credential")]
    assert not access.notes()


def test_without_a_credential_only_where_that_is_allowed(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    assert Access(credentials=secrets[0]).admit("bob", b"", PEER) == Admitted("anonymous")
    closed = Access(credentials=secrets[0], anonymous=False)
    assert isinstance(closed.admit("bob", b"", PEER), Denied)
    assert closed.refused == {"no credential": 1}


def test_a_forged_private_name_is_refused(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    """Names that belong to a credential are nobody else's; nor does a credential give any other name."""
    credentials, given = secrets
    access = Access(credentials=credentials)
    assert isinstance(access.admit("alice2", b"", PEER), Denied)
    assert isinstance(access.admit_spread("al", PEER), Denied)
    assert isinstance(access.admit("bob", given["alice"], PEER), Denied)
    assert access.refused == {"forged private name": 3}
    assert access.permit("alice", Join("#bob#d1"))
    assert access.refused == {"forged private name": 4}
    assert len(access.notes()) == 2


def test_a_credential_for_any_name_does_not_give_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    given = [add_credential(path, principal, names).encode() for principal, names in GIVEN]
    access = Access(credentials=read_credentials(path), anonymous=False)
    operator, alice, alice_too, bob = given
    assert isinstance(access.admit("alice1", operator, PEER), Denied)
    assert access.admit("other", operator, PEER) == Admitted("operator")
    assert access.admit("alice1", alice_too, PEER) == access.admit("alice1", alice, PEER) == Admitted("alice")
    assert access.admit("alice1", bob, PEER) == Admitted("bob"), "it was given to both"
    assert access.refused == {"forged private name": 1}


def test_a_client_certificate_stands_for_its_common_name(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    access = Access(credentials=secrets[0], anonymous=False)
    shown: dict[str, object] = {"subject": ((("organizationName", "x"),), (("commonName", "carol"),))}
    assert access.certified(PEER, shown) == "cert/carol"
    assert access.admit("carol", b"", PEER) == Admitted("cert/carol")
    access.gone(PEER)
    assert isinstance(access.admit("carol", b"", PEER), Denied)
    assert access.certified(PEER, {}) == ""


def test_spreads_clients_have_a_principal_of_their_own(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    access = Access(credentials=secrets[0])
    assert access.admit_spread("bob", PEER) == Admitted("spread/bob")


def test_a_spread_handshake_is_refused_where_credentials_are_required(
    secrets: tuple[Credentials, dict[str, bytes]],
) -> None:
    access = Access(credentials=secrets[0], anonymous=False)
    for port in range(3):
        assert isinstance(access.admit_spread("bob", Address(f"192.0.2.1:{port}")), Denied)
    assert access.refused == {"no credential": 3}
    assert len(access.notes()) == 1, "the port is another each time, the peer is not"


RULES = (
    AccessRule(principals=["alice", "spread/*"], groups=["chat*"], allow=["join", "send"]),
    AccessRule(principals=["*"], groups=["public"], allow=["connect", "send"]),
    AccessRule(principals=["operator"], allow=["connect", "admin"]),
)


def test_what_no_rule_allows_is_refused() -> None:
    access = Access(RULES)
    assert not access.permit("alice", Join("chat-1")) and not access.permit("spread/x", send("chat"))
    assert not access.permit("bob", send("public"))
    assert not access.permit("bob", Leave("chat")) and not access.permit("bob", Disconnect())
    for _ in range(2):
        assert "may not join chat" in access.permit("bob", Join("chat"))
        assert "may not send to chat" in access.permit("bob", send("chat", "public"))
        assert access.permit("alice", send("#bob#d1")), "private messages are sends too"
    assert access.refused == {"forbidden join": 2, "forbidden send": 4}
    assert len(access.notes()) == 3


def test_private_messages_need_a_pattern_for_private_names() -> None:
    access = Access(
        [
            AccessRule(principals=["alice"], groups=["chat*", "#*"]),
            AccessRule(principals=["bob"], groups=["#alice#*"]),
            AccessRule(principals=["carol"], groups=["chat*", "*#d1"]),
            AccessRule(principals=["dave"], groups=["*"]),
        ]
    )
    sends = {
        who: [not access.permit(who, send(name)) for name in ("#bob#d1", "#alice#d2", "#alice2#d2")]
        for who in ("alice", "bob", "carol", "dave", "erin")
    }
    assert sends == {
        "alice": [True, True, True],
        "bob": [False, True, False],
        "carol": [True, False, False],
        "dave": [True, True, True],
        "erin": [False, False, False],
    }
    assert access.permit("alice", Join("#bob#d1")) == "a private group cannot be joined"


def test_who_may_not_connect_is_refused() -> None:
    access = Access([AccessRule(principals=["operator"], allow=["connect"])])
    assert isinstance(access.admit("bob", b"", PEER), Denied)
    assert access.refused == {"may not connect": 1}


def test_without_rules_everything_but_administration(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    credentials, given = secrets
    access = Access(credentials=credentials)
    assert not access.permit("anybody", Join("chat")) and not access.permit("anybody", send("chat"))
    assert isinstance(access.judge_admin(given["operator"], "reload"), Denied)
    assert isinstance(access.judge_admin(b"", "reload"), Denied)


def test_administration_needs_a_principal_that_may(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    credentials, given = secrets
    access = Access(RULES, credentials)
    assert access.judge_admin(given["operator"], "faults") == Admitted("operator")
    assert isinstance(access.judge_admin(given["alice"], "faults"), Denied)
    assert isinstance(access.judge_admin(b"guess", "faults"), Denied)
    assert access.refused == {"forbidden admin": 1, "wrong credential": 1}


def test_development_is_open() -> None:
    access = open_access()
    assert access.admit("bob", b"", PEER) == Admitted("anonymous")
    assert access.judge_admin(b"", "faults") == Admitted("anonymous")


def test_a_reload_counts_at_once(secrets: tuple[Credentials, dict[str, bytes]]) -> None:
    access = Access(RULES)
    assert not access.permit("alice", Join("chat"))
    access.replace([AccessRule(principals=["operator"])], secrets[0], False)
    assert access.permit("alice", Join("chat"))


@pytest.mark.parametrize("line", ["too few", "id p zz zz *", "id p 00 00 *"])
def test_a_line_that_cannot_be_understood_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"# comment\n\n{line}\n")
    with pytest.raises(InputError, match="line 3"):
        read_credentials(path)
    with pytest.raises(InputError):
        read_credentials(tmp_path / "missing")
    with pytest.raises(InputError):
        add_credential(path, "with space")


def test_only_servers_join_the_group_of_a_log_or_send_to_it() -> None:
    """A client that may do all that clients do could else speak as a server."""
    group, everything = "$log/books", ("connect", "join", "send")
    for access in (Access(), Access([AccessRule(allow=everything)]), Access([AccessRule(allow=("admin",))])):
        assert "is no server of $log/books" in access.permit("eve", Join(group))
        assert "is no server of $log/books" in access.permit("eve", send(group))
        assert access.refused["forbidden log"] == 2
    servers = Access([AccessRule(allow=everything), AccessRule(principals=["b"], groups=["$log/books"], allow=["log"])])
    assert servers.permit("b", Join(group)) == servers.permit("b", send(group)) == ""
    assert servers.permit("b", Join("$log/other")) and servers.permit("eve", Join(group))
    assert open_access().permit("eve", Join(group)) == ""

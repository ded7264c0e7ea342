"""Spread's clients and the access list: the handshake, names and groups."""

from __future__ import annotations

from pathlib import Path

from isotone.core.contract import Address
from isotone.daemon.security.access import Access, AccessRule
from isotone.daemon.security.credentials import add_credential, read_credentials
from isotone.evs.sessions.admission import Admitted, Denied
from tests.daemon.spread.house import House
from tests.daemon.spread.test_handshake import attempt
from tests.spread_client.protocol import SpreadClient


def house_of(access: Access) -> House:
    def admit(name: str, credential: bytes, peer: Address) -> Admitted | Denied:
        assert not credential
        return access.admit_spread(name, peer)

    return House(admit=admit, permit=access.permit)


def test_a_handshake_is_refused_where_credentials_are_required() -> None:
    access = Access(anonymous=False)
    house = house_of(access)
    view = house.stack("d1").membership.view
    for number in range(3):
        refused = attempt(house, SpreadClient(f"user{number}"))
        assert refused.client.state != "open" and refused.is_ended
    assert access.refused == {"no credential": 3} and len(access.notes()) == 1
    assert house.stack("d1").membership.view == view


def test_names_and_groups_are_judged_as_those_of_other_clients(tmp_path: Path) -> None:
    add_credential(tmp_path / "credentials", "alice", ("alice*",))
    rules = [
        AccessRule(principals=["spread/*"], groups=["chat"]),
        AccessRule(principals=["alice"], groups=["secret"]),
    ]
    access = Access(rules, read_credentials(tmp_path / "credentials"))
    house = house_of(access)
    assert attempt(house, SpreadClient("alice")).client.state != "open"
    assert attempt(house, SpreadClient("bob")).client.state == "open"
    assert access.refused == {"forged private name": 1}

"""How a session begins: versions, names, authentication, rejections, bounds."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.contract import Address, CloseStream, StreamOpened, StreamReceived, WriteStream
from isotone.core.errors import InputError
from isotone.core.ids import ClientId, DaemonId
from isotone.daemon.spread import GatewaySettings, Remark, SpreadGateway
from isotone.daemon.spread.authentication import Authentication, Networks
from isotone.daemon.spread.constants import FRAME_BYTES_MAX
from isotone.evs.sessions.admission import Admitted, Denied
from tests.daemon.spread.house import Guest, House
from tests.spread_client.protocol import SpreadClient

QUOTA, ILLEGAL_NAME, NOT_UNIQUE, VERSION, AUTH = -3, -5, -6, -7, -9
CHOOSING = [(3, 16, 0), (3, 17, 4), (4, 0, 0), (4, 4, 0), (5, 0, 1), (6, 0, 0), (127, 0, 0)]


def attempt(house: House, client: SpreadClient, peer: str = "127.0.0.1:9") -> Guest:
    """Write all that the client wants to; it ends open, rejected, or waiting."""
    guest = house.guest(client, peer=Address(peer))
    guest.write(client.hello())
    for _ in range(4):
        guest.pull()
    return guest


@pytest.mark.parametrize("version", [(3, 1, 0), (3, 8, 0), (3, 14, 0)])
def test_the_oldest_clients_are_accepted_at_once_and_hear_no_patch(version: tuple[int, int, int]) -> None:
    guest = House().guest(client := SpreadClient("user1", version=version))
    guest.write(client.hello())
    assert guest.raw() == [bytes((1, 5, 0, 9)) + b"#user1#d1"]


def test_3_15_has_a_patch_but_no_choice() -> None:
    guest = House().guest(client := SpreadClient("user1", version=(3, 15, 2)))
    assert len(client.hello()) == 10
    guest.write(client.hello())
    assert guest.raw() == [bytes((1, 5, 0, 1, 9)) + b"#user1#d1"]


@pytest.mark.parametrize("version", CHOOSING)
def test_later_clients_choose_a_method(version: tuple[int, int, int]) -> None:
    guest = attempt(House(), SpreadClient("user1", version=version))
    assert (guest.client.state, guest.client.offered) == ("open", ("NULL",))
    assert (guest.client.private_group, guest.client.daemon_version) == ("#user1#d1", (5, 0, 1))


@pytest.mark.parametrize("hello", [b"\x02\x09\x00\x01a", b"\x03\x00\x00\x01a", b"\x80\x00\x00\x00\x01a", b"\xff\xff"])
def test_versions_below_3_1_are_rejected(hello: bytes) -> None:
    house = House()
    guest = house.guest(SpreadClient("a"))
    guest.write(hello)
    assert guest.raw() == [b"\xf9"]
    assert guest.is_ended
    assert house.gateway().counters.turned_away == {"version": 1}


def test_what_comes_in_single_bytes_is_put_together() -> None:
    house = House()
    guest = house.guest(client := SpreadClient("user1"))
    for byte in client.hello():
        assert not guest.raw()
        guest.write(bytes((byte,)))
    assert guest.raw() == [b"\x05NULL "]
    for byte in client.choice() + b"":
        assert not guest.raw()
        guest.write(bytes((byte,)))
    assert client.feed(b"\x05NULL " + guest.raw()[0]) == client.choice()
    assert client.state == "open"
    for byte in client.join("g"):
        guest.write(bytes((byte,)))
    assert guest.expect_view().groups == ("#user1#d1",)


def test_what_comes_at_once_is_taken_in_its_order() -> None:
    house = House()
    guest = house.guest(client := SpreadClient("user1"))
    client.private_group = "#user1#d1"
    guest.write(client.hello() + client.choice() + client.join("g"))
    assert client.feed(b"".join(guest.raw())) == client.choice()  # which it wrote already
    assert client.state == "open"
    assert guest.expect_view().groups == ("#user1#d1",)


def test_who_never_waits_for_an_answer_is_bounded() -> None:
    house = House()
    guest = house.guest(SpreadClient("a"))
    guest.write(b"\x05\x00")
    guest.write(bytes(FRAME_BYTES_MAX))
    assert guest.is_ended
    assert house.gateway().sessions == 0


@pytest.mark.parametrize("name", [b"a b", b"a!", b'"', b"#a", b"a\x7f", b"\xe9", b"a\0"])
def test_names_with_wrong_characters_are_rejected(name: bytes) -> None:
    guest = House().guest(SpreadClient("a"))
    guest.write(bytes((5, 0, 1, 1, len(name))) + name)
    assert guest.raw() == [b"\xfb"]
    assert guest.is_ended


@pytest.mark.parametrize("length", [11, 0x7F, 0x80, 0xFF])
def test_names_with_wrong_lengths_are_rejected_before_they_come(length: int) -> None:
    guest = House().guest(SpreadClient("a"))
    guest.write(bytes((5, 0, 1, 1, length)))
    assert guest.raw() == [b"\xfb"]


@pytest.mark.parametrize("name", ["$", "~~~~~~~~~~", "a#"[:1], "user-1.x"])
def test_names_with_right_characters_are_accepted(name: str) -> None:
    assert attempt(House(), SpreadClient(name)).client.private_group == f"#{name}#d1"


def test_a_name_is_invented_for_who_has_none() -> None:
    house = House()
    names = [attempt(house, SpreadClient("")).client.private_group for _ in range(20)]
    assert len(set(names)) == 20
    for name in names:
        _, private, daemon = name.split("#")
        assert private[0] == "r"
        assert len(private) <= 9
        assert daemon == "d1"


def test_a_name_is_used_once() -> None:
    house = House()
    first = attempt(house, SpreadClient("user1"))
    assert attempt(house, SpreadClient("user1")).client.rejection == NOT_UNIQUE
    assert attempt(house, SpreadClient("USER1")).client.state == "open"
    first.close()
    assert attempt(house, SpreadClient("user1")).client.state == "open"


def test_a_name_counts_while_its_client_has_not_chosen_a_method_and_is_free_when_it_goes() -> None:
    house = House()
    first = house.guest(SpreadClient("user1"))
    first.write(first.client.hello())
    assert attempt(house, SpreadClient("user1")).client.rejection == NOT_UNIQUE
    first.close()
    assert attempt(house, SpreadClient("user1")).client.state == "open"


def test_native_clients_have_names_too() -> None:
    house = House()
    house.native()
    assert attempt(house, SpreadClient("native")).client.rejection == NOT_UNIQUE


def test_a_name_that_only_the_group_service_knows_is_rejected_at_the_end() -> None:
    me = DaemonId("d1", 1)
    gateway = SpreadGateway(me, next_id=lambda name: ClientId(me, name, 7))
    client = SpreadClient("a")
    gateway.handle(StreamOpened(0, -1, Address("p"), True))
    out = gateway.handle(StreamReceived(0, -1, client.hello() + client.choice()))
    assert out[-1] == b4.Ask(ClientId(me, "a", 7), b4.Connect())
    assert gateway.plays(ClientId(me, "a", 7))
    out = gateway.handle(b4.Indicated(0, (ClientId(me, "a", 7),), b4.Refused("connect", "the name is in use")))
    assert [each for each in out if not isinstance(each, Remark)] == [WriteStream(-1, [b"\xfa"]), CloseStream(-1)]
    assert (gateway.sessions, gateway.clients, gateway.counters.turned_away) == (0, (), {"not_unique": 1})


def test_one_more_than_there_may_be_reads_one_byte_before_it_wrote_any() -> None:
    house = House(settings=GatewaySettings(sessions_max=2))
    guests = [attempt(house, SpreadClient(name)) for name in ("a", "b")]
    late = house.guest(SpreadClient("c"))
    assert late.raw() == [b"\xfd"]
    assert late.is_ended
    guests[0].close()
    assert attempt(house, SpreadClient("c")).client.state == "open"


def test_one_more_that_came_in_time_reads_it_in_the_end() -> None:
    house = House(settings=GatewaySettings(sessions_max=1))
    early = house.guest(SpreadClient("a"))
    attempt(house, SpreadClient("b"))
    early.write(early.client.hello())
    early.pull()
    assert early.pull().rejection == QUOTA


def test_who_says_nothing_is_closed_and_holds_up_nobody() -> None:
    house = House(settings=GatewaySettings(handshake_us=1_000_000))
    silent, slow = house.guest(SpreadClient("a")), house.guest(SpreadClient("b"))
    slow.write(slow.client.hello()[:4])
    assert attempt(house, SpreadClient("c")).client.state == "open"
    house.world.run_for(900_000)
    assert not silent.is_ended
    house.world.run_for(200_000)
    assert silent.is_ended
    assert slow.is_ended
    assert house.gateway().counters.turned_away == {"silent": 2}


def test_clients_are_accepted_before_the_first_daemon_view_and_what_they_ask_waits_for_it() -> None:
    house = House("d1", "d2", is_ready=False)
    house.world.run_for(0)
    guest = attempt(house, SpreadClient("a"))
    house.until(lambda: guest.pull().state == "open")
    assert not house.is_together()
    guest.write(guest.client.join("g"))
    assert guest.expect_view().groups == ("#a#d1",)


def test_the_oldest_newcomer_makes_place() -> None:
    house = House(settings=GatewaySettings(handshakes_max=2))
    guests = [house.guest(SpreadClient("a")) for _ in range(3)]
    assert [guest.is_ended for guest in guests] == [True, False, False]


# --- authentication ------------------------------------------------------------------------------------------------


def test_methods_are_offered_in_their_order() -> None:
    guest = attempt(House(settings=GatewaySettings(methods=("NULL", "IP"))), SpreadClient("a"))
    assert guest.client.offered == ("NULL", "IP")
    assert guest.client.state == "open"


@pytest.mark.parametrize("method", ["IP", "null", "OTHER", ""])
def test_a_method_that_is_not_offered_is_rejected(method: str) -> None:
    assert attempt(House(), SpreadClient("a", method=method)).client.rejection == AUTH


def test_only_the_text_before_the_first_zero_counts() -> None:
    guest = House().guest(client := SpreadClient("a"))
    guest.write(client.hello() + b"NULL\0garbage".ljust(30, b"x") + bytes(60))
    assert guest.raw()[-1][:1] == b"\x01"


def test_every_method_that_is_named_must_pass() -> None:
    house = House(settings=GatewaySettings(methods=("NULL", "IP"), networks=("10.0.0.0/8",)))
    guest = house.guest(client := SpreadClient("a"))
    guest.write(client.hello() + b"NULL".ljust(30, b"\0") + b"IP".ljust(60, b"\0"))
    assert guest.raw()[-1] == b"\xf7"


@pytest.mark.parametrize(
    ("peer", "passes"),
    [("127.9.9.9:1", True), ("[::1]:1", True), ("unix:", True), ("10.0.0.1:1", False), ("[fe80::1%eth0]:1", False)],
)
@pytest.mark.parametrize("version", [(5, 0, 1), (3, 15, 0), (3, 10, 0)])
def test_ip_looks_at_the_address_also_of_old_clients(peer: str, passes: bool, version: tuple[int, int, int]) -> None:
    house = House(settings=GatewaySettings(methods=("IP",)))
    guest = attempt(house, SpreadClient("a", method="IP", version=version), peer)
    assert (guest.client.state == "open") is passes
    assert guest.client.rejection == (0 if passes else AUTH)


def test_what_is_required_and_not_offered_is_run_all_the_same() -> None:
    house = House(settings=GatewaySettings(methods=("NULL",), required=("IP",), networks=("10.0.0.0/8",)))
    assert attempt(house, SpreadClient("a"), "10.1.2.3:5").client.state == "open"
    outside = attempt(house, SpreadClient("b"), "11.1.2.3:5")
    assert (outside.client.offered, outside.client.rejection) == (("NULL",), AUTH)


def test_without_methods_there_is_an_empty_list_and_the_end() -> None:
    guest = House(settings=GatewaySettings(methods=())).guest(client := SpreadClient("a"))
    guest.write(client.hello())
    assert guest.raw() == [b"\x00", b"\xf7"]


def test_without_methods_for_old_clients_they_are_rejected() -> None:
    house = House(settings=GatewaySettings(methods=("PWORD",)), check_password=lambda user, password: True)
    assert attempt(house, SpreadClient("a", version=(3, 15, 0))).client.rejection == AUTH


@pytest.mark.parametrize(("password", "state"), [("secret", "open"), ("Secret", "rejected"), ("", "rejected")])
def test_a_password(password: str, state: str) -> None:
    asked = []

    def check(user: str, password: str) -> bool:
        asked.append((user, password))
        return (user, password) == ("ann", "secret")

    house = House(settings=GatewaySettings(methods=("PWORD",)), check_password=check)
    guest = attempt(house, SpreadClient("a", method="PWORD", password=("ann", password)))
    assert guest.client.state == state
    assert guest.client.rejection == (0 if state == "open" else AUTH)
    assert asked == [("ann", password)]


def test_a_password_that_is_required_must_be_chosen() -> None:
    settings = GatewaySettings(methods=("NULL", "PWORD"), required=("PWORD",))
    house = House(settings=settings, check_password=lambda user, password: True)
    assert attempt(house, SpreadClient("a")).client.rejection == AUTH
    assert attempt(house, SpreadClient("b", method="PWORD")).client.state == "open"


def test_who_is_not_admitted_is_rejected() -> None:
    def admit(name: str, credential: bytes, peer: Address) -> Admitted | Denied:
        assert (credential, peer) == (b"", "127.0.0.1:9")
        return Admitted() if name == "good" else Denied("credentials are required")

    house = House(admit=admit)
    assert attempt(house, SpreadClient("good")).client.state == "open"
    bad = attempt(house, SpreadClient("bad"))
    assert (bad.client.rejection, bad.is_ended) == (AUTH, True)
    (remark,) = house.booth().remarks
    assert (remark.code, remark.reason) == ("authentication", "credentials are required")
    assert house.gateway().counters.turned_away == {"authentication": 1}


@pytest.mark.parametrize(
    "settings",
    [
        GatewaySettings(methods=("KERBEROS",)),
        GatewaySettings(required=("PWORD",)),
        GatewaySettings(networks=("10/8/8",)),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(settings: GatewaySettings) -> None:
    with pytest.raises(InputError):
        Authentication(settings)


def test_networks_as_in_a_file_of_spread() -> None:
    networks = Networks(("local", "192.168.1.7", "2001:db8::/32"))
    heard = ["127.0.0.1:1", "[::ffff:127.0.0.1]:1", "192.168.1.7:1", "[2001:db8::5]:1", "192.168.1.8:1", "unix:/x", "?"]
    assert [networks.have(Address(peer)) for peer in heard] == [True, True, True, True, False, False, False]

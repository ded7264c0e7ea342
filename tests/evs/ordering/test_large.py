"""Large messages above the ordering: cut, stamped piece by piece, joined, begun anew in the next view."""

from __future__ import annotations

import pytest

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.choice import Choice
from isotone.core.errors import LocalProtocolError
from isotone.core.services import Service
from isotone.evs.links.fragments import OPEN_MAX
from isotone.evs.ordering.delivery import Delivery
from isotone.evs.ordering.large import ENCODED_BYTES_MAX, Joining, drafts_of
from isotone.evs.ordering.lines import Lines
from isotone.evs.ordering.stamper import Draft, Stamper
from isotone.evs.ordering.units import Unit, UnitKind


def message(session: str, size: int, service: Service = Service.AGREED, kind: UnitKind = UnitKind.BUNDLE) -> Draft:
    return Draft(session, kind, service, Choice(f"{session} {size}").word().to_bytes(8, "big") * (size // 8))


def stamper(daemon: int = 0) -> Stamper:
    return Stamper(site=0, daemon=daemon, delivery=Delivery(Lines.of(1)), window_bytes=1 << 40)


def stamped(each: Stamper, bytes_max: int = 1 << 40) -> list[Unit]:
    sequence, lamport = each.promise
    each.originate(site_sequence=sequence, site_lamport=lamport, bytes_max=bytes_max)
    return each.take_born()


def test_what_fits_a_unit_stays_as_it_is() -> None:
    draft = message("s", BUNDLE_BYTES_MAX)
    assert drafts_of(draft, number=1) == [draft]


def test_fragments_fit_a_unit_and_none_is_a_copy() -> None:
    drafts = drafts_of(message("s", 10 * BUNDLE_BYTES_MAX), number=1)
    assert len(drafts) == 11 and all(len(draft.body) <= BUNDLE_BYTES_MAX for draft in drafts)
    assert all(draft.kind is UnitKind.FRAGMENT and draft.large is drafts[0].large for draft in drafts)
    assert len({id(memoryview(draft.body).obj) for draft in drafts}) == 1


def test_a_message_over_the_limit_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        drafts_of(message("s", ENCODED_BYTES_MAX + 8), number=1)


@pytest.mark.parametrize("kind", [UnitKind.BUNDLE, UnitKind.GROUPS, UnitKind.MEMBERSHIP])
def test_a_message_comes_back_at_the_place_of_its_last_fragment(kind: UnitKind) -> None:
    each = stamper()
    large, small = message("s", 200_000, kind=kind), Draft("t", UnitKind.BUNDLE, Service.AGREED, b"small")
    each.submit([*drafts_of(large, number=1), small])
    units = stamped(each)
    joined = Joining(1).join(units)
    assert [(unit.kind, bytes(unit.body)) for unit in joined] == [(UnitKind.BUNDLE, b"small"), (kind, large.body)]
    assert joined[1].position == units[-1].position and joined[1].sequence == units[-1].sequence


def test_whatever_the_order_of_arrival_the_stamp_is_the_same() -> None:
    each = stamper()
    each.submit(drafts_of(message("s", 300_000, Service.RELIABLE), number=1))
    units = stamped(each)
    for seed in range(20):
        order = list(units)
        Choice(seed).shuffle(order)
        (joined,) = Joining(1).join(order)
        assert joined == Joining(1).join(units)[0]


def test_messages_of_many_sessions_and_daemons_do_not_mix() -> None:
    units: list[Unit] = []
    for daemon in range(2):
        each = stamper(daemon)
        for number in range(6):
            each.submit(drafts_of(message(f"s{number}", 150_000 + 8 * number), number=number))
        units += stamped(each)
    joining = Joining(2)
    joined = joining.join(sorted(units, key=lambda unit: unit.position))
    assert sorted(len(unit.body) for unit in joined) == sorted(2 * [150_000 + 8 * number for number in range(6)])
    assert joining.held_bytes == 0 and joining.malformed == 0


def test_a_daemon_begins_only_so_many_large_messages_at_a_time() -> None:
    """Otherwise who joins them would hold a part of every one."""
    each = stamper()
    for number in range(3 * OPEN_MAX):
        each.submit(drafts_of(message(f"s{number}", 300_000), number=number))
    joining, most = Joining(1), 0
    done = 0
    while units := stamped(each, bytes_max=1):
        done += len(joining.join(units))
        most = max(most, len(joining._last))
    assert done == 3 * OPEN_MAX and most == OPEN_MAX


def test_lies_about_fragments_are_counted() -> None:
    joining = Joining(1)
    for body in [b"", b"\x09" + bytes(16), b"\x01", b"\x01" + bytes(8) + b"\xff" * 8 + b"x"]:
        assert joining.join([Unit(UnitKind.FRAGMENT, Service.AGREED, 0, 0, 1, 1, 0, body)]) == []
    assert joining.malformed == 4


# --- the end of a view -----------------------------------------------------------------------------------------------


def test_what_was_not_stamped_waits_for_the_next_view_in_order() -> None:
    each = stamper()
    drafts = [Draft(session, UnitKind.BUNDLE, Service.FIFO, bytes([number])) for number in range(3) for session in "ab"]
    each.submit(drafts)
    first = stamped(each, bytes_max=1)
    left = each.take_unstamped()
    assert [unit.body for unit in first] == [b"\0"]
    assert [draft.body for draft in left if draft.session == "a"] == [b"\1", b"\2"]
    assert [draft.body for draft in left if draft.session == "b"] == [b"\0", b"\1", b"\2"]
    assert each.waiting_bytes == 0 and not each.is_waiting() and each.take_unstamped() == []


def test_a_large_message_that_was_begun_starts_anew() -> None:
    each = stamper()
    large, after = message("s", 300_000), Draft("s", UnitKind.BUNDLE, Service.AGREED, b"after")
    pieces = drafts_of(large, number=1)
    each.submit([*pieces, after])
    joining = Joining(1)
    assert joining.join(stamped(each, bytes_max=100_000)) == [] and joining.held_bytes
    left = each.take_unstamped()
    assert left == [*pieces, after]
    following = stamper()
    following.submit(left)
    assert [bytes(unit.body) for unit in Joining(1).join(stamped(following))] == [large.body, b"after"]


def test_one_that_was_stamped_to_the_end_does_not() -> None:
    each = stamper()
    each.submit(drafts_of(message("s", 100_000), number=1))
    second = drafts_of(message("s", 100_008), number=2)
    each.submit(second)
    stamped(each, bytes_max=BUNDLE_BYTES_MAX + 1000)
    assert each.take_unstamped() == second


def test_what_was_stamped_and_never_left_is_not_lost() -> None:
    """A link failed in the very moment of stamping."""
    each = stamper()
    drafts = [Draft("s", UnitKind.BUNDLE, Service.AGREED, bytes([number])) for number in range(2)]
    each.submit(drafts)
    each.originate(site_sequence=0, site_lamport=0, bytes_max=1)
    assert each.take_unstamped() == drafts and not each.has_born

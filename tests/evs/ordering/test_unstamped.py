"""What a daemon view ends before it was stamped."""

from __future__ import annotations

from isotone.core.bundles import BUNDLE_BYTES_MAX
from isotone.core.services import Service
from isotone.evs.ordering.large import drafts_of
from isotone.evs.ordering.stamper import Draft
from isotone.evs.ordering.units import UnitKind
from tests.evs.ordering.test_large import message, stamped, stamper


def test_a_single_draft_is_kept() -> None:
    each = stamper()
    only = Draft("s", UnitKind.BUNDLE, Service.FIFO, b"only")
    each.submit([only])
    assert each.take_unstamped() == [only]


def test_a_large_message_starts_anew_though_only_its_end_is_missing() -> None:
    each = stamper()
    pieces, after = drafts_of(message("s", 100_000), number=1), Draft("s", UnitKind.BUNDLE, Service.FIFO, b"after")
    assert len(pieces) == 2
    each.submit([*pieces, after])
    assert len(stamped(each, bytes_max=BUNDLE_BYTES_MAX)) == 1
    assert each.take_unstamped() == [*pieces, after]
